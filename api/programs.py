"""What programs hand in becomes cases of a batch a day; and they are told when one is settled, never as what."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jobs import channels
from jobs.agents import Agents
from jobs.channels import NotSent
from jobs.intake import BatchRequest, configuration, open_batch, usual_pipeline
from jobs.process import Clock
from screening.datasets.rows import NewCase
from screening.review.actors import SYSTEM
from screening.settings import Settings
from storage.batches.intake import TEXT_BY_TEXT, Target, close_intake, target_of
from storage.database import Database
from storage.review import program_texts
from storage.review.program_texts import Told
from storage.settings_store import settings_now
from storage.site.programs import Program

TELL_EVERY_S = 2.0
LOOKED_UP_FOR = timedelta(seconds=10)
"""How long the pipeline in force is taken as known, so that a text does not ask for it anew."""

log = logging.getLogger(__name__)


@contextmanager
def closing(agents: Agents) -> Iterator[Agents]:
    """Agents that are only asked to describe themselves."""
    try:
        yield agents
    finally:
        asyncio.run(agents.aclose())


@dataclass(slots=True, kw_only=True)
class DailyBatches:
    """One open batch a program, day, configuration and fate of what is called unsafe: its name says whose and when."""

    db: Database
    settings: Settings
    clock: Clock
    _known: dict[tuple[str, str], tuple[Target, datetime]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, program: Program) -> Target:
        """The batch that takes this program's texts now; those of earlier days are closed. One of today that began with
        other settings stays open: they may come into force again.
        """
        now = self.clock()
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        key = program.id, f"{day:%Y-%m-%d}"
        with self._lock:
            known = self._known.get(key)
            if known is None or now - known[1] > LOOKED_UP_FOR:
                self._known[key] = known = self._open_target(program, key[1]), now
                for earlier in program_texts.open_batches(self.db, program, begun_before=day):
                    close_intake(self.db, SYSTEM.at(now), earlier)
        return known[0]

    def _open_target(self, program: Program, day: str) -> Target:
        pipeline, settings = usual_pipeline(self.db, self.settings), settings_now(self.db, self.settings)
        with closing(Agents(settings)) as agents:
            version = configuration(settings, agents, pipeline).version
            request = BatchRequest(
                name=f"{program.name}, {day}",
                pipeline=pipeline,
                submission=f"{program.id[:16]}-{day}-{version[:16]}",
                intake={"format": TEXT_BY_TEXT, "program": program.name},
            )
            batch_id = open_batch(self.db, program.actor, request, settings, agents, self.clock)
        return target_of(self.db, batch_id)


def hand_in(daily: DailyBatches, program: Program, key: str, content_sha256: str, case: NewCase) -> tuple[str, bool]:
    """The case's id, and whether it is new. Raises as `program_texts.hand_in`."""
    now = daily.clock()
    return program_texts.hand_in(daily.db, program, key, content_sha256, daily.of(program), case, now)


def tell_settled(db: Database, now: datetime, *, private: bool) -> int:
    """Tell every program that is due which of its texts is settled, or abandoned: the id alone. How many were told. One
    that does not answer is asked once a round: the others do not wait for each of its texts.
    """
    done, silent = 0, set[str]()
    for one in program_texts.take_due(db, now):
        if one.webhook in silent:
            program_texts.record_not_told(db, one, now)
        elif _tell(db, one, now, private=private):
            done += 1
        else:
            silent.add(one.webhook)
    return done


def _tell(db: Database, one: Told, now: datetime, *, private: bool) -> bool:
    said = {"event": one.state.value, "id": one.case_id}
    try:
        timestamp = int(now.timestamp())
        channels.post(one.webhook, one.secret, one.message_id, said, timestamp, private=private)
    except (NotSent, ValueError) as failed:
        log.warning("a program could not be told that a case is %s: %s", one.state.value, failed)
        program_texts.record_not_told(db, one, now)
        return False
    program_texts.record_told(db, one)
    return True
