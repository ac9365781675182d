"""Every page for every role on an empty site and in the middle of a day: it opens, or says that it is not theirs."""

import pytest

from pages.ui import context
from pages.ui.shell import ENTRIES
from screening.labels import Outcome
from screening.review.actors import Actor, Role
from screening.review.policy import Action, is_allowed
from screening.review.reach import Reach
from storage.database import Database
from storage.review import claims
from storage.review.reviews import submit_review
from tests.pages.conftest import Opener, html_on, words_on
from tests.storage.batch_of import NOW, batch, decide, waiting
from tests.storage.inbox_cases import form, register
from tests.storage.people import ANN

TEXT = "canary words of a person"


def a_day(db: Database) -> dict[str, str]:
    """An upload of four texts with labels: one decided, one reviewed, one in the queue, one pending."""
    register(db, ANN)
    batch_id = batch(db, [f"{TEXT} {number}" for number in range(4)], reach=Reach.READ, references="SUSU")
    first, second, third, _pending = waiting(db)
    decide(db, first)
    decide(db, second, Outcome.UNSAFE)
    decide(db, third, Outcome.HUMAN_REVIEW)
    claim = claims.claim_next(db, ANN.at(NOW))
    assert claim is not None
    submit_review(db, ANN.at(NOW), claim.case_id, claim.token, form("unsafe"), "a" * 32)
    return {"batch": batch_id, "case": third}


REFUSED = {
    Role.REVIEWER: "errors evaluation label_noise reliability agreement audit",
    Role.SENIOR: "",
    Role.RESEARCHER: "audit",
    Role.ADMIN: "screen errors evaluation label_noise reliability case",
}
"""Pages that a role is refused in words; all others open for it."""


@pytest.mark.parametrize(("roles", "state"), [((Role.REVIEWER,), "empty"), *(((role,), "a day") for role in Role)])
def test_every_page_opens_or_says_that_it_is_not_theirs(
    open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch, roles: tuple[Role, ...], state: str
) -> None:
    """Somebody who may do everything is in `test_words.py`."""
    who = Actor(id="x", name="X", roles=frozenset(roles))
    query = a_day(page_database) if state == "a day" else {}
    monkeypatch.setattr(context, "actor", lambda: who)
    refused = set()
    for entry in ENTRIES:
        page = open_page(entry.address or entry.file, **query)
        assert not page.exception, (entry.file, page.exception)
        assert "&lt;" not in html_on(page), f"{entry.file} shows the source of its HTML"
        tables = "".join(frame.value.to_csv() for frame in page.dataframe)
        if TEXT in words_on(page) + tables:
            assert is_allowed(who, Action.VIEW_TEXT), f"{entry.file} shows texts to those who may not read them"
        if any("role does not let you" in error.value for error in page.error):
            assert not (page.title or page.dataframe or page.metric), f"{entry.file} shows something beside the refusal"
            refused.add(entry.file)
    assert refused == set.intersection(*(set(REFUSED[role].split()) for role in roles))


def test_an_address_of_what_there_is_not_opens_every_page_all_the_same(open_page: Opener) -> None:
    for number, entry in enumerate(ENTRIES):
        case, batch = ("0" * 32, "\x00<b>")[:: 1 if number % 2 else -1]
        page = open_page(entry.address or entry.file, case=case, batch=batch, upload=case)
        assert not page.exception, (entry.file, page.exception)
