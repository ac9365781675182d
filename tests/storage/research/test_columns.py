"""A batch in columns is what it is case by case, and its draws come back as they were recorded."""

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select, update

from screening.evaluation.experiments import encode_items
from screening.evaluation.metrics import outcome_codes, reference_codes
from screening.labels import Label, Outcome
from screening.pipeline.engine import Reason, guard_for
from screening.review.actors import LOCAL_USER
from screening.review.review_form import ReviewLabel
from storage.batches.counts import PENDING
from storage.batches.results import results
from storage.batches.screenings import committed_runs
from storage.database import Database
from storage.research.recordings import (
    accepted_references,
    case_names,
    guards_in,
    in_review_mask,
    outcomes_in,
    recorded_batch,
    recorded_columns,
)
from storage.review.adjudication import amend
from storage.review.worklist import request_second_looks
from storage.schema import cases
from tests.storage.batch_of import LATER, NOW, batch, commit, commit_run, decide, run, screening, waiting
from tests.storage.inbox_cases import RESEARCHER, form, read
from tests.storage.research.case_by_case import adjudicated_labels
from tests.storage.statements import statements


def filled(db: Database, number: int) -> str:
    """Cases of every kind: settled, left to a person, begun, untouched; with groups and awkward prices."""
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
        found = recorded_columns(db, LOCAL_USER, batch_id)
        waits, guards = (read(db, LOCAL_USER, batch_id, found.rows) for read in (in_review_mask, guards_in))
    assert len(sent) < 24, "no statement a case"
    slow = recorded_batch(db, LOCAL_USER, batch_id)
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
        assert (outcomes_in(db, who, batch_id, found.rows) == told).all()
    assert len(set(told.tolist())) == 4, "pending and each of the three"
    assert waits.tolist() == [one.in_review for one in listed] and any(waits)
    flagged = db.rows(select(cases.c.row, cases.c.flags).where(cases.c.batch_id == batch_id))
    forbidden = {row.row - 1: guard_for(row.flags["text"] + row.flags["reply"]) for row in flagged}
    forbidden = {place: guard for place, guard in forbidden.items() if guard != guard_for([])}
    assert guards == forbidden and forbidden
    named = case_names(db, LOCAL_USER, batch_id, [5, 2, 99])
    assert [item.id for item in slow.items] == [one.external_id for one in listed]
    assert [item.reference for item in slow.items] == [one.reference for one in listed]
    for run_ in committed_runs(db, slow.case_ids[2]):
        kept = slow.book.of(2, run_.node)
        assert (kept.codes, kept.tokens) == (run_.codes, run_.usage.input_tokens + run_.usage.output_tokens)
    assert recorded_batch(db, LOCAL_USER, batch_id, with_texts=True).items[1].text.text == "text 1"
    assert slow.pending == sum(one.outcome == PENDING for one in listed)
    assert {row: (one.case_id, one.external_id) for row, one in named.items()} == {
        row: (slow.case_ids[row - 1], f"p{row}") for row in (2, 5)
    }


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
    columns = recorded_columns(db, LOCAL_USER, batch_id)
    for version in (0, 1, 2, 3, 4, None):
        accepted = adjudicated_labels(db, LOCAL_USER, batch_id, version)
        slow = [
            {"safe": Label.SAFE, "unsafe": Label.UNSAFE}.get(accepted[case_id]) if case_id in accepted else before
            for case_id, before in zip(ids, (Label.SAFE, Label.SAFE, None), strict=True)
        ]
        references, places = accepted_references(db, LOCAL_USER, batch_id, columns, version)
        assert (references == reference_codes(slow)).all()
        assert [ids[place] for place in places] == [case_id for case_id in ids if case_id in accepted]
    assert accepted[ids[0]] == "safe", "the newest, whatever its moment"


def test_a_file_that_grows_meanwhile_leaves_the_new_rows_out(db: Database) -> None:
    batch_id = filled(db, 12)
    columns = recorded_columns(db, LOCAL_USER, batch_id)
    fewer = columns.rows[:7]
    whole = outcomes_in(db, LOCAL_USER, batch_id, columns.rows)
    assert (outcomes_in(db, LOCAL_USER, batch_id, fewer) == whole[:7]).all()
    short = replace(columns, rows=fewer, drawn=replace(columns.drawn, references=columns.drawn.references[:7]))
    assert len(accepted_references(db, LOCAL_USER, batch_id, short)[0]) == 7
    empty = batch(db)
    found = recorded_columns(db, LOCAL_USER, empty)
    assert found.drawn.record.cases == 0 and found.rows.tolist() == []
    assert outcomes_in(db, LOCAL_USER, empty, found.rows).tolist() == []
