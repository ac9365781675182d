"""Writes the audit log's end to a second place at intervals: a file, and a webhook where one is set."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from jobs import notifications_webhook
from jobs.notifications_webhook import NotSent
from screening.settings import Settings
from storage.audit_log import Anchor
from storage.database import Database
from storage.site import audit_seals, notices
from storage.site.anchoring import due_anchor, record_anchor
from storage.site.faults import Fault


def anchor_if_due(db: Database, settings: Settings, now: datetime) -> Anchor | None:
    """Seal what was added, and write an anchor where enough events or minutes have passed; what was written.

    A place that cannot be written is a fault of the site: it is told, and tried again at the next round.
    """
    audit_seals.seal(db, now)
    every = timedelta(minutes=settings.audit_anchor_minutes)
    made = due_anchor(db, now, settings.audit_anchor_events, every)
    if made is None:
        return None
    try:
        _write(settings.anchor_file, made, now)
        if settings.audit_anchor_webhook:
            _post(settings, settings.audit_anchor_webhook, made, now)
    except (OSError, NotSent, ValueError):
        notices.keep_fault(db, Fault.ANCHOR, now, down=True)
        return None
    record_anchor(db, made, now)
    notices.keep_fault(db, Fault.ANCHOR, now, down=False)
    return made


def kept_anchors(settings: Settings) -> tuple[Anchor, ...]:
    """The anchors in the file; empty without a file. ValueError for a line that is none."""
    if not settings.anchor_file.exists():
        return ()
    return read_anchors(settings.anchor_file)


def read_anchors(path: Path) -> tuple[Anchor, ...]:
    """The anchors of a file, one a line. ValueError for a line that is none."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(_anchor_of(line) for line in lines if line.strip())


def _anchor_of(line: str) -> Anchor:
    """The anchor of a line. Earlier versions wrote on where a full disk had cut a line off: what was begun there was
    never recorded as written, and the whole one behind it counts.
    """
    try:
        return Anchor.from_json(line)
    except ValueError:
        begun, _, whole = line.rpartition("{")
        if not begun.startswith("{"):
            raise
        return Anchor.from_json("{" + whole)


def _write(path: Path, made: Anchor, now: datetime) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({**json.loads(made.as_json()), "at": now.isoformat(timespec="seconds")}, sort_keys=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+b") as file:
        _end_last_line(file)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _end_last_line(file: BinaryIO) -> None:
    """Let the next anchor begin a line of its own. What a full disk or a power cut left of one goes: it was never
    recorded as written, and no check could read the file with it.
    """
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
    notifications_webhook.post(
        address, settings.audit_secret, made.last_hash, told, int(now.timestamp()), private=private
    )
