"""Every page for every role on an empty site and in the middle of a day: it opens, or says that it is not theirs; and
every word of every page for who may do everything, as `words.txt` beside this file has them.

`make golden` writes that anew: read its diff as a reader of the page would.
"""

import os
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from jobs.process import system_clock
from pages.ui import context, shell
from screening.labels import Outcome
from screening.review.policy import Action, Actor, Role, is_allowed
from screening.review.triage import Reach
from storage.database import Database
from storage.site.health import beat
from tests.pages.conftest import Opener, html_on, words_on
from tests.storage.batch_of import NOW, batch, decide, waiting
from tests.storage.inbox_cases import form, read, register
from tests.storage.people import ANN

TEXT = "canary words of a person"
REFUSED = {
    Role.REVIEWER: "errors evaluation label_noise reliability agreement audit",
    Role.SENIOR: "",
    Role.RESEARCHER: "audit",
    Role.ADMIN: "screen errors evaluation label_noise reliability case",
}
"""Pages that a role is refused in words; all others open for it."""
WORDS = Path(__file__).with_name("words.txt")
VOLATILE = re.compile(
    r"\b[0-9a-f]{32}\b|\b\d{4}-\d\d-\d\d\b|\b\d{1,2}:\d\d(:\d\d)?( [AP]M)?\b"
    r"|\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{1,2}\b"
    r"|[\d,.]+ (s|min|h|d|days?|hours?|weeks?|months?|GB|MB)\b( \d+ (h|min|s)\b)?|/[^\s]*/pages\.db"
)
SAID = (
    "title", "header", "subheader", "error", "warning", "info", "success", "metric", "markdown", "caption", "html",
    "expander", "tab", "button", "download_button", "link_button", "page_link", "popover", "text_input", "text_area",
    "number_input", "selectbox", "multiselect", "radio", "checkbox", "toggle", "segmented_control", "pills",
    "date_input", "file_uploader",
)  # fmt: skip


def a_day(db: Database) -> dict[str, str]:
    """An upload of four texts with labels: one decided, one reviewed, one in the queue, one pending."""
    register(db, ANN)
    batch_id = batch(db, [f"{TEXT} {number}" for number in range(4)], reach=Reach.READ, references="SUSU")
    first, second, third, _pending = waiting(db)
    decide(db, first)
    decide(db, second, Outcome.UNSAFE)
    decide(db, third, Outcome.HUMAN_REVIEW)
    read(db, ANN, form("unsafe"), "a", NOW)
    return {"batch": batch_id, "case": third}


@pytest.mark.parametrize(("roles", "state"), [((Role.REVIEWER,), "empty"), *(((role,), "a day") for role in Role)])
def test_every_page_opens_or_says_that_it_is_not_theirs(
    open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch, roles: tuple[Role, ...], state: str
) -> None:
    who = Actor(id="x", name="X", roles=frozenset(roles))
    query = a_day(page_database) if state == "a day" else {}
    monkeypatch.setattr(context, "actor", lambda: who)
    refused = set()
    for entry in shell.ENTRIES:
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
    for number, entry in enumerate(shell.ENTRIES):
        case, batch = ("0" * 32, "\x00<b>")[:: 1 if number % 2 else -1]
        page = open_page(entry.address or entry.file, case=case, batch=batch, upload=case)
        assert not page.exception, (entry.file, page.exception)


def words_of(page: AppTest) -> list[str]:
    """What a page says, kind by kind in the order of the page, each once; numbers that move with the clock as ``…``."""
    lines = dict[str, None]()
    for kind in SAID:
        for one in page.get(kind):
            told = getattr(one.proto, "body", "") or " ".join(
                str(value)
                for name in ("value", "label", "options")
                if (value := getattr(one, name, None)) and isinstance(value, str | list)
            )
            plain = re.sub(r"<style>.*?</style>|<[^>]+>", " ", told, flags=re.DOTALL)
            if words := VOLATILE.sub("…", " ".join(plain.split())):
                lines[f"  {kind}: {words}"] = None
    return list(lines)


@pytest.mark.slow
def test_pages_say_what_they_said(open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "actor", lambda: Actor(id="x", name="X", roles=frozenset(Role)))
    said = dict[str, list[str]]()
    for state in ("an empty site", "a day"):
        query = a_day(page_database) if state == "a day" else {}
        for entry in shell.ENTRIES:
            beat(page_database, "w", "worker", system_clock())  # else what is said depends on how slow this test is
            page = open_page(entry.address or entry.file, **query)
            assert not page.exception, (entry.file, page.exception)
            said[f"{entry.address or entry.file}, {state}"] = words_of(page)
    everywhere = set.intersection(*(set(lines) for lines in said.values()))
    found = ["every page", *(line for line in next(iter(said.values())) if line in everywhere)]
    for place, lines in said.items():
        found += [place, *(line for line in lines if line not in everywhere)]
    if os.environ.get("WRITE_WORDS"):
        WORDS.write_text("\n".join(found) + "\n", encoding="utf-8")
    before = WORDS.read_text(encoding="utf-8").splitlines()
    gone, new = ([one for one in some if one not in others] for some, others in ((before, found), (found, before)))
    assert (gone, new) == ([], []), "if it should be so: make golden"
