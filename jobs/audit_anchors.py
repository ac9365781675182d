"""Writes the audit log's end to a second place at intervals: a file, and a webhook where one is set."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from jobs.channels import NotSent, post
from screening.settings import Settings
from storage.audit_log import Anchor, anchor
from storage.database import Database
from storage.site import outbox
from storage.site.health import Fault

_LONGEST_LINE = 1_000


def anchor_if_due(db: Database, settings: Settings, now: datetime) -> Anchor | None:
    """Write an anchor where enough events or minutes have passed since the one that the file ends with; what was
    written. A place that cannot be written is a fault of the site: it is told, and tried again at the next round.
    """
    made = anchor(db)
    try:
        if not _is_due(settings, made, now):
            return None
        if settings.audit_anchor_webhook:
            _post(settings, settings.audit_anchor_webhook, made, now)
        _write(settings.anchor_file, made, now)  # last: with it the anchor is made
    except (OSError, NotSent, ValueError):
        outbox.keep_fault(db, Fault.ANCHOR, now, down=True)
        return None
    outbox.keep_fault(db, Fault.ANCHOR, now, down=False)
    return made


def _is_due(settings: Settings, end: Anchor, now: datetime) -> bool:
    last = _last_line(settings.anchor_file)
    if last is None:
        return end.count > 0
    more = end.count - last[0]
    minutes = timedelta(minutes=settings.audit_anchor_minutes)
    return more >= settings.audit_anchor_events or (more > 0 and now - last[1] >= minutes)


def _last_line(path: Path) -> tuple[int, datetime] | None:
    """How many events the log had at the last anchor in the file, and when that was written; None without one."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LONGEST_LINE))
        lines = file.read().splitlines()
    try:
        last = json.loads(lines[-1])
        return int(last["count"]), datetime.fromisoformat(last["at"])
    except (IndexError, KeyError, TypeError, ValueError):  # empty, cut off in the middle, or put there by hand
        return None


def kept_anchors(settings: Settings) -> tuple[Anchor, ...]:
    """The anchors in the file; empty without a file. ValueError for a line that is none."""
    return read_anchors(settings.anchor_file) if settings.anchor_file.exists() else ()


def read_anchors(path: Path) -> tuple[Anchor, ...]:
    """The anchors of a file, one a line. ValueError for a line that is none."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(Anchor.from_json(line) for line in lines if line.strip())


def _write(path: Path, made: Anchor, now: datetime) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({**json.loads(made.as_json()), "at": now.isoformat(timespec="seconds")}, sort_keys=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+b") as file:
        _end_last_line(file)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _end_last_line(file: BinaryIO) -> None:
    """Let the next anchor begin a line of its own. What a full disk or a power cut left of one goes."""
    file.seek(0)
    kept = file.read()
    begun = kept.rfind(b"\n") + 1
    if begun == len(kept):
        return
    try:
        Anchor.from_json(kept[begun:].decode())
        file.write(b"\n")
    except ValueError:
        file.truncate(begun)


def _post(settings: Settings, address: str, made: Anchor, now: datetime) -> None:
    told = json.loads(made.as_json())
    private = settings.notify_private_addresses
    post(address, settings.audit_secret, made.last_hash, told, int(now.timestamp()), private=private)
