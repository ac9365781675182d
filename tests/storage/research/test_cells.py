"""A batch in columns of numbers is what it is case by case; and the cases behind a number: every filter, tag and
remark, the gap, and what is kept from who has yet to read.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert, select, update

from screening.evaluation.experiments import encode_items
from screening.evaluation.metrics import outcome_codes, reference_codes
from screening.labels import Label, Outcome
from screening.pipeline.engine import Reason, guard_for
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from screening.review.review_form import ReviewLabel
from storage.batches.counts import PENDING
from storage.batches.results import Result, results
from storage.batches.screenings import committed_runs, gap_of
from storage.database import Database
from storage.research import cells, recordings
from storage.research.listed import MOST_LISTED, Cell
from storage.review.adjudication import amend
from storage.review.worklist import request_second_looks
from storage.schema import adjudications, cases
from tests.databases import write
from tests.storage.batch_of import LATER, NOW, batch, commit, commit_run, decide, run, screening, waiting
from tests.storage.inbox_cases import form, read
from tests.storage.people import ANN, RESEARCHER, SENIOR
from tests.storage.recount import adjudicated_labels
from tests.storage.statements import statements


def filled(db: Database, number: int) -> str:
    """Cases of every kind: settled, escalated, begun, untouched; with groups and awkward prices."""
    texts = [f"text {n}" if n % 5 else "notes from \u202eTuesday" for n in range(number)]
    batch_id = batch(db, texts, references="".join("SU-"[n % 3] for n in range(number)))
    ids = set(db.values(select(cases.c.id).where(cases.c.batch_id == batch_id)))
    for n, case_id in enumerate(case_id for case_id in waiting(db) if case_id in ids):
        outcome = Outcome.HUMAN_REVIEW if n % 5 == 0 else tuple(Outcome)[n % 3]
        label = {Outcome.SAFE: Label.SAFE, Outcome.UNSAFE: Label.UNSAFE}.get(outcome)
        first = run("SSU?E!"[: n % 6 + 1], Label.ESCALATE if n % 2 else None)
        second = run({Label.SAFE: "S", Label.UNSAFE: "U", None: "SU"}[label] * (n % 4 + 1), label, "risk", 7 * (n % 3))
        if n % 7 == 6:
            continue
        if n % 8 == 1:
            decide(db, case_id, outcome)
            continue
        commit_run(db, case_id, 0, first, cost_usd=None if n % 4 == 3 else 0.1 + n / 3e7)
        if n % 7 == 5:
            continue
        commit_run(db, case_id, 1, second, cost_usd=1 / 3)
        reason = Reason.IDENTIFIED if label else Reason.EXHAUSTED
        commit(db, case_id, screening(outcome, first, second, node="risk", reason=reason))
    with db.write() as conn:
        conn.execute(update(cases).where(cases.c.row % 2 == 0).values(group_name="even"))
        conn.execute(update(cases).where(cases.c.row == 3).values(group_name='a "quoted", name'))
    return batch_id


def test_columns_are_what_the_batch_is_case_by_case(db: Database) -> None:
    batch(db, ["another file's"], references="U")
    batch_id = filled(db, 24)
    with statements() as sent:
        found = recordings.recorded_columns(db, LOCAL_USER, batch_id)
        waits, guards = (
            read(db, LOCAL_USER, batch_id, found.rows) for read in (recordings.in_review_mask, recordings.guards_in)
        )
    assert len(sent) < 24, "no statement a case"
    slow = recordings.recorded_batch(db, LOCAL_USER, batch_id)
    mine, yours = (
        found.drawn,
        encode_items(slow.items, slow.book.record(), slow.book.per_draw("tokens"), slow.book.per_draw("cost_usd")),
    )
    assert mine.names == yours.names == ('a "quoted", name', "even") and (mine.references == yours.references).all()
    assert (mine.groups == yours.groups).all() and found.rows.tolist() == list(range(1, 25))
    for node in sorted({*mine.record.nodes, *yours.record.nodes}):
        one, other = mine.record.node(node), yours.record.node(node)
        assert (one.draws[one.of] == other.draws[other.of]).all() and (one.lengths == other.lengths).all()
        for per_draw in ("tokens", "costs"):
            assert np.array_equal(getattr(mine, per_draw)[node], getattr(yours, per_draw)[node], equal_nan=True)
    listed = list(results(db, LOCAL_USER.at(NOW), batch_id))
    told = outcome_codes([None if one.outcome == PENDING else Outcome(one.outcome) for one in listed])
    for who in (LOCAL_USER, RESEARCHER):
        assert (recordings.outcomes_in(db, who, batch_id, found.rows) == told).all()
    assert len(set(told.tolist())) == 4, "pending and each of the three"
    assert waits.tolist() == [one.in_review for one in listed] and any(waits)
    flagged = db.rows(select(cases.c.row, cases.c.flags).where(cases.c.batch_id == batch_id))
    forbidden = {row.row - 1: guard_for(row.flags["text"] + row.flags["reply"]) for row in flagged}
    forbidden = {place: guard for place, guard in forbidden.items() if guard != guard_for([])}
    assert guards == forbidden and forbidden
    named = recordings.case_names(db, LOCAL_USER, batch_id, [5, 2, 99])
    assert [item.id for item in slow.items] == [one.external_id for one in listed]
    assert [item.reference for item in slow.items] == [one.reference for one in listed]
    for run_ in committed_runs(db, slow.case_ids[2]):
        kept = slow.book.of(2, run_.node)
        assert (kept.codes, kept.tokens) == (run_.codes, run_.usage.input_tokens + run_.usage.output_tokens)
    assert recordings.recorded_batch(db, LOCAL_USER, batch_id, with_texts=True).items[1].text.text == "text 1"
    assert slow.pending == sum(one.outcome == PENDING for one in listed)
    assert {row: (one.case_id, one.external_id) for row, one in named.items()} == {
        row: (slow.case_ids[row - 1], f"p{row}") for row in (2, 5)
    }

    fewer = found.rows[:7]  # the file grew meanwhile
    assert (recordings.outcomes_in(db, LOCAL_USER, batch_id, fewer) == told[:7]).all()
    short = replace(found, rows=fewer, drawn=replace(mine, references=mine.references[:7]))
    assert len(recordings.accepted_references(db, LOCAL_USER, batch_id, short)[0]) == 7
    nothing = recordings.recorded_columns(db, LOCAL_USER, batch(db))
    assert nothing.drawn.record.cases == 0 and nothing.rows.tolist() == []


@pytest.mark.parametrize("hour", [23, 0])
def test_accepted_labels_are_those_of_the_version_asked_for(db: Database, hour: int) -> None:
    """At hour 0 the clock was set back before the label was amended."""
    batch_id = batch(db, ["one", "two", "three"], references="SS-")
    ids = waiting(db)
    for case_id in ids:
        decide(db, case_id)
    request_second_looks(db, LOCAL_USER.at(LATER), ids)
    for said in ("unsafe", "insufficient_information", "safe"):
        read(db, LOCAL_USER, form(said), now=LATER)
    amend(db, LOCAL_USER.at(LATER.replace(hour=hour)), ids[0], ReviewLabel.SAFE, "read again", 1)
    columns = recordings.recorded_columns(db, LOCAL_USER, batch_id)
    for version in (0, 1, 2, 3, 4, None):
        accepted = adjudicated_labels(db, LOCAL_USER, batch_id, version)
        slow = [
            {"safe": Label.SAFE, "unsafe": Label.UNSAFE}.get(accepted[case_id]) if case_id in accepted else before
            for case_id, before in zip(ids, (Label.SAFE, Label.SAFE, None), strict=True)
        ]
        references, places = recordings.accepted_references(db, LOCAL_USER, batch_id, columns, version)
        assert (references == reference_codes(slow)).all()
        assert [ids[place] for place in places] == [case_id for case_id in ids if case_id in accepted]
    assert accepted[ids[0]] == "safe", "the newest, whatever its moment"


ME, BY = LOCAL_USER.at(NOW), RESEARCHER.at(NOW)
TEXTS = [f"text number {number}" for number in range(5)]


@pytest.fixture
def batch_id(db: Database) -> str:
    """Cases of every kind, some tagged, one whose label people replaced; and another file's case."""
    made = filled(db, 15)
    ids = [one.case_id for one in results(db, ME, made)]
    for case_id in ids[1:12:5]:
        cells.add_tag(db, ME, case_id, "odd")
    fields = {"method": "senior", "by": "s", "reason": None, "review_ids": [], "at": NOW}
    label = {"unsafe": "safe", "safe": "unsafe"}[next(one.reference for one in results(db, ME, made) if one.row == 4)]
    write(db, insert(adjudications).values(case_id=ids[3], version=1, label=label, **fields))
    batch(db, ["another file's"], references="U")
    return made


def _known(db: Database, batch_id: str) -> list[tuple[Result, Collection[tuple[str, Label | None]]]]:
    """Each case of the batch, and which agent gave it which label."""
    every = list(results(db, ME, batch_id))
    return [(one, {(run.node, run.verdict.label) for run in committed_runs(db, one.case_id)}) for one in every]


def _is_on(one: Result, ways: Collection[tuple[str, Label | None]], wanted: Cell) -> bool:
    """Whether the case belongs on the list, in plain words."""
    replaced = one.accepted if wanted.labels == "adjudicated" else None
    return (
        wanted.reference in (None, replaced or one.reference)
        and wanted.outcome in (None, one.outcome, "in review" if one.in_review else one.outcome)
        and all(getattr(wanted, name) in (None, getattr(one, name)) for name in ("node", "reason", "group"))
        and (wanted.gap_at_most is None or (one.gap is not None and one.gap <= wanted.gap_at_most))
        and (wanted.way is None or wanted.way in ways)
        and (wanted.source is None or (wanted.source == "adjudicated") is bool(one.accepted))
        and (wanted.tag is None or wanted.tag in one.tags)
        and (wanted.search in (None, str(one.row)) or f"p{one.row} {one.group}".startswith(wanted.search)
             or (one.group or "").startswith(wanted.search))
    )  # fmt: skip


FILTERS: list[dict[str, Any]] = [
    {"reference": "safe"},
    {"reference": "unsafe", "labels": "adjudicated"},
    *({"outcome": one} for one in ("safe", "unsafe", "pending", "in review")),
    *({"node": one} for one in ("worker", "risk", "legal")),
    {"reason": "identified"},
    *({"way": one} for one in (("worker", Label.ESCALATE), ("worker", None), ("risk", Label.UNSAFE))),
    *({"gap_at_most": one} for one in (0.0, 0.5)),
    *({"source": one} for one in ("file", "adjudicated")),
    *({"search": one} for one in ("p4", "4", "p", "%", "ev")),
    {"group": "even"},
    {"tag": "odd"},
]


@pytest.mark.parametrize("most", [1, MOST_LISTED])
def test_a_list_holds_the_cases_that_have_all_it_asks_for_in_the_files_order(
    db: Database, batch_id: str, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Among few and among many, by one filter or two; what is more than can be counted is said and left out."""
    for module in ("listed", "cells"):
        monkeypatch.setattr(f"storage.research.{module}.MOST_LISTED", most)
    known, seen = _known(db, batch_id), set()
    pairs = list(combinations(FILTERS, 2))[most % 6 :: 6]
    for filters in [{}, *FILTERS, *(one | other for one, other in pairs)]:
        wanted = Cell(batch_id=batch_id, **filters)
        found = [one.row for one, ways in known if _is_on(one, ways, wanted)]
        page = cells.cell_page(db, ME, wanted)
        assert ([case.row for case in page.cases], page.more) == (found[:most], len(found) > most), wanted
        seen.add(tuple(found))
    assert len(seen) > 20, "the filters differ in what they find"


def test_a_list_is_sorted_paged_and_tells_nothing_of_what_waits(db: Database, batch_id: str) -> None:
    known = _known(db, batch_id)
    every = [one for one, _ in known]
    waits = [one.row for one in every if one.in_review]
    for who, descending, sort in product((LOCAL_USER, SENIOR), (False, True), ("calls", "gap", "id", "group")):
        values = {one.row: one.external_id if sort == "id" else getattr(one, sort) for one in every}
        values |= {one.row: None for one in every if sort == "calls" and one.outcome == "pending"}
        hidden = waits if who is SENIOR and sort in ("calls", "gap") else []
        none = [row for row, value in values.items() if row not in hidden and value is None]
        ordered = sorted(set(values) - {*hidden, *none}, key=lambda row: values[row], reverse=descending)
        page = cells.cell_page(db, who.at(NOW), Cell(batch_id=batch_id, sort=sort, descending=descending))
        found = [case.row for case in page.cases]
        assert [values[row] for row in found] == [values[row] for row in (*ordered, *none, *hidden)], (who, sort)
        assert len(set(found)) == len(every)
    for filters in FILTERS:
        wanted = Cell(batch_id=batch_id, **filters)
        told = cells.cell_page(db, SENIOR.at(NOW), wanted)
        tells = not {"reference", "search", "group"} & set(filters) and wanted.outcome != "in review"
        left_out = {one.row for one, ways in known if tells and one.in_review and _is_on(one, ways, wanted)}
        assert (told.hidden, {case.row for case in told.cases} & left_out) == (len(left_out), set()), filters
        assert {(one.node, one.calls, one.cost_usd, one.gap) for one in told.cases if one.hidden} <= {(None,) * 4}
    whole = cells.cell_page(db, SENIOR.at(NOW), Cell(batch_id=batch_id))
    second = cells.cell_page(db, SENIOR.at(NOW), Cell(batch_id=batch_id), limit=2, offset=2)
    assert ([case.row for case in second.cases], second.ids, second.found) == ([3, 4], whole.ids, len(every))


@pytest.mark.parametrize(
    ("codes", "gap"), [("SSSSSS", 1.0), ("SSSUUE", 1 / 6), ("SSS?!E", 0.0), ("SSSSUU", 1 / 3), ("SSEEUU", 0.0)]
)
def test_the_gap_is_how_far_the_first_answer_lies_ahead_of_the_second(codes: str, gap: float) -> None:
    assert gap_of(run(codes)) == pytest.approx(gap)


def test_the_matrix_counts_by_the_files_labels_and_by_accepted_ones_in_a_group_as_in_the_batch(
    db: Database, batch_id: str
) -> None:
    known = _known(db, batch_id)
    every = [one for one, _ in known]
    assert cells.groups(db, LOCAL_USER, batch_id) == tuple(sorted({one.group for one in every if one.group}))
    for group in (None, "even"):
        found = cells.confusions(db, LOCAL_USER, batch_id, group)
        counted = [one for one in every if one.reference and group in (None, one.group)]
        assert found.original == Counter((one.reference, one.outcome) for one in counted)
        assert found.adjudicated == Counter((one.accepted or one.reference, one.outcome) for one in counted)
    for filters in ({"outcome": "unsafe"}, {"reference": "safe", "outcome": "safe", "labels": "adjudicated"}):
        listed = [one for one, ways in known if _is_on(one, ways, Cell(batch_id=batch_id, **filters))]
        choices = cells.cell_choices(db, LOCAL_USER, Cell(batch_id=batch_id, **filters))
        assert choices["node"] == tuple(sorted({one.node for one in listed})), filters
        assert choices["reason"] == ("identified",) and set(choices["tag"]) <= {"odd"}


def test_who_may_not_see_outcomes_gets_no_cell_and_the_same_list_whatever_becomes_of_the_cases(db: Database) -> None:
    whole = Cell(batch_id=batch(db, TEXTS))
    telling = [{"reference": "safe"}, {"tag": "odd"}, {"batch_id": ""}, {"way": ("worker", None)}, {"source": "file"}]
    telling += [{"outcome": one} for one in ("safe", "pending", "in review")]
    telling += [{"sort": one} for one in ("calls", "cost", "gap", "value")] + [{"ids": ()}, {"gap_at_most": 0.5}]
    for narrowed in telling:
        with pytest.raises(Forbidden):
            cells.cell_page(db, ANN.at(NOW), replace(whole, **narrowed))
    cell = Cell(batch_id=batch(db, TEXTS, references="UUSS-", audit_rate=0.5), sort="id")
    case_ids, lists = waiting(db)[-5:], [cells.cell_page(db, ANN.at(NOW), cell)]
    for case_id, outcome in zip(case_ids, (*Outcome, Outcome.SAFE), strict=False):
        decide(db, case_id, outcome)
        lists.append(cells.cell_page(db, ANN.at(NOW), cell))
    cells.add_tag(db, BY, case_ids[0], "odd")
    request_second_looks(db, BY, case_ids[:4])
    lists.append(cells.cell_page(db, ANN.at(NOW), cell))
    assert [case.external_id for case in lists[0].cases] == ["p1", "p2", "p3", "p4", "p5"]
    assert all(each == lists[0] for each in lists)


def test_tags_are_kept_once_counted_filtered_by_and_taken_away(db: Database) -> None:
    batch_id = batch(db, TEXTS[:2])
    first, second = waiting(db)
    decide(db, second, Outcome.HUMAN_REVIEW)  # in review or not
    for case_id, words in (
        (first, " Song  Lyrics"),
        (first, "song lyrics"),
        (second, "song lyrics"),
        (first, "sarcasm"),
    ):
        cells.add_tag(db, BY, case_id, words)
    assert dict(cells.tag_counts(db, RESEARCHER, batch_id)) == {"song lyrics": 2, "sarcasm": 1}
    listed = cells.cell_page(db, BY, Cell(batch_id=batch_id, tag="song lyrics"))
    assert [case.tags for case in listed.cases] == [("sarcasm", "song lyrics"), ("song lyrics",)]
    assert cells.cell_choices(db, RESEARCHER, Cell(batch_id=batch_id))["tag"] == ("sarcasm", "song lyrics")
    cells.remove_tag(db, BY, first, "song lyrics")
    assert dict(cells.tag_counts(db, RESEARCHER, batch_id)) == {"sarcasm": 1, "song lyrics": 1}
    for words in ("reads like lyrics", " second "):
        cells.add_remark(db, ME, second, words)
    assert [one.remark for one in cells.remarks(db, LOCAL_USER, second)] == ["reads like lyrics", "second"]
    wrong = [(cells.add_remark, words) for words in ("", " ", "x" * 4_001)]
    wrong += [(cells.add_tag, words) for words in ("", "  ", "x" * (cells.TAG_LIMIT + 1), "a\u202eb")]
    for note, words in wrong:
        with pytest.raises(ValueError, match=r"a (remark|tag) has"):
            note(db, BY, first, words)
    with pytest.raises(KeyError):
        cells.add_tag(db, BY, "nothing", "lyrics")
