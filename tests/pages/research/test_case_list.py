"""Lists of cases: all of a batch, those of a cell of the matrix, each opened below; nothing told of what is hidden."""

import re
from collections.abc import Iterable
from html import unescape
from urllib.parse import parse_qs, urlparse

import pytest
from sqlalchemy import select, update
from streamlit.testing.v1 import AppTest

from pages.research.case_list import COUNTS_AS_SEEN, NO_OUTCOMES
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
from storage.research.cells import cell_page, remarks
from storage.research.listed import Cell
from storage.review.claims import my_claims
from storage.schema import audit_events, cases, inbox_entries
from storage.visibility import choose_hiding
from tests.databases import write
from tests.pages.conftest import Opener, choose_rows, html_on, in_address, press, words_on
from tests.storage.batch_of import LATER, NOW, batch, commit, commit_run, decide, run, screening, waiting
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


def test_every_number_opens_as_many_cases(open_page: Opener, page_database: Database) -> None:
    batch_id = decided(page_database)
    links = [result_links_html(batch_id, progress(page_database, batch_id))]
    links += re.findall("<a.*?</a>", html_on(open_page("errors", batch=batch_id)), re.DOTALL)
    counted = re.findall(r'href="(/results[^"]+)"[^>]*><b>(\d+)</b>', unescape(" ".join(links)))
    assert [int(count) for _, count in counted] == [3, 0, 1, 1, 5, 2]
    for link, count in counted:
        asked = {name: values[0] for name, values in parse_qs(urlparse(link).query).items()}
        page = open_page("results", **asked)
        assert len(ids(page) if page.dataframe else []) == int(count), link


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
    page.text_area(key=f"new_comment_{listed[0]}").set_value("from a song")
    press(page, "Add comment")
    assert [each.remark for each in remarks(page_database, LOCAL_USER, listed[0])] == ["from a song"]
    page.button(key="viewer_close").click().run()
    assert "case" not in page.query_params


def test_what_is_hidden_shows_its_text_and_nothing_else(open_page: Opener, page_database: Database) -> None:
    batch_id = decided(page_database)
    choose_hiding(page_database, LOCAL_USER.at(NOW), hide=True)
    (case_id,) = cell_page(page_database, LOCAL_USER.at(NOW), Cell(batch_id=batch_id, outcome="in review")).ids
    page = open_page("results", batch=batch_id, case=case_id)
    assert "bread recipes" in html_on(page) and not [one for one in page.markdown if "outcome **" in one.value]
    assert any("its outcome is hidden" in caption.value for caption in page.caption)
    assert not [button for button in page.button if str(button.key).startswith("tag_")]


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


MARKED = ["a quiet day", "=cmd", "write to me@example.org", "nothing", "![x](http://outside.example/x.png)"]


def _shown(page: AppTest) -> str:
    return page.table[0].value.to_string()


def _decided(db: Database, outcomes: Iterable[Outcome], references: str = "SSUU-") -> str:
    batch_id = batch(db, MARKED, references=references)
    for case_id, outcome in zip(waiting(db), outcomes, strict=False):
        decide(db, case_id, outcome)
    return batch_id


def _whole(batch_database: Database) -> str:
    return _decided(batch_database, [Outcome.SAFE, Outcome.UNSAFE, Outcome.SAFE, Outcome.UNSAFE, Outcome.SAFE])


def test_a_batch_that_has_not_begun_says_not_yet_and_never_zero(open_page: Opener, page_database: Database) -> None:
    batch(page_database, MARKED, references="SSUU-")
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


@pytest.mark.parametrize("named", [True, False])
def test_a_cell_in_the_address_opens_its_cases(open_page: Opener, page_database: Database, named: bool) -> None:
    """Without a batch it is of the newest one."""
    batch = {"batch": _whole(page_database)}
    page = open_page("errors", cell="unsafe.safe", **(batch if named else {}))
    assert not page.exception
    assert "Original label unsafe, labeled safe: false negative" in [heading.value for heading in page.header]
    (cases,) = (table.value for table in page.dataframe[1:])
    assert (list(cases["ID"]), list(cases["Margin"])) == (["p3"], [1.0])


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
    batch_id = batch(page_database, MARKED, references="SSUU-", audit_rate=1.0)
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


def test_a_filter_or_a_page_that_is_gone_leads_from_the_second_page_to_the_first(
    open_page: Opener, page_database: Database
) -> None:
    page = open_page("errors", batch=_thirty_missed(page_database), cell="unsafe.safe")
    page = page.pagination[0].set_value(2).run()
    assert list(page.dataframe[1].value["Row"]) == [26, 27, 28, 29, 30]
    write(page_database, update(cases).where(cases.c.row > 20).values(reference="safe"))
    assert list(page.run().dataframe[1].value["Row"]) == list(range(1, 21))
    page.selectbox(key="filter_gap").set_value("0.8 or less").run()
    assert list(page.dataframe[1].value["Row"]) == [1, 11]


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
