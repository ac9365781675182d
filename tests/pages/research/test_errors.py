"""Errors: the matrix, its metrics, the cases behind a cell, and the corrected files."""

import re
from collections.abc import Iterable

from sqlalchemy import select, update
from streamlit.testing.v1 import AppTest

from pages.research.case_list import COUNTS_AS_SEEN
from pages.ui import context
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from storage.database import Database
from storage.review.claims import my_claims
from storage.schema import audit_events, cases, inbox_entries
from storage.visibility import choose_hiding
from tests.databases import write
from tests.pages.conftest import Opener, choose_rows, html_on
from tests.storage.batch_of import LATER, batch, commit, commit_run, decide, run, screening, waiting

TEXTS = ["a quiet day", "=cmd", "write to me@example.org", "nothing", "![x](http://outside.example/x.png)"]


def _shown(page: AppTest) -> str:
    return page.table[0].value.to_string()


def _decided(db: Database, outcomes: Iterable[Outcome], references: str = "SSUU-") -> str:
    batch_id = batch(db, TEXTS, references=references)
    for case_id, outcome in zip(waiting(db), outcomes, strict=False):
        decide(db, case_id, outcome)
    return batch_id


def _whole(batch_database: Database) -> str:
    return _decided(batch_database, [Outcome.SAFE, Outcome.UNSAFE, Outcome.SAFE, Outcome.UNSAFE, Outcome.SAFE])


def test_a_batch_that_has_not_begun_says_not_yet_and_never_zero(open_page: Opener, page_database: Database) -> None:
    batch(page_database, TEXTS, references="SSUU-")
    page = open_page("errors")
    assert not page.exception
    assert "not yet" in _shown(page) and "0.0%" not in _shown(page)


def test_the_matrix_counts_and_the_metrics_have_intervals(open_page: Opener, page_database: Database) -> None:
    _whole(page_database)
    page = open_page("errors")
    table = page.dataframe[0].value
    assert list(table["Labeled safe"]) == ["1  true negative", "1  false negative"]
    assert list(table["Labeled unsafe"]) == ["1  false positive", "1  true positive"]
    assert "50.0% (95% CI 9.5-90.5%, 1 of 2)" in _shown(page)
    assert list(page.table[0].value.columns) == ["Measure", "Original labels"]
    missed, alarms = re.findall(r'href="(/results[^"]+)"', html_on(page))
    assert missed.endswith("outcome=safe&amp;reference=unsafe") and alarms.endswith("outcome=unsafe&amp;reference=safe")
    left = [caption.value for caption in page.caption if caption.value.startswith("Left out, without a label")]
    assert len(left) == 1 and "1 of" in left[0] and left[0].endswith(" by final labels.")


def test_a_cell_in_the_address_opens_its_cases(open_page: Opener, page_database: Database) -> None:
    batch_id = _whole(page_database)
    page = open_page("errors", batch=batch_id, cell="unsafe.safe")
    assert not page.exception
    assert "Original label unsafe, labeled safe: false negative" in [heading.value for heading in page.header]
    assert list(page.dataframe[1].value["ID"]) == ["p3"]
    assert list(page.dataframe[1].value["Margin"]) == [1.0]


def test_a_cell_in_the_address_without_a_batch_is_of_the_newest_batch(
    open_page: Opener, page_database: Database
) -> None:
    _whole(page_database)
    page = open_page("errors", cell="unsafe.safe")
    assert [list(table.value["ID"]) for table in page.dataframe[1:]] == [["p3"]]


def test_texts_are_shown_by_choice_masked_and_logged_once(open_page: Opener, page_database: Database) -> None:
    page = open_page("errors", batch=_whole(page_database), cell="unsafe.safe")
    assert "Text begins" not in page.dataframe[1].value
    page.toggle(key="cell_texts").set_value(True).run()
    page.run()
    assert list(page.dataframe[1].value["Text begins"]) == ["write to ▒▒▒"]
    viewed = page_database.rows(select(audit_events).where(audit_events.c.action == "text_viewed"))
    assert len(viewed) == 1 and "write" not in viewed[0].details


def test_cases_in_review_are_counted_and_listed_and_hidden_from_the_list_by_the_switch(
    open_page: Opener, page_database: Database
) -> None:
    batch_id = batch(page_database, TEXTS, references="SSUU-", audit_rate=1.0)
    for case_id in waiting(page_database):
        decide(page_database, case_id, Outcome.SAFE)
    page = open_page("errors", batch=batch_id, cell="unsafe.safe")
    for hides, listed in ((False, ["p3", "p4"]), (True, None), (False, ["p3", "p4"])):
        assert page.toggle(key="hide_in_review").value is hides
        assert list(page.dataframe[0].value["Labeled safe"]) == ["2  true negative", "2  false negative"]
        assert [list(table.value["ID"]) for table in page.dataframe[1:]] == ([listed] if listed else [])
        hidden = any("0 cases. 2 more are in review and hidden" in caption.value for caption in page.caption)
        assert hidden is hides and any(caption.value == COUNTS_AS_SEEN for caption in page.caption) is not hides
        page.toggle(key="hide_in_review").set_value(not hides).run()
    choose_hiding(page_database, LOCAL_USER.at(LATER), hide=False)  # in another tab
    page.run()
    assert page.toggle(key="hide_in_review").value is False


def _thirty_missed(db: Database) -> str:
    """A cell of two pages; agents were in two minds about three of its cases."""
    batch_id = batch(db, [f"text {number}" for number in range(30)], references="U" * 30)
    for number, case_id in enumerate(waiting(db)):
        made = run("SSSSSSE" if number % 10 == 0 else "SSSSSS")
        assert commit_run(db, case_id, 0, made) and commit(db, case_id, screening(Outcome.SAFE, made))
    return batch_id


def test_a_filter_chosen_on_the_second_page_lists_its_cases(open_page: Opener, page_database: Database) -> None:
    page = open_page("errors", batch=_thirty_missed(page_database), cell="unsafe.safe")
    page = page.pagination[0].set_value(2).run()
    assert list(page.dataframe[1].value["Row"]) == [26, 27, 28, 29, 30]
    page.selectbox(key="filter_gap").set_value("0.8 or less").run()
    assert list(page.dataframe[1].value["Row"]) == [1, 11, 21]


def test_a_page_that_is_gone_gives_way_to_the_first(open_page: Opener, page_database: Database) -> None:
    page = open_page("errors", batch=_thirty_missed(page_database), cell="unsafe.safe")
    page = page.pagination[0].set_value(2).run()
    write(page_database, update(cases).where(cases.c.row > 20).values(reference="safe"))
    page = page.run()
    assert len(page.dataframe[1].value) == 20


def test_one_chosen_or_all_cases_of_a_cell_are_sent_with_as_many_controls(
    open_page: Opener, page_database: Database
) -> None:
    """Four missed, and four safe ones called safe beside them. Two are chosen, then all are sent, of which two
    are there; the controls that are left are the other two. A single one may be reviewed at once.
    """
    batch_id = batch(page_database, [f"a plain text, number {n}" for n in range(8)], references="UUUUSSSS")
    ids = waiting(page_database)
    for case_id in ids:
        decide(page_database, case_id, Outcome.SAFE)
    queued = select(inbox_entries.c.case_id)
    page = open_page("errors", batch=batch_id, cell="unsafe.safe")
    choose_rows(page, page.dataframe[-1], [0, 2])
    page.button(key="send_cases").click().run()
    assert page.success[0].value.startswith("4 cases sent to review")
    first = set(page_database.values(queued))
    assert first & set(ids[:4]) == {ids[0], ids[2]} and len(first) == 4
    page = open_page("errors", batch=batch_id, cell="unsafe.safe")
    page.button(key="send_cases").click().run()
    assert page.success[0].value.startswith("4 cases sent to review, controls included; 2 were already there.")
    assert set(page_database.values(queued)) == set(ids)
    page = open_page("errors", batch=batch_id, cell="unsafe.safe")
    choose_rows(page, page.dataframe[-1], [1])
    page.button(key="review_now").click().run()
    assert [one.case_id for one in my_claims(page_database, LOCAL_USER.at(context.now()))] == [ids[1]]
