"""Files that programs hand in, taken in while they arrive; a JSON object that names a key twice is refused."""

import hashlib
import json
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from api.door import Refused
from api.programs import closing
from jobs import uploads
from jobs.agents import Agents
from jobs.intake import BatchRequest, open_batch, usual_pipeline
from jobs.process import Clock
from jobs.uploads import Upload
from screening.datasets.mapping import FileMapping
from screening.datasets.reader import Table, describe_reading, read_table
from screening.review.reach import Reach
from screening.settings import Settings
from screening.text.unique_keys import RepeatedKey, unique_keys
from storage.database import Database
from storage.review.program_texts import require_same_file
from storage.settings_store import settings_now
from storage.site.programs import Program, UnknownToken, in_force

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class FileIntake:
    """Takes files in one after another, in the order in which they came."""

    db: Database
    settings: Settings
    clock: Clock
    _last: threading.Thread | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def folder(self) -> Path:
        """Where the files lie until their rows are in."""
        return self.settings.data_directory / uploads.BY_PROGRAMS

    async def receive(self, chunks: AsyncIterator[bytes], limit: int) -> Path:
        """Write the body to disk, readable by its owner alone. Refused (413) where it is too long; nothing stays of a
        body that broke off.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.folder / secrets.token_hex(16)
        try:
            path.touch(mode=0o600)
            await _write(path, chunks, limit)
        except BaseException:  # also where the client went away or the request was cancelled
            path.unlink(missing_ok=True)
            raise
        return path

    def begin(self, program: Program, key: str, path: Path, name: str, mapping: FileMapping, reach: Reach) -> str:
        """The batch that this file becomes; its rows come in beside it. Sent again under its key it is the same batch.

        Raises FileRefused where nothing of it can be read, UnknownToken where the token was revoked meanwhile, and
        KeyUsed where another file, or the same with other options, came under its key.
        """
        try:
            table = read_table(path, name, mapping=mapping.columns, sheet=mapping.sheet).with_labels(mapping.labels)
            if not in_force(self.db, program):
                raise UnknownToken
            upload = _describe(path, program, table, mapping)
            asked = {"sha256": upload.sha256, "options": _options_sha256(mapping, reach)}
            batch_id = self._open_batch(program, key, table, reach, asked)
            require_same_file(self.db, batch_id, asked)
            begun = replace(upload, batch_id=batch_id)
            uploads.remember(begun)
        except BaseException:
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)
            raise
        self._start(begun, table)
        return batch_id

    def resume(self) -> None:
        """Go on with every file that an earlier process left unfinished."""
        if self.folder.is_dir():
            uploads.purge(self.folder)
            for upload in sorted(uploads.unfinished_uploads(self.folder), key=lambda one: str(one.batch_id)):
                self._start(upload)

    def _open_batch(self, program: Program, key: str, table: Table, reach: Reach, asked: Mapping[str, str]) -> str:
        request = BatchRequest(
            name=table.report.name,
            pipeline=usual_pipeline(self.db, self.settings),
            reach=reach,
            intake=describe_reading(table.report) | {"program": program.name, **asked},
            submission=hashlib.sha256(key.encode()).hexdigest(),
        )
        settings = settings_now(self.db, self.settings)
        with closing(Agents(settings)) as agents:
            return open_batch(self.db, program.actor, request, settings, agents, self.clock)

    def _start(self, upload: Upload, table: Table | None = None) -> None:
        with self._lock:
            self._last = threading.Thread(target=self._fill, args=(upload, table, self._last), daemon=True)
            self._last.start()

    def _fill(self, upload: Upload, table: Table | None, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        try:
            uploads.take_in(self.db, upload, table, self.settings, self.clock)
        except Exception as error:  # the file stays for the next start; sent again under its key it goes on as well
            log.error("taking in a program's file failed: %s", type(error).__name__)
            return
        uploads.discard(upload)


async def _write(path: Path, chunks: AsyncIterator[bytes], limit: int) -> None:
    size = 0
    with path.open("wb") as file:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise Refused(413, f"send at most {limit:,} bytes")
            file.write(chunk)


def _options_sha256(mapping: FileMapping, reach: Reach) -> str:
    labels = sorted((value, str(label)) for value, label in mapping.labels.items())
    return hashlib.sha256(repr((mapping.columns, labels, mapping.sheet, reach.value)).encode()).hexdigest()


def _describe(path: Path, program: Program, table: Table, mapping: FileMapping) -> Upload:
    """What is kept beside the file, so that it can be read again as it was read."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Upload(
        token=path.name,
        path=path,
        name=table.report.name,
        owner=program.actor.id,
        sha256=digest,
        mapping=table.report.mapping,
        label_values=dict(mapping.labels),
        sheet=mapping.sheet,
    )


class UniqueKeysRoute(APIRoute):
    """A route that refuses a JSON body with a repeated key (422)."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """The library's handler, given a request of ours."""
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
