"""Whoever watches a text sees its draws as they come in: the finished start of a wave, in the order of the calls."""

import asyncio
from collections.abc import Sequence

from sqlalchemy import select

from jobs.agents import Agents
from jobs.port import system_clock
from screening.labels import Label
from screening.pipeline.draws import Draw, DrawRequest, DrawSource, encode_draws
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches import single_texts
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.schema import cases
from tests.jobs.running import batch, running, until


class OneByOne(Agents):
    """Agents whose answers to a wave come when they are let, in whatever order."""

    def __init__(self) -> None:
        super().__init__(Settings(_env_file=None, sampler="simulated"))
        self.bills: asyncio.Queue[DrawRequest] = asyncio.Queue()
        self.go = asyncio.Event()

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        return self

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        await self.bills.put(request)
        await self.go.wait()
        return [Draw(label=Label.SAFE)] * request.count


async def test_the_finished_start_of_a_wave_is_shown_before_the_wave_ends(db: Database) -> None:
    agents = OneByOne()
    batch(db, 1, kind="interactive")
    case_id = db.value(select(cases.c.id))

    def shown() -> str:
        single_texts.record_viewer(db, case_id, system_clock())
        return "".join(single_texts.look(db, LOCAL_USER, case_id).draws.values())

    assert not single_texts.look(db, LOCAL_USER, case_id).started
    async with running(db, agents):
        request = await asyncio.wait_for(agents.bills.get(), 20)
        assert request.bill is not None and request.count >= 3
        assert single_texts.look(db, LOCAL_USER, case_id).started
        request.bill.answers[1] = Draw(label=Label.UNSAFE)  # the second comes first: nothing may be shown yet
        await asyncio.sleep(1.2)
        assert shown() == ""
        request.bill.answers[0] = Draw(label=Label.SAFE)
        await until(lambda: shown() == "SU", within_s=5)
        agents.go.set()
        await until(lambda: single_texts.look(db, LOCAL_USER, case_id).outcome is not None)
    assert encode_draws([Draw(label=Label.SAFE)]) * request.count == shown()[: request.count]
