"""What programs hand in becomes cases: texts of a batch a day, files taken in while they arrive; and they are told when
a text is settled, never as what. A JSON object that names a key twice is refused.
"""

import hashlib
import json
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from api.door import LARGEST_FILE, Refused
from jobs import channels, intake
from jobs.channels import NotSent
from jobs.intake import IntakeRuns, Upload, configuration, open_batch, usual_pipeline
from jobs.process import Clock
from screening.datasets.mapping import FileMapping
from screening.datasets.reader import describe_reading
from screening.datasets.rows import NewCase
from screening.review.policy import SYSTEM
from screening.review.triage import Reach
from screening.settings import Settings
from screening.text.unique_keys import RepeatedKey, unique_keys
from storage.batches.batches import NewBatch
from storage.batches.intake import TEXT_BY_TEXT, close_intake
from storage.database import Database
from storage.review import program_texts
from storage.review.program_texts import KeyUsed
from storage.settings_store import settings_now
from storage.site.accounts import Program, require_in_force

log = logging.getLogger(__name__)

TELL_EVERY_S = 2.0
LOOKED_UP_FOR = timedelta(seconds=10)
"""How long the pipeline in force is taken as known, so that a text does not ask for it anew."""


@dataclass(slots=True, kw_only=True)
class Intake:
    """Takes in what programs hand in: texts into one open batch a program, day and configuration; files in turn."""

    db: Database
    settings: Settings
    clock: Clock
    runs: IntakeRuns = field(init=False)
    _known: dict[tuple[str, str], tuple[str, datetime]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        folder = self.settings.data_directory / intake.BY_PROGRAMS
        self.runs = IntakeRuns(self.db, self.settings, folder, self.clock, in_turn=True)

    def hand_in(self, program: Program, key: str, content_sha256: str, case: NewCase) -> tuple[str, bool]:
        """The case's id, and whether it is new. Raises as `program_texts.hand_in`."""
        now = self.clock()
        return program_texts.hand_in(self.db, program, key, content_sha256, self._batch_of_today(program), case, now)

    def _batch_of_today(self, program: Program) -> str:
        """The batch that takes this program's texts now; those of earlier days are closed. One of today that began with
        other settings stays open: they may come into force again.
        """
        now = self.clock()
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        key = program.id, f"{today:%Y-%m-%d}"
        with self._lock:
            known = self._known.get(key)
            if known is None or now - known[1] > LOOKED_UP_FOR:
                self._known[key] = known = self._open(program, key[1]), now
                for earlier in program_texts.open_batches(self.db, program, begun_before=today):
                    close_intake(self.db, SYSTEM.at(now), earlier)
        return known[0]

    def _open(self, program: Program, day: str) -> str:
        settings, pipeline = settings_now(self.db, self.settings), usual_pipeline(self.db, self.settings)
        new = NewBatch(
            name=f"{program.name}, {day}",
            submission=f"{program.id[:16]}-{day}-{configuration(settings, pipeline).version[:16]}",
            intake={"format": TEXT_BY_TEXT, "program": program.name},
        )
        return open_batch(self.db, program.actor, pipeline, new, settings, self.clock)

    async def receive(
        self, chunks: AsyncIterator[bytes], program: Program, name: str, limit: int = LARGEST_FILE
    ) -> Upload:
        """Write the body to disk for its owner alone. Refused (413) where too long; nothing stays of a broken one."""
        self.runs.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path, digest, size = self.runs.folder / secrets.token_hex(16), hashlib.sha256(), 0
        try:
            path.touch(mode=0o600)
            with path.open("wb") as file:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > limit:
                        raise Refused(413, f"send at most {limit:,} bytes")
                    digest.update(chunk)
                    file.write(chunk)
        except BaseException:  # also where the client went away or the request was cancelled
            path.unlink(missing_ok=True)
            raise
        return Upload(token=path.name, path=path, name=name, owner=program.actor.id, sha256=digest.hexdigest())

    def begin(self, program: Program, key: str, sent: Upload, mapping: FileMapping, reach: Reach) -> str:
        """The batch that this file becomes; its rows come in beside it. Sent again under its key it is the same batch.

        Raises FileRefused where nothing of it can be read, UnknownToken where the token was revoked meanwhile, and
        KeyUsed where another file, or the same with other options, came under its key.
        """
        upload = replace(sent, mapping=mapping.columns, label_values=dict(mapping.labels), sheet=mapping.sheet)
        try:
            table = intake.uploaded_table(upload)
            with self.db.write() as conn:
                require_in_force(conn, program)
            asked = {"sha256": upload.sha256, "options": _options_sha256(mapping, reach)}
            new = NewBatch(
                name=table.name,
                reach=reach,
                intake=describe_reading(table) | {"program": program.name, **asked},
                submission=hashlib.sha256(key.encode()).hexdigest(),
            )
            settings, pipeline = settings_now(self.db, self.settings), usual_pipeline(self.db, self.settings)
            batch_id = open_batch(self.db, program.actor, pipeline, new, settings, self.clock)
            begun_with = program_texts.batch_of(self.db, program, batch_id).intake
            if any(begun_with.get(name) != digest for name, digest in asked.items()):
                raise KeyUsed(batch_id)
            begun = replace(upload, mapping=table.mapping, batch_id=batch_id)
            intake.remember(begun)  # beside the file, so that it can be read again as it was read
        except BaseException:
            intake.discard(upload)
            raise
        self.runs.start(begun, table)
        return batch_id


def _options_sha256(mapping: FileMapping, reach: Reach) -> str:
    labels = sorted((value, str(label)) for value, label in mapping.labels.items())
    return hashlib.sha256(repr((mapping.columns, labels, mapping.sheet, reach.value)).encode()).hexdigest()


def tell_settled(db: Database, now: datetime, *, private: bool) -> int:
    """Tell every program that is due which of its texts is settled, or abandoned: the id alone. How many were told. One
    that does not answer is asked once a round: the others do not wait for each of its texts.
    """
    done, silent = 0, set[str]()
    for due in program_texts.take_due(db, now):
        told = due.webhook not in silent
        if told:
            message = {"event": due.state.value, "id": due.case_id}
            try:
                channels.post(due.webhook, due.secret, due.message_id, message, int(now.timestamp()), private=private)
            except (NotSent, ValueError) as failed:
                log.warning("a program could not be told that a case is %s: %s", due.state.value, failed)
                silent.add(due.webhook)
                told = False
        program_texts.record_told(db, due, now, told=told)
        done += told
    return done


class UniqueKeysRoute(APIRoute):
    """A route that refuses a JSON body with a repeated key (422)."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return answer


class _Request(Request):
    async def json(self) -> Any:
        try:
            return json.loads(await self.body(), object_pairs_hook=unique_keys)
        except RepeatedKey:
            raise HTTPException(422, "a key stands twice in the body, and nothing was stored") from None
