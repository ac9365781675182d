"""Results: all cases of a batch in a table, each opened below it, and nothing told of what waits for a review."""

import re
from html import unescape
from urllib.parse import parse_qs, urlparse

import pytest
from streamlit.testing.v1 import AppTest

from pages.research.case_list import NO_OUTCOMES
from pages.ui import context
from pages.ui.widgets import result_links_html
from screening.datasets.rows import NewCase
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, Actor
from screening.text.conversation import Role, Turn, receive_conversation
from screening.text.received import receive
from storage.batches.batches import progress
from storage.batches.intake import add_rows
from storage.database import Database
from storage.research.case_tags import remarks
from storage.research.cells import cell_page
from storage.research.listed import Cell
from storage.visibility import choose_hiding
from tests.pages.conftest import Opener, html_on, in_address, press, words_on
from tests.storage.batch_of import NOW, batch, decide, waiting
from tests.storage.inbox_cases import ADMIN, ANN

TEXTS = ["a quiet day", "tired of it all", "so tired of it", "bread recipes", "a long walk"]


def decided(db: Database) -> str:
    """Two safe, one unsafe that is right, one that waits for a review, one pending."""
    batch_id = batch(db, TEXTS, references="SUUS-")
    for case_id, outcome in zip(
        waiting(db), (Outcome.SAFE, Outcome.SAFE, Outcome.SAFE, Outcome.HUMAN_REVIEW), strict=False
    ):
        decide(db, case_id, outcome)
    return batch_id


def ids(page: AppTest) -> list[str]:
    return list(page.dataframe[0].value["ID"])


def test_all_cases_are_listed_with_what_became_of_them(open_page: Opener, page_database: Database) -> None:
    page = open_page("results", batch=decided(page_database))
    assert not page.exception, page.exception
    table = page.dataframe[0].value
    assert list(table["Outcome"]) == ["labeled safe"] * 3 + ["escalated to a clinician", "pending"]
    assert list(table["Final label"]) == ["", "", "", "in review", ""] and table["Responses"][3] == 6


def test_filters_stand_in_the_address_and_narrow_the_list(open_page: Opener, page_database: Database) -> None:
    batch_id = decided(page_database)
    page = open_page("results", batch=batch_id, outcome="safe", reference="unsafe")
    assert ids(page) == ["p2", "p3"]
    page.selectbox(key="filter_reference").set_value("safe").run()
    assert ids(page) == ["p1"] and page.query_params["reference"] in ("safe", ["safe"])
    page.text_input(key="filter_q").set_value("p3").run()
    assert not page.dataframe and any(caption.value.startswith("0 cases") for caption in page.caption)
    assert ids(open_page("results", batch=batch_id, sort="calls"))[-2:] == ["p4", "p5"]


def test_a_way_of_the_drawing_opens_its_cases_and_can_be_taken_out(open_page: Opener, page_database: Database) -> None:
    batch_id = decided(page_database)
    page = open_page("results", batch=batch_id, way="worker:unsafe")
    assert not page.exception and not page.dataframe
    page = open_page("results", batch=batch_id, way="worker:safe")
    assert ids(page) == ["p1", "p2", "p3"] and page.selectbox(key="filter_way").options == ["Worker: safe", "Any"]
    page.selectbox(key="filter_way").select("any").run()
    assert len(ids(page)) == 5 and "way" not in page.query_params
    assert len(ids(open_page("results", batch=batch_id, way="<b>:no label"))) == 5


@pytest.mark.parametrize("who", [ANN, ADMIN])
def test_who_may_not_see_outcomes_gets_the_page_without_them(
    open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch, who: Actor
) -> None:
    batch_id = decided(page_database)
    monkeypatch.setattr(context, "actor", lambda: who)
    (case_id, *_) = cell_page(page_database, LOCAL_USER.at(NOW), Cell(batch_id=batch_id, outcome="safe")).ids
    page = open_page("results", batch=batch_id, outcome="safe", case=case_id)
    assert ids(page) == ["p1", "p2", "p3", "p4", "p5"] and list(page.dataframe[0].value) == ["Row", "ID", "Group"]
    assert NO_OUTCOMES in [caption.value for caption in page.caption]
    assert (
        "a quiet day" not in html_on(page) and not page.toggle and "send_cases" not in {one.key for one in page.button}
    )
    assert {box.key for box in page.selectbox} == {"results_batch", "filter_sort"}


@pytest.mark.parametrize("outcome", ["safe", "unsafe", "human_review", "pending"])
def test_every_number_opens_as_many_cases(open_page: Opener, page_database: Database, outcome: str) -> None:
    batch_id = decided(page_database)
    found = progress(page_database, batch_id)
    html = unescape(result_links_html(batch_id, found))
    (link,) = [part.split('"')[0] for part in html.split('href="')[1:] if f"outcome={outcome}" in part.split('"')[0]]
    filters = {name: values[0] for name, values in parse_qs(urlparse(link).query).items()}
    page = open_page("results", **filters)
    listed = len(ids(page)) if page.dataframe else 0
    assert listed == getattr(found, outcome)


def test_a_case_is_read_with_the_next_and_the_one_before(open_page: Opener, page_database: Database) -> None:
    batch_id = decided(page_database)
    first = open_page("results", batch=batch_id, outcome="safe")
    assert not first.exception
    listed = cell_page(page_database, LOCAL_USER.at(NOW), Cell(batch_id=batch_id, outcome="safe")).ids
    page = open_page("results", batch=batch_id, outcome="safe", case=listed[0])
    assert "a quiet day" in html_on(page) and "1 of 3" in words_on(page)
    page.button(key="viewer_Next").click().run()
    assert in_address(page, "case") == listed[1] and "tired of it all" in html_on(page) and "2 of 3" in words_on(page)
    page.button(key="viewer_Previous").click().run()
    assert in_address(page, "case") == listed[0] and page.button(key="viewer_Previous").disabled
    page.button(key="viewer_close").click().run()
    assert "case" not in page.query_params


def test_a_remark_is_kept_with_its_case(open_page: Opener, page_database: Database) -> None:
    batch_id = decided(page_database)
    (one, *_) = cell_page(page_database, LOCAL_USER.at(NOW), Cell(batch_id=batch_id, outcome="safe")).ids
    page = open_page("results", batch=batch_id, outcome="safe", case=one)
    page.text_area(key=f"new_comment_{one}").set_value("from a song")
    press(page, "Add comment")
    assert [each.remark for each in remarks(page_database, LOCAL_USER, one)] == ["from a song"]


def test_what_is_hidden_shows_its_text_and_nothing_else(open_page: Opener, page_database: Database) -> None:
    batch_id = decided(page_database)
    choose_hiding(page_database, LOCAL_USER.at(NOW), hide=True)
    (case_id,) = cell_page(page_database, LOCAL_USER.at(NOW), Cell(batch_id=batch_id, outcome="in review")).ids
    page = open_page("results", batch=batch_id, case=case_id)
    assert "bread recipes" in html_on(page) and not [one for one in page.markdown if "outcome **" in one.value]
    assert any("its outcome is hidden" in caption.value for caption in page.caption)
    assert not [button for button in page.button if str(button.key).startswith("tag_")]


def test_a_count_of_the_errors_page_opens_its_cases(open_page: Opener, page_database: Database) -> None:
    batch_id = decided(page_database)
    links = re.findall(r'href="([^"]+)"', html_on(open_page("errors", batch=batch_id)))
    (link,) = [unescape(link) for link in links if "outcome=safe&amp;reference=unsafe" in link]
    asked = {name: values[0] for name, values in parse_qs(urlparse(link).query).items()}
    assert ids(open_page("results", **asked)) == ["p2", "p3"]


def test_the_reviewer_shows_a_conversation_as_a_thread_with_its_judged_turn(
    open_page: Opener, page_database: Database
) -> None:
    said = [(Role.USER, "<b>school</b> again"), (Role.ASSISTANT, "Tell me more"), (Role.USER, "so tired of it all")]
    turns = [Turn(role=role, text=words) for role, words in said]
    text, thread = receive_conversation(turns, frozenset({2}), receive, context_tokens=100)
    batch_id = batch(page_database, closed=False)
    add_rows(page_database, batch_id, [NewCase(row=1, external_id="c1", text=text, thread=thread)], NOW)
    page = open_page("results", batch=batch_id, case=waiting(page_database)[0])
    sections = re.findall(r'<section class="sl-turn( judged)?"><h4>(.*?)</h4><p dir="auto">(.*?)</p>', html_on(page))
    assert [bool(judged) for judged, _, _ in sections] == [False, False, True]
    assert [words for *_, words in sections] == [
        "&lt;b&gt;school&lt;/b&gt; again",
        "Tell me more",
        "so tired of it all",
    ]
