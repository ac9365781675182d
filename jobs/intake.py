"""Storing the rows of a file in a batch: one way for the upload page and the command line."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from typing import Any

from jobs.agents import Agents, overnight_obstacle, servers_used
from jobs.process import Clock
from screening.datasets.reader import Table
from screening.datasets.rows import NewCase, Row
from screening.pipeline.config import PipelineConfig, preset
from screening.review.actors import SYSTEM, Actor
from screening.settings import Settings
from screening.text.display import MASKING_VERSION
from screening.text.flags import Flag
from screening.text.injection import injection_flags
from screening.text.received import ReceivedText, receive
from screening.words import count_of
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import Configuration, active_version, save_configuration
from storage.batches.intake import OpenFile, add_rows, close_intake, last_row, open_files, resume_intake, stop_intake
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


def told(rows: Iterable[Row], tell: Callable[[int], None]) -> Iterator[Row]:
    for row in rows:
        tell(row.row)
        yield row


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
    return configuration_of(settings, Agents(settings).describe(settings.seed), pipeline)


def configuration_of(settings: Settings, usual: Mapping[str, Any], pipeline: PipelineConfig) -> Configuration:
    """The same where it is known already what the usual agents say of themselves."""
    asked = {**usual, **servers_used(settings, pipeline)}
    texts = {"max_text_characters": settings.max_text_characters, "languages": list(settings.languages)}
    masking = {"masking": MASKING_VERSION} if settings.mask_before_sending else {}
    return Configuration(pipeline=pipeline, sampler=asked, texts={**texts, **masking})


def open_batch(
    db: Database, actor: Actor, pipeline: PipelineConfig, new: NewBatch, settings: Settings, clock: Clock
) -> str:
    """Create an empty batch for rows as things stand now; its id. ValueError as `require_overnight`."""
    if new.overnight:
        require_overnight(db, settings, pipeline, 0)
    version = save_configuration(db, configuration(settings, pipeline), clock())
    of_now = replace(new, configuration_version=version, seed=settings.seed, audit_rate=settings.audit_rate)
    return create_batch(db, actor.at(clock()), of_now)


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
    rows = told(table.rows(receiver(settings), after=last_row(db, batch_id)), tell)
    add_rows(db, batch_id, rows, clock())
    close_intake(db, actor.at(clock()), batch_id)


NOBODY = "nobody_takes_in"
LOOKS = 30
"""So often nothing more may have come of a file before it counts as given up. Looks, not minutes: while the database is
away nobody can take anything in, and nobody looks.
"""


@dataclass(slots=True)
class OpenFiles:
    """A process that is killed says nothing about its file; this does."""

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
