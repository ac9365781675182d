"""The first page: one sentence, three doors, and what a role is for stands first."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from pages.components import http, resources
from pages.components.navigation import ENTRIES, GROUPS, pages_for
from pages.site.doors import waiting_html
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, Actor, Role
from storage.database import Database
from storage.review.queue import counts
from tests.pages.conftest import Opener
from tests.storage.batch_of import NOW, batch, decide, waiting


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
    assert "No case is open in the inbox" in shown(open_page())
    batch(page_database, ["a quiet day", "a long walk"])
    for case_id in waiting(page_database):
        decide(page_database, case_id, Outcome.HUMAN_REVIEW)
    found = counts(page_database, LOCAL_USER, NOW)
    page = open_page()
    assert waiting_html(found).split("</li>")[0].rsplit("<b>", 1)[1] in shown(page)
    assert "2 of 2" in shown(page) and "No worker is running" in shown(page)


@pytest.mark.parametrize(
    ("role", "first", "others"),
    [
        (Role.REVIEWER, "Read what waits", ()),
        (Role.RESEARCHER, "Upload a file", ("Screen a text",)),
    ],
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
