"""Files that programs hand in: to disk under a random name, checked as a whole, and taken in beside the request."""

import hashlib
import logging
import secrets
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from jobs.agents import Agents
from jobs.intake import MOST_LOST, BatchRequest, fill_batch, open_batch
from jobs.patience import in_the_end
from jobs.port import Clock
from jobs.programs import closing, usual_pipeline
from screening.datasets.mapping import FileMapping
from screening.datasets.reader import Table, describe_reading, read_table
from screening.review.actors import SYSTEM
from screening.settings import Settings
from storage.batches.intake import takes_rows
from storage.database import Database
from storage.review.program_texts import require_same_file
from storage.settings_store import current
from storage.site.programs import Program, UnknownToken, in_force

log = logging.getLogger(__name__)


class TooLarge(ValueError):
    """The body is longer than a file may be."""


@dataclass(slots=True, kw_only=True)
class FileIntake:
    """Takes files in one after another."""

    db: Database
    settings: Settings
    clock: Clock
    _one: threading.Lock = field(default_factory=threading.Lock)

    async def receive(self, chunks: AsyncIterator[bytes], limit: int) -> Path:
        """Write the body to disk, readable by its owner alone. Raises TooLarge."""
        folder = self.settings.data_directory / "programs"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path, size = folder / secrets.token_hex(16), 0
        path.touch(mode=0o600)
        with path.open("wb") as file:
            async for chunk in chunks:
                size += len(chunk)
                if size > limit:
                    path.unlink()
                    raise TooLarge(f"send at most {limit:,} bytes")
                file.write(chunk)
        return path

    def begin(self, program: Program, key: str, path: Path, name: str, mapping: FileMapping) -> str:
        """The batch that this file becomes; its rows come in beside it. Sent again under its key it is the same batch.

        Raises FileRefused where nothing of it can be read, UnknownToken where the token was revoked meanwhile, and
        KeyUsed where another file came under its key.
        """
        try:
            table = read_table(path, name, mapping=mapping.columns, sheet=mapping.sheet).with_labels(mapping.labels)
            if not in_force(self.db, program):
                raise UnknownToken
            digest = _digest(path)
            batch_id = self._open_batch(program, key, table, digest)
            require_same_file(self.db, batch_id, digest)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        threading.Thread(target=self._fill, args=(batch_id, table, path), daemon=True).start()
        return batch_id

    def _open_batch(self, program: Program, key: str, table: Table, digest: str) -> str:
        request = BatchRequest(
            name=table.report.name,
            pipeline=usual_pipeline(self.db, self.settings),
            reach=current(self.db).settings.reach(labelled=table.report.mapping.label is not None),
            intake=describe_reading(table.report) | {"program": program.name, "sha256": digest},
            submission=hashlib.sha256(key.encode()).hexdigest(),
        )
        agents = Agents(self.settings)
        with closing(agents):
            return open_batch(self.db, program.actor, request, self.settings, agents, self.clock)

    def _fill(self, batch_id: str, table: Table, path: Path) -> None:
        take_in = partial(fill_batch, self.db, SYSTEM, batch_id, table, self.settings, self.clock)
        try:
            with self._one:
                in_the_end(lambda: takes_rows(self.db, batch_id) and take_in(), most_lost=MOST_LOST)
        except Exception as error:  # the batch stays as far as it came; sent again under its key it goes on
            log.error("taking in a program's file failed: %s", type(error).__name__)
        finally:
            path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
