"""Agreement: figures with their intervals, undefined ones with their reason, and the matrix as a file."""

import csv
import io
import json

import pytest

from jobs.reviews import measure_agreement, tally_switches
from pages.ui.downloads import export_reviews
from pages.ui.format import rate
from screening.evaluation.metrics import Proportion
from screening.review.policy import Forbidden
from screening.review.triage import Priority
from storage.audit_log import events
from storage.database import Database
from storage.research.review_table import ReviewTable, Switch, collect_reviews, review_table
from storage.review.reviews import submit_review
from storage.settings_store import SiteSettings, change
from tests.pages.conftest import Opener
from tests.storage.inbox_cases import ADMIN, ANN, BO, NOW, RESEARCHER, SENIOR, fill, form, register, take


def test_figures_have_cases_and_the_matrix_is_for_researchers_alone(open_page: Opener, page_database: Database) -> None:
    """Two reviewers read five cases: they agree on four, now on unsafe and now on safe, and differ on one."""
    db = page_database
    register(db, ANN, BO)
    change(db, ADMIN.at(NOW), SiteSettings(second_review_rate=1.0), 0)
    disputed, *agreed = fill(db, [Priority.P2] * 5, kind="interactive")
    for who in (ANN, BO):
        for number in range(5):
            claim = take(db, who)
            unsafe = who is ANN if claim.case_id == disputed else claim.case_id in agreed[:2]
            filled = form("unsafe" if unsafe else "safe", 5, ideation=1)
            submit_review(db, who.at(NOW), claim.case_id, claim.token, filled, f"{who.id}{number:029}")
    page = open_page("agreement")
    assert not page.exception and "1 more " in page.warning[0].value, "the one that waits is missing in the figures"
    assert [metric.value for metric in page.metric] == ["4", "4", "0", "2"]
    assert list(page.table[0].value["Coefficient"])[:3] == ["Krippendorff α", "Gwet AC1", "Cohen κ"]
    (priority,) = page.dataframe[0].value.to_dict("records")
    assert priority["Share unsafe, 95% CI"] == rate(Proportion(priority["Unsafe"], 8))
    (pair,) = measure_agreement(db, SENIOR, "key", None).pairs
    assert pair[2] == Proportion(4, 4) and page.get("plotly_chart")
    found = collect_reviews(db, RESEARCHER.at(NOW), "key")
    assert found == review_table(db, RESEARCHER, "key")
    assert events(db, SENIOR)[0].details == {"kind": "reviews"}
    with pytest.raises(Forbidden):
        collect_reviews(db, SENIOR.at(NOW), "key")


TABLE = ReviewTable(
    case_ids=("a", "b"),
    external_ids=("7", "8"),
    reviewers=("reviewer-1", "reviewer-2"),
    at_random=(True, False),
    labels=(("safe", "unsafe"), (None, "safe")),
    certainties=((5, 4), (None, 1)),
    ideation=((None, 3), (None, 0)),
    turns=(("first", "second"), (None, "first")),
)


def test_the_files_hold_every_review_and_leave_gaps_empty() -> None:
    rows = list(csv.reader(io.StringIO("".join(export_reviews(TABLE, "csv")).removeprefix("\ufeff"))))
    head = ["case_id", "id", "reviewer-1", "reviewer-2", "at_random"]
    assert rows == [head, ["a", "7", "safe", "unsafe", "true"], ["b", "8", "", "safe", "false"]]
    lines = [json.loads(line) for line in export_reviews(TABLE, "jsonl")]
    review = {"label": "safe", "certainty": 1, "ideation": 0, "review": "first"}
    assert lines[1] == {"case_id": "b", "id": "8", "at_random": False, "reviews": {"reviewer-2": review}}


def test_changes_of_mind_count_for_better_and_for_worse() -> None:
    turns = (("unsafe", "safe", "safe"), ("unsafe", "safe", "unsafe"), ("safe", "safe", "safe"), ("safe", "safe", None))
    reviews = [
        Switch(case_id="c", reviewer="r", first=first, last=last, outcome="safe", adjudicated=final, reference=None)
        for first, last, final in turns
    ]
    found = tally_switches(reviews, against="adjudicated")
    counts = [(each.numerator, each.denominator) for each in (found.switched, found.to_right, found.to_wrong)]
    assert counts == [(2, 4), (1, 1), (1, 2)]
    assert tally_switches(reviews, against="reference").to_right.value is None
