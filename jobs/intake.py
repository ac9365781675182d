"""Storing the rows of a file in a batch: one way for the upload page and the command line; and uploaded files on disk
under random names: the name they came with is only ever a label.
"""

import hashlib
import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

from jobs.agents import describe_agents, overnight_obstacle
from jobs.process import Clock, retry
from screening.datasets.mapping import ColumnMapping, column_mapping
from screening.datasets.reader import Table, read_table
from screening.datasets.rows import FileRefused, NewCase
from screening.labels import Label
from screening.pipeline.config import PipelineConfig, preset
from screening.review.policy import SYSTEM, Actor
from screening.settings import Settings
from screening.text.display import MASKING_VERSION, file_label
from screening.text.flags import Flag
from screening.text.injection import injection_flags
from screening.text.received import ReceivedText, receive
from screening.words import count_of
from storage.batches.batch_state import UnknownBatch
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import Configuration, active_version, save_configuration
from storage.batches.intake import (
    IntakeClosed,
    OpenFile,
    add_rows,
    close_intake,
    last_row,
    open_files,
    resume_intake,
    stop_intake,
    takes_rows,
)
from storage.database import Database
from storage.settings_store import current

MOST_LOST = 100
"""Connections lost while one file is taken in, which goes on after the last row that is in."""


def require_overnight(db: Database, settings: Settings, pipeline: PipelineConfig, unlabelled: int) -> None:
    """ValueError unless an administrator allows it, the agents can be asked so, and no row is without a label."""
    if not current(db).settings.overnight_allowed:
        raise ValueError("an administrator has not allowed message batches (Settings, Site)")
    if why := overnight_obstacle(settings, pipeline):
        raise ValueError(why[0].lower() + why[1:].rstrip("."))
    if unlabelled:
        rows = count_of(unlabelled, "row has", "rows have")
        raise ValueError(f"{rows} no reference label: message batches are for research files alone")


def unlabelled_rows(table: Table, settings: Settings) -> int:
    """Rows that would be taken in without a reference label; reads the file once."""
    take = receiver(settings)
    return sum(isinstance(row, NewCase) and row.reference is None for row in table.rows(take))


def receiver(settings: Settings) -> Callable[[str], ReceivedText]:
    """How this site takes a text in. What is found in a text is kept by its hash, for a file is read when it is
    checked, whenever its columns are changed, and when it is taken in.
    """
    limit, languages = settings.max_text_characters, settings.languages
    kept = _findings(limit, languages)
    return partial(receive, limit=limit, languages=languages, detectors=(injection_flags,), kept=kept)


@cache
def _findings(_limit: int, _languages: tuple[str, ...]) -> dict[str, frozenset[Flag]]:
    return {}


def usual_pipeline(db: Database, settings: Settings) -> PipelineConfig:
    own = active_version(db)
    return own.pipeline if own else preset(settings.preset, budget=settings.budget)


def configuration(settings: Settings, pipeline: PipelineConfig) -> Configuration:
    """The configuration of a screening that begins now: everything its outcomes depend on."""
    texts = {"max_text_characters": settings.max_text_characters, "languages": list(settings.languages)}
    masking = {"masking": MASKING_VERSION} if settings.mask_before_sending else {}
    return Configuration(pipeline=pipeline, sampler=describe_agents(settings, pipeline), texts={**texts, **masking})


def open_batch(
    db: Database, actor: Actor, pipeline: PipelineConfig, new: NewBatch, settings: Settings, clock: Clock
) -> str:
    """Create an empty batch for rows, or one text, as things stand now; its id. ValueError as `require_overnight`."""
    if new.overnight:
        require_overnight(db, settings, pipeline, 0)
    version = save_configuration(db, configuration(settings, pipeline), clock())
    return create_batch(db, actor.at(clock()), new, version, seed=settings.seed, audit_rate=settings.audit_rate)


def fill_batch(
    db: Database,
    actor: Actor,
    batch_id: str,
    table: Table,
    settings: Settings,
    clock: Clock,
    tell: Callable[[int], None] = lambda rows: None,
) -> None:
    """Store all rows of the file, accepted and rejected, in chunks. After a crash, call it again: it continues.
    ``tell`` is called with the number of each row that was looked at.
    """
    resume_intake(db, SYSTEM.at(clock()), batch_id)
    add_rows(db, batch_id, table.rows(receiver(settings), last_row(db, batch_id), tell), clock())
    close_intake(db, actor.at(clock()), batch_id)


NOBODY = "nobody_takes_in"
LOOKS = 30
"""So often nothing more may have come of a file before it counts as given up. Looks, not minutes: while the database is
away nobody can take anything in, and nobody looks.
"""


@dataclass(slots=True)
class OpenFiles:
    """Files whose rows are still coming, as they were last seen: of one that stands still for `LOOKS` looks, with no
    file before it that moves, it is recorded that nobody takes it in. A process that was killed cannot say so itself.
    """

    _seen: dict[str, tuple[OpenFile, int]] = field(default_factory=dict)

    def look(self, db: Database, now: datetime) -> None:
        """Record of each file that nobody takes it in, and that somebody does after all."""
        found = open_files(db)
        moved = any(file.in_line for batch_id, (file, _) in self._seen.items() if batch_id not in found)
        for batch_id, file in found.items():
            before, looks = self._seen.get(batch_id, (file, 0))
            moved |= file.in_line and file != before
            stands = file == before and not (file.in_line and moved)  # else it moves, or the line before it does
            if file.missing is None and stands and looks == LOOKS:
                stop_intake(db, SYSTEM.at(now), batch_id, NOBODY)
                file = replace(file, missing=NOBODY)
            elif file.missing == NOBODY and file.rows > before.rows:
                resume_intake(db, SYSTEM.at(now), batch_id)
                file = replace(file, missing=None)
            self._seen[batch_id] = file, looks + 1 if stands else 1
        self._seen = {batch_id: self._seen[batch_id] for batch_id in found}


KEPT_S = 24 * 3600
"""How long a file is kept that nobody made a batch of."""
BY_PEOPLE, BY_PROGRAMS = "uploads", "programs"
FOLDERS = (BY_PEOPLE, BY_PROGRAMS)
"""Below the data directory, where files lie until their rows are in."""
_TOKEN = re.compile(r"[0-9a-f]{32}")
_CHUNK = 1 << 20
_beginning = threading.Lock()
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One kept file. What follows ``sha256`` is set when it is made a batch of."""

    token: str
    path: Path
    name: str
    owner: str
    sha256: str
    batch_id: str | None = None
    mapping: ColumnMapping | None = None
    label_values: dict[str, Label | None] | None = None
    sheet: str | None = None


def keep(directory: Path, name: str, content: BinaryIO, owner: str) -> Upload:
    """Write it under a random name, and beside it what is known of it."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    purge(directory)
    token = secrets.token_hex(16)
    path, digest = directory / token, hashlib.sha256()
    with path.open("wb") as file:
        path.chmod(0o600)
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    upload = Upload(token=token, path=path, name=file_label(name), owner=owner, sha256=digest.hexdigest())
    remember(upload)
    return upload


def remember(upload: Upload) -> None:
    """Write down what is known of the file: all of it or, where the process dies over it, what was known before."""
    described = asdict(upload) | {"path": upload.path.name}
    written = upload.path.with_suffix(".part")
    written.touch(mode=0o600)
    written.write_text(json.dumps(described), encoding="utf-8")
    written.replace(upload.path.with_suffix(".json"))


def begin(upload: Upload, open_batch: Callable[[], str]) -> Upload:
    """The upload, as it was confirmed, as the source of a new batch. A file becomes one batch, however often and from
    how many windows it is started: the first stays. FileNotFoundError when it was put away meanwhile.
    """
    with _beginning:
        known = _read(upload.path.with_suffix(".json"))
        if known is None:
            raise FileNotFoundError("the file was put away")
        if known.batch_id:
            return known
        changed = replace(upload, batch_id=open_batch())
        remember(changed)
        return changed


def find(directory: Path, token: str, owner: str) -> Upload | None:
    """The file of this token if it is this person's, else None."""
    upload = _read(directory / f"{token}.json") if _TOKEN.fullmatch(token) else None
    return upload if upload and upload.owner == owner else None


def unfinished_uploads(directory: Path) -> Iterator[Upload]:
    """The files whose batch has not taken in all of their rows yet."""
    for upload in map(_read, directory.glob("*.json")):
        if upload and upload.batch_id:
            yield upload


def uploaded_table(upload: Upload) -> Table:
    """Raises FileRefused, FileNotFoundError."""
    return read_table(
        upload.path, upload.name, mapping=upload.mapping, label_values=upload.label_values, sheet=upload.sheet
    )


def take_in(db: Database, upload: Upload, table: Table | None, settings: Settings, clock: Clock) -> None:
    """Take rows of the file into its batch until that takes no more, across faults that pass. ``table`` is what is
    known of it, to spare a profile. Raises what stands in the way of rows; the batch then says that they are missing.
    """
    batch_id = str(upload.batch_id)

    def fill() -> None:
        try:
            if takes_rows(db, batch_id):
                fill_batch(db, SYSTEM, batch_id, table or uploaded_table(upload), settings, clock)
        except (IntakeClosed, UnknownBatch):
            log.info("the batch of a file takes no more rows")
        except Exception:
            if takes_rows(db, batch_id):
                raise

    try:
        retry(fill, most_lost=MOST_LOST)
    except Exception as error:
        why = "file_refused" if isinstance(error, FileRefused) else "internal_error"
        with suppress(Exception):  # what stands in the way of the rows is what is raised
            retry(lambda: stop_intake(db, SYSTEM.at(clock()), batch_id, why), most_lost=MOST_LOST)
        raise


def discard(upload: Upload) -> None:
    """Remove the file: its rows are in the database, or nobody wants them."""
    upload.path.unlink(missing_ok=True)
    upload.path.with_suffix(".json").unlink(missing_ok=True)


def discard_files_of(data_directory: Path, batch_id: str) -> None:
    """Remove what is on disk of a batch that takes no more rows, from a page or from a program."""
    for folder in FOLDERS:
        for upload in unfinished_uploads(data_directory / folder):
            if upload.batch_id == batch_id:
                discard(upload)


def purge(directory: Path) -> None:
    """Forget files that were only looked at, and what a process left that died while it wrote or removed one."""
    for path in directory.iterdir():
        upload = _read(path.with_suffix(".json"))
        with suppress(FileNotFoundError):  # somebody else is at it
            if (upload is None or upload.batch_id is None) and time.time() - path.stat().st_mtime > KEPT_S:
                path.unlink()


def _read(described: Path) -> Upload | None:
    try:
        fields = json.loads(described.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    fields["path"] = described.with_suffix("")
    fields["mapping"] = column_mapping(fields["mapping"]) if fields["mapping"] else None
    return Upload(**fields) if fields["path"].exists() else None


class IntakeRuns:
    """The files in a folder that this process takes in, a thread each; with ``in_turn`` one after another, as they
    came. What was interrupted goes on where it was.
    """

    def __init__(self, db: Database, settings: Settings, folder: Path, clock: Clock, *, in_turn: bool = False) -> None:
        self.folder = folder
        self._db, self._settings, self._clock, self._in_turn = db, settings, clock, in_turn
        self._running: dict[str, threading.Thread] = {}
        self._last: threading.Thread | None = None
        self._stopped: dict[str, tuple[Upload, Exception]] = {}
        self._lock = threading.Lock()

    def start(self, upload: Upload, table: Table | None = None) -> None:
        """Take this file in, unless that is going on already."""
        with self._lock:
            self._running = {token: one for token, one in self._running.items() if one.is_alive()}
            if upload.token not in self._running:
                self._stopped.pop(str(upload.batch_id), None)
                before = self._last if self._in_turn else None
                self._last = threading.Thread(target=self._fill, args=(upload, table, before), daemon=True)
                self._running[upload.token] = self._last
                self._last.start()

    def resume(self) -> None:
        """Go on with every file that an earlier process left unfinished, in the order of their batches."""
        if self.folder.is_dir():
            purge(self.folder)
            for upload in sorted(unfinished_uploads(self.folder), key=lambda upload: str(upload.batch_id)):
                self.start(upload)

    def stopped(self, batch_id: str) -> tuple[Upload, Exception] | None:
        """This batch's file where it is not taken in further until somebody asks for it, and why; else None."""
        return self._stopped.get(batch_id)

    def wait(self) -> None:
        for thread in list(self._running.values()):
            thread.join()

    def _fill(self, upload: Upload, table: Table | None, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        try:
            take_in(self._db, upload, table, self._settings, self._clock)
        except Exception as error:  # the file stays, for whoever asks for it or for the next start
            log.error("taking in a file failed: %s", type(error).__name__)
            self._stopped[str(upload.batch_id)] = upload, error
            return
        discard(upload)
