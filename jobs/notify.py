"""Tells people what waits, and a second place how far the audit log is: a file, and a webhook where one is set. Every
worker and the app run this in threads; one process at a time has the duty.

The app watches as well because a dead worker tells nobody. Screening never waits for this: it reads tables, writes its
own, and sends from its own threads.
"""

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic, thread_time
from typing import Any, BinaryIO, Literal

from jobs import channels
from jobs.channels import NotSent
from jobs.intake import OpenFiles
from jobs.process import Clock, tell
from screening.settings import Settings
from screening.words import count_of
from storage.audit_log import Anchor, anchor
from storage.batches import entries, intake
from storage.database import Database, passing_fault
from storage.review import erasure
from storage.settings_store import current
from storage.site import health, outbox
from storage.site.outbox import Kind, Message, Notice

DUTY = "notifications"
LOOK_EVERY_S = 3.0
BRING_IN_EVERY_S = 10.0
HELD_FOR = timedelta(seconds=60)
"""How long the duty lasts: after a process dies, another takes over within this time plus `NOT_MINE_FOR`."""
NOT_MINE_FOR = timedelta(seconds=5)
HEARTBEAT_EVERY = timedelta(minutes=1)
ANCHOR_EVERY = timedelta(seconds=20)
PROGRESS_EVERY = timedelta(seconds=30)
FAULTS_EVERY = timedelta(seconds=15)
"""How often faults are looked for where no recipient exists: they are recorded for the pages only."""
EXPIRE_EVERY = timedelta(hours=1)
LONG_S, RESTS = 0.2, 10
"""After a look that took more processor time than this, the next one waits that many times as long as the look took
(with 100,000 late cases it takes a second).
"""
SENDERS = 8
"""Messages sent at the same time; each ends well before the duty has to be renewed."""
log = logging.getLogger(__name__)

_FAULTS = {
    "workers": "No worker is running: nothing is screened.",
    "model": "The model cannot be reached, or gives no usable answers: nothing is screened.",
    "files": "Part of a file was not imported. Those texts are not screened or reviewed.",
    "anchor": "The anchor of the audit log could not be written to its second place.",
}


def words(notice: Notice, link: str | None) -> tuple[str, str]:
    """Title and text of a message: a priority, a number and a link, or which fault.

    >>> from screening.review.triage import Priority
    >>> words(Notice(event="arrived", priority=Priority.P0, count=3), None)
    ('Second Look: P0', '3 cases of priority P0 are in the queue and nobody has opened them.')
    """
    number, name = notice.count, "" if notice.priority is None else notice.priority.name
    one, several = f"case of priority {name} is", f"cases of priority {name} are"
    if notice.event == "test":
        title, said = "test", "This is a test. There is nothing to do."
    elif notice.event == "fault":
        fault, over, _ = str(notice.what).partition("_over")
        said = _FAULTS.get(fault, "Something is wrong.")
        title, said = ("over", f"Over: {said}") if over else ("fault", said)
    elif notice.event == "follow_up":
        title = "follow-up overdue"
        said = f"{count_of(number, 'case has', 'cases have')} a follow-up that is overdue and not closed."
    elif notice.event == "overdue":
        title, said = f"{name} overdue", f"{count_of(number, one, several)} overdue in the queue."
    else:
        of_it = "it" if number == 1 else "them"
        title, said = name, f"{count_of(number, one, several)} in the queue and nobody has opened {of_it}."
    return f"Second Look: {title}", said if link is None else f"{said}\n{link}"


def body_of(message: Message, link: str | None, now: datetime) -> Mapping[str, Any]:
    title, text = words(message, link)
    told = {"id": message.id, "event": message.event, "fault": message.what, "count": message.count}
    told["priority"] = None if message.priority is None else message.priority.name
    return told | {"title": title, "text": text, "link": link, "sent_at": now.isoformat(timespec="seconds")}


@dataclass(slots=True, kw_only=True)
class Notifier:
    """The notifications of one process, called ``name``. `start` it once, `stop` it at the end."""

    db: Database
    settings: Settings
    name: str
    kind: Literal["worker", "app"]
    clock: Clock
    _stopping: threading.Event = field(default_factory=threading.Event)
    _open_files: OpenFiles = field(default_factory=OpenFiles)
    _done_at: dict[str, datetime] = field(default_factory=dict)
    _mine: bool = False
    _rest: timedelta = timedelta()
    """How long after a look for news the next one waits."""

    def start(self) -> None:
        """Start threads that do not keep the process alive: one writes heartbeats, one tells people, one enters cases
        that a fault keeps from being screened into the inbox (a dead worker cannot).
        """
        works: tuple[tuple[Callable[[], object], float], ...] = (
            (lambda: health.beat(self.db, self.name, self.kind, self.clock()), health.BEAT_EVERY_S),
            (self.round, LOOK_EVERY_S),
            (lambda: entries.bring_in(self.db, self.clock()), BRING_IN_EVERY_S),
        )
        for work, every_s in works:
            threading.Thread(target=self._again, args=(work, every_s), name="notifications", daemon=True).start()

    def stop(self) -> None:
        """Ask the threads to end, and give up the duty; messages not sent by then stay in the outbox."""
        self._stopping.set()
        with suppress(Exception):
            health.end(self.db, self.name)
            health.leave(self.db, DUTY, self.name, self.clock())

    def _again(self, work: Callable[[], object], every_s: float) -> None:
        """Do the work again and again; a fault in it is logged and ends nothing."""
        while not self._stopping.is_set():
            try:
                work()
            except Exception as problem:
                if (fault := passing_fault(problem)) is not None:
                    tell(fault, monotonic())
                else:
                    log.error("notifications: %s", type(problem).__name__)
            self._stopping.wait(every_s)

    def round(self) -> int:
        """Look, tell and send, where this process has the duty; the number of messages sent."""
        now = self.clock()
        if self._due("duty", HELD_FOR / 3 if self._mine else NOT_MINE_FOR, now):  # not each time, because asking writes
            self._mine = health.take(self.db, DUTY, self.name, now, HELD_FOR)
        if not self._mine:
            return 0
        if self._due("anchor", ANCHOR_EVERY, now):
            anchor_if_due(self.db, self.settings, now)
        if self._due("expiry", EXPIRE_EVERY, now):  # also where it fails: that must not end every round
            self._expire(now)
        if self._due("progress", PROGRESS_EVERY, now):
            self._no_progress(now)
        if not (self._due("faults", FAULTS_EVERY, now) or outbox.somebody(self.db)):
            return 0
        if self._due("news", self._rest, now):
            begun = thread_time()
            outbox.collect(self.db, now)
            took = thread_time() - begun
            self._rest = timedelta(seconds=RESTS * took if took > LONG_S else 0)
        due = outbox.take_due(self.db, now, SENDERS)
        monitors: tuple[tuple[str, str], ...] = ()
        if self._due("monitors", HEARTBEAT_EVERY, now) and health.live_workers(self.db, now):
            monitors = outbox.monitors(self.db)  # while no worker lives they hear nothing, and raise the alarm
        if not due and not monitors:
            return 0
        with ThreadPoolExecutor(SENDERS, "sending") as pool:  # a slow receiver does not hold up the others
            beats = [pool.submit(self._tell_monitor, *monitor, now) for monitor in monitors]
            sent = list(pool.map(self._send, due))
            for beat in beats:
                beat.result()
        return sum(sent)

    def _due(self, what: str, every: timedelta, now: datetime) -> bool:
        """Whether it is time for this; if so, the next interval begins. Also for the first time, and where the clock
        was set back since: else it would be due who knows when.
        """
        done_at = self._done_at.get(what)
        due = done_at is None or not timedelta() <= now - done_at < every
        if due:
            self._done_at[what] = now
        return due

    def _expire(self, now: datetime) -> None:
        """Close the batches of days that are over, and delete what is older than the settings allow."""
        intake.close_past_days(self.db, now)
        if erasure.expire(self.db, now).get("texts") == erasure.AT_ONCE:
            del self._done_at["expiry"]  # there may be more

    def _no_progress(self, now: datetime) -> None:
        """Look for cases that wait without any error (a service that does not answer is a fault too), and for files
        that nobody takes in.
        """
        self._open_files.look(self.db, now)
        outbox.keep_fault(self.db, health.Fault.FILES, now, down=bool(entries.files_halted_since(self.db)))
        still = entries.stalled_batches(self.db, now, health.LOOK_BACK)
        if any(one.cause == entries.NO_PROGRESS for one in still):
            outbox.keep_fault(self.db, health.Fault.MODEL, now, down=True)

    def _send(self, message: Message) -> bool:
        private, now, problem = self.settings.notify_private_addresses, self.clock(), None
        address = current(self.db).settings.public_address
        link = f"{address.rstrip('/')}/inbox" if address else None
        try:
            if message.kind is Kind.WEBHOOK:
                body, timestamp = body_of(message, link, now), int(now.timestamp())
                channels.post(message.target, message.secret, message.id, body, timestamp, private=private)
            else:
                channels.send(message.target, *words(message, link), private=private)
        except (NotSent, ValueError) as failed:
            problem = str(failed)
            log.warning("a notification did not go out: %s", problem)
        outbox.record_try(self.db, message, problem, self.clock())
        return problem is None

    def _tell_monitor(self, recipient_id: str, address: str, now: datetime) -> None:
        private, timestamp, problem = self.settings.notify_private_addresses, int(now.timestamp()), None
        try:
            channels.post(address, None, f"{recipient_id}-{timestamp}", {"status": "ok"}, timestamp, private=private)
        except (NotSent, ValueError) as failed:
            problem = str(failed)
        outbox.record_heartbeat(self.db, recipient_id, problem, now)


_LONGEST_LINE = 1_000


def anchor_if_due(db: Database, settings: Settings, now: datetime) -> Anchor | None:
    """Write an anchor where enough events or minutes have passed since the one that the file ends with; what was
    written. A place that cannot be written is a fault of the site: it is told, and tried again at the next round.
    """
    made = anchor(db)
    try:
        if not _is_due(settings, made, now):
            return None
        if webhook := settings.audit_anchor_webhook:
            told, private = json.loads(made.as_json()), settings.notify_private_addresses
            channels.post(webhook, settings.audit_secret, made.last_hash, told, int(now.timestamp()), private=private)
        _write(settings.anchor_file, made, now)  # last: with it the anchor is made
    except (OSError, NotSent, ValueError):
        outbox.keep_fault(db, health.Fault.ANCHOR, now, down=True)
        return None
    outbox.keep_fault(db, health.Fault.ANCHOR, now, down=False)
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
