"""Lists of cases: all of a batch, those of a cell of the matrix, each opened below; nothing told of what is hidden."""

import re
from html import unescape
from urllib.parse import parse_qs, urlparse

import pytest
from sqlalchemy import select
from streamlit.testing.v1 import AppTest

from pages.research.case_list import NO_OUTCOMES
from pages.ui import context, widgets
from screening.labels import Outcome
from screening.review.policy import LOCAL_USER
from storage.batches.batches import progress
from storage.database import Database
from storage.review.claims import my_claims
from storage.review.evidence import remarks
from storage.schema import audit_events, inbox_entries
from storage.visibility import choose_hiding
from tests.pages.conftest import Opener, choose_rows, html_on, in_address, press, words_on
from tests.storage.batch_of import NOW, batch, decide, waiting
from tests.storage.people import ADMIN, ANN

TEXTS = ["a quiet day", "write to me@example.org", "so tired of it", "=cmd", "nothing", "bread", "![x](http://x)"]
OUTCOMES = (*[Outcome.SAFE] * 3, *[Outcome.UNSAFE] * 2, Outcome.HUMAN_REVIEW, Outcome.SAFE)
EVERY = [f"p{row}" for row in range(1, 9)]


def decided(db: Database) -> tuple[str, list[str]]:
    """Each cell of the matrix once and the missed twice, one in review, one without a label, one pending; their ids."""
    batch_id = batch(db, [*TEXTS, "not screened"], references="SUUSUS-U")
    case_ids = waiting(db)
    for case_id, outcome in zip(case_ids, OUTCOMES, strict=False):
        decide(db, case_id, outcome)
    return batch_id, case_ids


def ids(page: AppTest) -> list[str]:
    assert not page.exception, page.exception
    return [str(one) for one in page.dataframe[-1].value["ID"]] if page.dataframe else []


def test_the_matrix_counts_and_every_number_opens_as_many_cases(open_page: Opener, page_database: Database) -> None:
    batch_id, _ = decided(page_database)
    begun = open_page("errors", batch=batch(page_database, TEXTS[:4], references="SSUU")).table[0].value.to_string()
    assert "not yet" in begun and "0.0%" not in begun, "nothing of it was screened"
    page = open_page("errors", batch=batch_id)
    table, measures = page.dataframe[0].value, page.table[0].value
    assert list(table["Labeled safe"]) == ["1  true negative", "2  false negative"]
    assert list(table["Labeled unsafe"]) == ["1  false positive", "1  true positive"]
    assert list(measures.columns) == ["Measure", "Original labels"]
    assert "66.7% (95% CI 20.8-93.9%, 2 of 3)" in measures.to_string()
    links = [widgets.result_links_html(batch_id, progress(page_database, batch_id)), html_on(page)]
    counted = re.findall(r'href="(/results[^"]+)"[^>]*><b>(\d+)</b>', unescape(" ".join(links)))
    assert [int(count) for _, count in counted] == [4, 2, 1, 1, 8, 2, 1]
    for link, count in counted:
        asked = {name: values[0] for name, values in parse_qs(urlparse(link).query).items()}
        assert len(ids(open_page("results", **asked))) == int(count), link


def test_cases_are_listed_and_narrowed_by_address_and_by_filters(open_page: Opener, page_database: Database) -> None:
    batch_id, _ = decided(page_database)
    page = open_page("results", batch=batch_id, way="worker:safe")
    assert ids(page) == ["p1", "p2", "p3", "p7"]
    page.selectbox(key="filter_way").select("any").run()
    assert ids(page) == EVERY and "way" not in page.query_params
    table = page.dataframe[0].value
    became = [*["labeled safe"] * 3, *["labeled unsafe"] * 2, "escalated to a clinician", "labeled safe", "pending"]
    assert list(table["Outcome"]) == became and table["Responses"][5] == 6
    assert list(table["Final label"]) == ["in review" if row == 6 else "" for row in range(1, 9)]
    page.selectbox(key="filter_reference").set_value("safe").run()
    assert ids(page) == ["p1", "p4", "p6"] and in_address(page, "reference") == "safe"
    page.text_input(key="filter_q").set_value("p3").run()
    assert ids(page) == []
    assert ids(open_page("results", batch=batch_id, way="<b>:no label", sort="calls"))[-1] == "p8"


def test_outcomes_are_not_for_all(open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    batch_id, (case_id, *_) = decided(page_database)
    for who in (ANN, ADMIN):
        monkeypatch.setattr(context, "actor", lambda who=who: who)
        page = open_page("results", batch=batch_id, outcome="safe", case=case_id)
        assert ids(page) == EVERY and list(page.dataframe[0].value) == ["Row", "ID", "Group"]
        assert NO_OUTCOMES in [caption.value for caption in page.caption] and not page.toggle
        assert TEXTS[0] not in html_on(page) and "send_cases" not in {one.key for one in page.button}
        assert {box.key for box in page.selectbox} == {"results_batch", "filter_sort"}


def test_a_case_is_read_with_its_neighbors_and_alone_where_hidden(open_page: Opener, page_database: Database) -> None:
    batch_id, case_ids = decided(page_database)
    page = open_page("results", batch=batch_id, outcome="safe", case=case_ids[0])
    assert TEXTS[0] in html_on(page) and "1 of 4" in words_on(page)
    page.text_area(key=f"new_comment_{case_ids[0]}").set_value("from a song")
    press(page, "Add comment")
    assert [each.remark for each in remarks(page_database, LOCAL_USER, case_ids[0])] == ["from a song"]
    choose_hiding(page_database, LOCAL_USER.at(NOW), hide=True)
    page = open_page("results", batch=batch_id, case=case_ids[5])
    assert "bread" in html_on(page) and not [one for one in page.markdown if "outcome **" in one.value]
    assert not [button for button in page.button if str(button.key).startswith("tag_")]


def test_a_cell_opens_its_cases_and_their_texts_masked_and_logged(open_page: Opener, page_database: Database) -> None:
    """Without a batch it is of the newest one."""
    decided(page_database)
    page = open_page("errors", cell="unsafe.safe")
    assert ids(page) == ["p2", "p3"] and list(page.dataframe[1].value["Margin"]) == [1.0, 1.0]
    assert "Text begins" not in page.dataframe[1].value
    page.toggle(key="cell_texts").set_value(True).run()
    page.run()
    assert list(page.dataframe[1].value["Text begins"]) == ["write to ▒▒▒", "so tired of it"]
    viewed = page_database.rows(select(audit_events).where(audit_events.c.action == "text_viewed"))
    assert len(viewed) == 2 and not any("write" in one.details for one in viewed)


def test_one_or_all_cases_of_a_cell_are_sent_with_as_many_controls(open_page: Opener, page_database: Database) -> None:
    """Of four missed and four right two are chosen, then all are sent; the controls that are left are the other two.
    A single one may be reviewed at once.
    """
    batch_id = batch(page_database, [f"a plain text, number {n}" for n in range(8)], references="UUUUSSSS")
    case_ids = waiting(page_database)
    for case_id in case_ids:
        decide(page_database, case_id, Outcome.SAFE)

    def pressed(button: str, rows: tuple[int, ...] = (), *cells: tuple[int, str]) -> set[str]:
        page = open_page("errors", batch=batch_id, cell="unsafe.safe")
        if rows:
            choose_rows(page, page.dataframe[-1], rows, *cells)
        page.button(key=button).click().run()
        assert not page.exception, page.exception
        return set(page_database.values(select(inbox_entries.c.case_id)))

    first = pressed("send_cases", (0, 2))
    assert first & set(case_ids[:4]) == {case_ids[0], case_ids[2]} and len(first) == 4
    assert pressed("send_cases") == set(case_ids)
    pressed("review_now", (0,), (1, "ID"))  # pressed after the tick
    assert [one.case_id for one in my_claims(page_database, LOCAL_USER.at(context.now()))] == [case_ids[1]]
