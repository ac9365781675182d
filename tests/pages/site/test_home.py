"""The first page: one sentence, three doors, and what a role is for stands first."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import get_args

import pytest
from streamlit.testing.v1 import AppTest

from pages.components import http, resources
from pages.components.navigation import ENTRIES, GROUPS, pages_for
from pages.research.claims_today import agreement_words, missed_words
from pages.review.shift_view import first_look_words
from pages.review.waiting_door import waiting_html
from pages.site.doors import activity_html, agents_words
from screening.engine.pipeline import Preset, preset
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.triage import Tier
from screening.settings import Settings
from screening.statistics.agreement import Coefficient
from storage.database import Database
from storage.review.queue import counts
from storage.review.shift import TierShift
from storage.review.tallies import MOST_LATE, first_due_by_tier
from storage.site.at_work import at_work
from storage.site.faults import Fault, begin
from storage.site.heartbeats import beat
from tests.pages.conftest import Opener
from tests.storage.batch_of import NOW, batch, decide, waiting

MINUTE = timedelta(minutes=1)


def shown(page: AppTest) -> str:
    assert not page.exception, page.exception
    return " ".join(element.proto.body for element in page.get("html"))


@pytest.fixture
def as_role(open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[[Role], AppTest]:
    """The first page as somebody with one role sees it."""

    def opened(role: Role) -> AppTest:
        person = Actor(id="x", name="X", roles=frozenset({role}))
        monkeypatch.setattr(resources, "actor", lambda: person)
        return open_page()

    return opened


def test_the_first_page_says_what_waits_and_leads_on(open_page: Opener, page_database: Database) -> None:
    page = open_page()
    assert "No case is open in the inbox" in shown(page)
    assert "None read by you since midnight UTC." in [each.value for each in page.caption]
    batch(page_database, ["a quiet day", "a long walk"])
    for case_id in waiting(page_database):
        decide(page_database, case_id, Outcome.HUMAN_REVIEW)
    bodies = shown(open_page())
    assert "</span> <b>2</b> " in bodies and ", the first by " in bodies
    assert "2 of 2" in bodies and "No worker is running" in bodies


def test_late_cases_are_told_with_the_first_of_them(page_database: Database) -> None:
    batch(page_database, ["a quiet day", "a long walk"])
    for case_id in waiting(page_database):
        decide(page_database, case_id, Outcome.HUMAN_REVIEW)
    due = first_due_by_tier(page_database, LOCAL_USER)
    [(tier, at)] = due.items()
    for after, said in ((-MINUTE, "first due in 1 min"), (MINUTE, "2 late, the first by 1 min")):
        now = at + after
        assert said in waiting_html(counts(page_database, LOCAL_USER.at(now)), due, now)
    many = replace(counts(page_database, LOCAL_USER.at(now)), late_by_tier={tier: MOST_LATE + 1})
    assert f"over {MOST_LATE} late" in waiting_html(many, due, now)


def test_the_first_page_says_who_works_and_whether_the_model_answers(page_database: Database) -> None:
    none = at_work(page_database, NOW)
    assert "No worker is running" in activity_html((), none, "Simulated agents")
    assert "no agent finished yet" in activity_html((), none, "Simulated agents")
    beat(page_database, "w1", "worker", NOW)
    with page_database.write() as conn:
        begin(conn, Fault.MODEL, NOW)
    said = activity_html((), at_work(page_database, NOW), "Model m")
    assert "1 worker<" in said and f"Model m: no usable answers.</td><td>since {NOW:%Y-%m-%d %H:%M} UTC" in said


def test_a_worker_that_answers_no_more_is_not_called_ready(page_database: Database) -> None:
    beat(page_database, "w1", "worker", NOW)
    for after, words in ((5, "1 worker</td><td>ready"), (20, "No worker is answering"), (60, "No worker is running")):
        assert words in activity_html((), at_work(page_database, NOW + timedelta(seconds=after)), "Model m")


def test_nothing_is_claimed_before_it_was_measured(open_page: Opener) -> None:
    bodies = shown(open_page())
    assert bodies.count("<b>not yet</b>") == 3
    assert "nothing was screened with the present configuration" in bodies


def test_each_claim_is_for_those_who_may_open_its_page(as_role: Callable[[Role], AppTest]) -> None:
    assert "Missed unsafe texts" in shown(as_role(Role.RESEARCHER))
    of_a_reviewer = shown(as_role(Role.REVIEWER))
    assert "Time to first look, P0" in of_a_reviewer and "Missed unsafe texts" not in of_a_reviewer


def test_a_claim_has_its_interval_and_its_n() -> None:
    wait = TierShift(
        tier=Tier.P0, arrived=4, looked_at=3, overdue=1, read=3, handed_over=0, median=3 * MINUTE, p90=None,
        within_target=0.75, told_from=4,
    )  # fmt: skip
    assert first_look_words(wait)[1:] == ("3 min 0 s", "median of 3 · within its target 0.750 [0.301, 0.954] (3/4)")
    agreed = Coefficient(name="α", value=0.81, cases=120, low=0.72, high=0.88)
    said = "0.72 to 0.88, one look · 120 read twice at random"
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
    assert agents_words(Settings(sampler="simulated"), other) == "Simulated agents"
    real = Settings(sampler="anthropic", model="a", anthropic_api_key="k")
    assert (agents_words(real, pipeline), agents_words(real, other)) == ("Model a", "Models b, a")


@pytest.mark.parametrize("name", get_args(Preset))
def test_a_preset_is_answered_for_by_the_site_s_model(name: Preset) -> None:
    real = Settings(sampler="anthropic", model="a", anthropic_api_key="k")
    assert agents_words(real, None) == agents_words(real, preset(name)) == "Model a"


@pytest.mark.parametrize(
    ("role", "first", "others"),
    [(Role.REVIEWER, "Read what waits", ()), (Role.RESEARCHER, "Upload a file", ("Screen a text",))],
)
def test_what_a_role_is_for_stands_first(
    as_role: Callable[[Role], AppTest], role: Role, first: str, others: tuple[str, ...]
) -> None:
    bodies = shown(as_role(role))
    doors = [part.split("</h2>")[0] for part in bodies.split('<h2 class="sl-door">')[1:]]
    assert doors[0] == first and all(other in doors for other in others)


def test_the_sample_is_taken_from_the_first_page_to_its_check(open_page: Opener, page_database: Database) -> None:
    page = open_page()
    next(button for button in page.button if button.label == "Use the sample").click().run()
    assert "120 rows in = 120 accepted + 0 rejected" in shown(page).replace("<b>", "").replace("</b>", "")


def test_every_page_stands_in_one_of_four_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "sign_in_configured", lambda: False)
    assert {entry.group for entry in ENTRIES} == set(GROUPS) and len(GROUPS) == 5
    assert [entry.file for entry in ENTRIES if not entry.group] == ["home"]
    for role in Role:
        grouped = pages_for(Actor(id="x", name="X", roles=frozenset({role})))
        assert sum(map(len, grouped.values())) == len(ENTRIES)
        assert all(page.visibility == "visible" for group, pages in grouped.items() if group for page in pages)
