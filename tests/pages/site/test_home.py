"""The first page: one sentence, three doors, and what a role is for stands first."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from streamlit.testing.v1 import AppTest

from pages.research.claims_today import agreement_words, first_look_words, missed_words
from pages.site.health import agents_words, status_lines
from pages.ui import context
from screening.evaluation.agreement import Coefficient
from screening.evaluation.metrics import Proportion
from screening.labels import Outcome
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.triage import Priority
from screening.settings import Settings
from storage.database import Database
from storage.review.queue import counts
from storage.review.reports import PriorityShift
from storage.site.health import Fault, beat, begin
from storage.site.outbox import record_state
from storage.site.recipients import Event, Kind, add_recipient
from tests.pages.conftest import Opener, words_on
from tests.storage.batch_of import NOW, batch, decide, waiting

MINUTE = timedelta(minutes=1)


@pytest.fixture
def as_role(open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[[Role], AppTest]:
    """The first page as somebody with one role sees it."""

    def opened(role: Role) -> AppTest:
        person = Actor(id="x", name="X", roles=frozenset({role}))
        monkeypatch.setattr(context, "actor", lambda: person)
        return open_page()

    return opened


def test_it_says_so_no_longer_once_somebody_is_told_of_p0(open_page: Opener, page_database: Database) -> None:
    for kind, events in ((Kind.MONITOR, frozenset(Event)), (Kind.SERVICE, frozenset({Event.FAULT}))):
        where = {"target": "json://127.0.0.1:9", "shown": "json://…"}
        add_recipient(page_database, LOCAL_USER.at(NOW), name=kind.value, kind=kind, events=events, **where)
    assert open_page().error, "a monitor is told of nothing, and a fault is no case"
    told, _ = add_recipient(
        page_database, LOCAL_USER.at(NOW), name="Ann", kind=kind, events={Event.ARRIVED_P0}, **where
    )
    assert not open_page().error
    with page_database.write() as conn:
        record_state(conn, told.id, "refused", NOW)
    assert "Messages to everyone who should be told have failed" in open_page().error[0].value


def test_the_first_page_shows_what_is_urgent_and_overdue(open_page: Opener, page_database: Database) -> None:
    """The cases came in a year ago: all are overdue."""
    batch(page_database, ["a quiet day", "a long walk", "I will kill myself tonight"])
    for case_id in waiting(page_database):
        decide(page_database, case_id, Outcome.HUMAN_REVIEW)
    found = counts(page_database, LOCAL_USER.at(NOW)).open_by_priority
    assert sum(found.values()) == 3 and found[Priority.P0] == 1
    page = open_page()
    numbers = [one.value for one in page.markdown if one.value.startswith("### :")]
    assert [re.findall(r"\[([\d,]+)\]", one) for one in numbers] == [["1"], [str(found[Priority.P1])], ["2"]]
    assert len([one for one in page.markdown if one.value.startswith(":red[**") and ", oldest by " in one.value]) == 2
    assert "3 of 3" in "".join(link.label for link in page.get("page_link")) or "3 of 3" in words_on(page)
    assert "Screening is down" in words_on(page)


@pytest.mark.parametrize(
    ("after", "well", "words"),
    [
        (5, True, "Screening service: running"),
        (20, False, "Screening is down since"),
        (60, False, "Screening is down since"),
    ],
)
def test_a_worker_that_answers_no_more_is_not_called_running(
    page_database: Database, after: int, well: bool, words: str
) -> None:
    now = NOW + timedelta(seconds=after)
    assert status_lines(page_database, "AI model m", NOW)[0][0] is False, "none ever ran"
    beat(page_database, "w1", "worker", NOW)
    (service, model) = status_lines(page_database, "AI model m", now)
    assert service[0] is well and service[1].startswith(words) and model == (well, "AI model m: no text screened yet")
    with page_database.write() as conn:
        begin(conn, Fault.MODEL, NOW)
    assert status_lines(page_database, "m", now)[1] == (
        False,
        f"m: gives no usable answers since {NOW:%H:%M} UTC",
    )


def test_each_claim_is_for_those_who_may_open_its_page(as_role: Callable[[Role], AppTest]) -> None:
    assert "Missed cases per 1,000" in words_on(as_role(Role.RESEARCHER))
    of_a_reviewer = words_on(as_role(Role.REVIEWER))
    assert "Median time until opened, P0" in of_a_reviewer and "Missed cases" not in of_a_reviewer


def test_a_claim_has_its_interval_and_its_n() -> None:
    wait = PriorityShift(
        priority=Priority.P0, arrived=4, looked_at=3, overdue=1, read=3, handed_over=0, median=3 * MINUTE, p90=None,
        within_target=Proportion(3, 4),
    )  # fmt: skip
    assert first_look_words(wait)[1:] == (
        "3 min",
        "median of 3 · on time: 3 of 4 (95% CI 30-95%)",
    )
    agreed = Coefficient(name="α", value=0.81, cases=120, low=0.72, high=0.88)
    said = "0.72 to 0.88, single analysis · 120 reviewed twice at random"
    assert agreement_words((agreed, 0))[1:] == ("0.81", said)
    assert agreement_words((agreed, 1))[2] == f"{said} · too high until 1 more that is disputed is decided"
    undefined = Coefficient(name="α", value=None, cases=0, reason="nobody read twice")
    assert agreement_words((undefined, 0))[1:] == ("not yet", "nobody read twice")
    assert missed_words(None)[1] == "not yet"


def test_every_model_of_the_pipeline_is_named() -> None:
    pipeline = preset("recommended")
    other = pipeline.model_copy(
        update={"nodes": (pipeline.nodes[0].model_copy(update={"model": "b"}), *pipeline.nodes[1:])}
    )
    assert agents_words(Settings(sampler="simulated"), other) == "Keyword script (demo mode)"
    real = Settings(sampler="anthropic", model="a", anthropic_api_key="k")
    assert (agents_words(real, pipeline), agents_words(real, other)) == ("AI model a", "AI models b, a")
