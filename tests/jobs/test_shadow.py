"""A second pipeline beside the one in force, on new cases: it changes nothing that anybody sees or that decides."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select

from jobs.agents import Agents
from jobs.comparing import ComparisonRunner
from jobs.intake import configuration
from jobs.local import LocalRunner
from jobs.port import system_clock
from jobs.screening_job import ScreeningJob
from pages.review.inbox_live import View, snapshot
from screening.engine.pipeline import preset
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from screening.settings import Settings
from storage.batches import batches, results
from storage.batches.batch_state import Caps
from storage.batches.configurations import save_configuration
from storage.batches.pipelines import activate, keep_version
from storage.batches.ways import count_ways
from storage.database import Database
from storage.research.cells import cell_page
from storage.research.comparisons import Trial, begin_shadow, end_comparison, list_comparisons, paired_outcomes
from storage.research.confusion import confusions
from storage.research.listed import Cell
from storage.review import claims, exposure, follow_ups, queue, shift
from storage.schema import cases, comparison_outcomes, comparisons, screenings
from storage.settings_store import start, stop
from tests.databases import write
from tests.jobs.running import PLACES, agents, batch, screened
from tests.jobs.test_comparing import _everything_else
from tests.storage.inbox_cases import ADMIN, ANN, RESEARCHER, SENIOR, register

CASES = 200
SETTINGS = Settings(_env_file=None, sampler="simulated")
IN_FORCE = preset("recommended")


def _shadow(db: Database, most: int = CASES, caps: Caps | None = None) -> str:
    version = save_configuration(
        db, configuration(SETTINGS, Agents(SETTINGS), preset("recommended", budget=50)), system_clock()
    )
    trial = Trial(configuration=version, name="fifty", most_cases=most, caps=caps or Caps())
    return begin_shadow(db, ADMIN.at(system_clock()), IN_FORCE.version, trial)


def _comparing(db: Database) -> ComparisonRunner:
    return ComparisonRunner(db=db, agents=Agents(SETTINGS), clock=system_clock, worker="one")


async def _settle(db: Database, *beside: Callable[[], object]) -> None:
    job = ScreeningJob(db=db, agents=agents(), clock=system_clock, worker="settling")
    await asyncio.gather(LocalRunner(job, PLACES, until_done=True).run(), *(one() for one in beside))


async def _shadow_everything(comparing: ComparisonRunner) -> None:
    while await comparing.round():
        pass


def _outcomes(db: Database, batch_id: str) -> list[tuple[object, ...]]:
    end = screenings.c
    query = select(cases.c.row, end.outcome, end.node, end.reason, end.calls).join(cases, cases.c.id == end.case_id)
    return [tuple(row) for row in db.rows(query.where(cases.c.batch_id == batch_id).order_by(cases.c.row))]


def _services(db: Database, batch_id: str, now: datetime) -> Mapping[str, object]:
    """What every reading service of a reviewer's, a senior's and a researcher's pages says at that moment."""
    everything = View(tiers=None)
    return {
        **{f"inbox of {who.id}": snapshot(db, who.at(now), everything) for who in (ANN, SENIOR)},
        "counts": queue.counts(db, ANN.at(now)),
        "claims": claims.my_claims(db, ANN.at(now)),
        "set aside": queue.reserved_cases(db, ANN.at(now)),
        "shift": shift.shift(db, SENIOR, now - timedelta(days=1), now + timedelta(days=1)),
        "follow-ups": follow_ups.open_ones(db, SENIOR.at(now)),
        "read": exposure.count_cases_read(db, ANN, now - timedelta(days=1)),
        "batch": batches.find_batch(db, ANN, batch_id, now=now),
        "batches": batches.list_batches(db, SENIOR, now=now),
        "results": list(results.results(db, SENIOR, batch_id)),
        "ways": count_ways(db, SENIOR, batch_id, IN_FORCE),
        "cells": cell_page(db, RESEARCHER, Cell(batch_id=batch_id)),
        "confusions": confusions(db, RESEARCHER, batch_id),
    }


async def test_a_shadow_of_two_hundred_new_cases_changes_no_outcome_no_inbox_row_and_no_service(db: Database) -> None:
    register(db, ANN, SENIOR)
    alone = _outcomes(db, await screened(db, 40))  # the first of the same texts without a shadow
    shadow = _shadow(db)
    batch_id = batch(db, CASES)
    comparing = _comparing(db)
    await _settle(db, lambda: asyncio.wait_for(_rounds(comparing, 3), 60))  # some while the others are being settled
    assert _outcomes(db, batch_id)[:40] == alone
    now = system_clock()
    tables, services = _everything_else(db), _services(db, batch_id, now)
    await _shadow_everything(comparing)
    assert _everything_else(db) == tables and _services(db, batch_id, now) == services
    (found,) = list_comparisons(db, ADMIN)
    assert (found.id, found.done, found.of, found.running) == (shadow, CASES, CASES, False)
    numbers = db.values(select(comparison_outcomes.c.number))
    assert len(set(numbers)) == CASES


async def _rounds(comparing: ComparisonRunner, times: int) -> None:
    for _ in range(times):
        await comparing.round()
        await asyncio.sleep(0.05)


async def test_nobody_is_shown_a_case_before_it_is_read(db: Database) -> None:
    shadow = _shadow(db)
    batch(db, 8)
    await _settle(db)
    await _shadow_everything(_comparing(db))
    found = paired_outcomes(db, SENIOR, shadow)
    assert len(found.pairs) + found.withheld == 8 and found.withheld > 0
    told = paired_outcomes(db, ADMIN, shadow)  # who decides what is put in force sees figures and no case
    assert {(pair.case_id, pair.external_id) for pair in told.pairs} == {("", "")}
    with pytest.raises(Forbidden):
        paired_outcomes(db, ANN, shadow)


async def test_it_takes_only_what_came_in_since_and_what_the_pipeline_beside_it_settled(db: Database) -> None:
    await screened(db, 3)
    shadow = _shadow(db)
    assert await _comparing(db).round() == 0
    await screened(db, 2)
    write(db, comparisons.update().values(beside="another"))
    assert await _comparing(db).round() == 0
    write(db, comparisons.update().values(beside=IN_FORCE.version))
    assert await _comparing(db).round() == 2
    assert list_comparisons(db, ADMIN)[0].id == shadow


async def test_another_pipeline_in_force_another_shadow_a_cap_and_a_person_end_it(db: Database) -> None:
    first = _shadow(db)
    assert _shadow(db) == first  # pressed twice
    version = save_configuration(db, configuration(SETTINGS, Agents(SETTINGS), preset("certified")), system_clock())
    begin_shadow(
        db, ADMIN.at(system_clock()), IN_FORCE.version, Trial(configuration=version, name="certified", most_cases=5)
    )
    keep_version(db, ADMIN.at(system_clock()), IN_FORCE.model_copy(update={"name": "ours"}), "", 0)
    activate(db, ADMIN.at(system_clock()), "ours", 1, "tried")
    capped = _shadow(db, caps=Caps(max_calls=20))
    await screened(db, 5)
    await _shadow_everything(_comparing(db))
    by_hand = _shadow(db)
    with pytest.raises(Forbidden):
        end_comparison(db, RESEARCHER.at(system_clock()), by_hand, "mine")
    end_comparison(db, ADMIN.at(system_clock()), by_hand, "ended by hand")
    ended = {one.id: one.ended_why for one in list_comparisons(db, ADMIN)}
    assert ended[first] == "another shadow" and ended[by_hand] == "ended by hand"
    assert sorted(set(ended.values()) - {"another shadow", "ended by hand"}) == [
        "another pipeline in force",
        "max_calls",
    ]
    assert ended[capped] == "max_calls"


async def test_there_is_one_shadow_at_a_time_and_the_caps_given_last_hold(db: Database) -> None:
    first = _shadow(db, most=5)
    assert _shadow(db, most=5, caps=Caps(max_calls=20)) == first
    second = _shadow(db, most=3)
    found = {one.id: one for one in list_comparisons(db, ADMIN)}
    assert found[first].caps == Caps(max_calls=20) and found[first].ended_why == "another shadow"
    assert found[second].running and len(found) == 2


async def test_a_shadow_that_has_all_its_texts_can_be_set_again(db: Database) -> None:
    first = _shadow(db, most=2)
    await screened(db, 2)
    await _shadow_everything(_comparing(db))
    second = _shadow(db, most=2)
    assert second != first
    await screened(db, 2)
    await _shadow_everything(_comparing(db))
    assert {one.id: one.done for one in list_comparisons(db, ADMIN)} == {first: 2, second: 2}


async def test_while_the_site_is_stopped_nothing_is_asked(db: Database) -> None:
    _shadow(db)
    await screened(db, 2)
    stop(db, LOCAL_USER.at(system_clock()))
    assert await _comparing(db).round() == 0
    start(db, LOCAL_USER.at(system_clock()))
    assert await _comparing(db).round() == 2


def test_only_administrators_set_one(db: Database) -> None:
    trial = Trial(configuration="x", name="x", most_cases=1)
    for who in (ANN, SENIOR, RESEARCHER):
        with pytest.raises(Forbidden):
            begin_shadow(db, who.at(system_clock()), IN_FORCE.version, trial)
