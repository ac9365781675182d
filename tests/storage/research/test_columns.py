"""A batch in columns is what it is case by case, and its draws come back as they were recorded."""

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select, update

from screening.evaluation.experiments import Drawn, encode_items, our_conditions, run_book
from screening.evaluation.metrics import outcome_codes, reference_codes
from screening.labels import Label, Outcome
from screening.pipeline.engine import Reason, guard_for
from screening.review.actors import LOCAL_USER
from screening.review.review_form import ReviewLabel
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
from tests.storage.batch_of import LATER, batch, commit, commit_run, decide, run, screening, waiting
from tests.storage.inbox_cases import RESEARCHER, form, read
from tests.storage.research.case_by_case import adjudicated_labels, cases_in_review, outcomes_now
from tests.storage.statements import statements


def filled(db: Database, number: int) -> str:
    """Cases of every kind: settled, left to a person, begun, untouched; with groups and awkward prices."""
    texts = [f"text {n}" if n % 5 else "notes from \u202eTuesday" for n in range(number)]
    batch_id = batch(db, texts, references="".join("SU-"[n % 3] for n in range(number)))
    for n, case_id in enumerate(case_id for case_id in waiting(db) if case_id in _ids(db, batch_id)):
        outcome = Outcome.HUMAN_REVIEW if n % 5 == 0 else tuple(Outcome)[n % 3]
        label = {Outcome.SAFE: Label.SAFE, Outcome.UNSAFE: Label.UNSAFE}.get(outcome)
        first = run("SSU?E!"[: n % 6 + 1], None)
        second = run({Label.SAFE: "S", Label.UNSAFE: "U", None: "SU"}[label] * (n % 4 + 1), label, "risk", 7 * (n % 3))
        if n % 7 == 6:
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


def _ids(db: Database, batch_id: str) -> set[str]:
    return set(db.values(select(cases.c.id).where(cases.c.batch_id == batch_id)))


def case_by_case(db: Database, batch_id: str) -> Drawn:
    """The slow way: an object a case."""
    found = recorded_batch(db, LOCAL_USER, batch_id)
    book = found.book
    return encode_items(found.items, book.record(), book.per_draw("tokens"), book.per_draw("cost_usd"))


def _same(one: Drawn, other: Drawn) -> None:
    assert one.names == other.names and (one.references == other.references).all()
    assert one.groups is None or other.groups is None or (one.groups == other.groups).all()
    for node in sorted({*one.record.nodes, *other.record.nodes}):
        mine, yours = one.record.node(node), other.record.node(node)
        assert (mine.draws[mine.of] == yours.draws[yours.of]).all() and (mine.lengths == yours.lengths).all()
        for per_draw in ("tokens", "costs"):
            assert np.array_equal(getattr(one, per_draw)[node], getattr(other, per_draw)[node], equal_nan=True)


def test_columns_are_what_the_batch_is_case_by_case(db: Database) -> None:
    batch(db, ["another file's"], references="U")
    batch_id = filled(db, 24)
    found, slow = recorded_columns(db, LOCAL_USER, batch_id), recorded_batch(db, LOCAL_USER, batch_id)
    _same(found.drawn, case_by_case(db, batch_id))
    assert found.drawn.names == ('a "quoted", name', "even") and found.rows.tolist() == list(range(1, 25))
    for who in (LOCAL_USER, RESEARCHER):
        outcomes = outcomes_in(db, who, batch_id, found.rows)
        assert (outcomes == outcome_codes(outcomes_now(db, who, batch_id))).all()
        waits = {slow.case_ids[place] for place in np.flatnonzero(in_review_mask(db, who, batch_id, found.rows))}
        assert waits == cases_in_review(db, batch_id) and waits
    assert len(set(outcomes.tolist())) == 4, "pending and each of the three"
    flagged = db.rows(select(cases.c.row, cases.c.flags).where(cases.c.batch_id == batch_id))
    forbidden = {row.row - 1: guard_for(row.flags["text"] + row.flags["reply"]) for row in flagged}
    forbidden = {place: guard for place, guard in forbidden.items() if guard != guard_for([])}
    assert guards_in(db, LOCAL_USER, batch_id, found.rows) == forbidden and forbidden
    named = case_names(db, LOCAL_USER, batch_id, [5, 2, 99])
    assert {row: one.case_id for row, one in named.items()} == {2: slow.case_ids[1], 5: slow.case_ids[4]}
    assert named[5].external_id == "p5"


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


def test_the_statements_do_not_grow_with_the_batch(db: Database) -> None:
    sent = []
    for number in (3, 30):
        batch_id = filled(db, number)
        with statements() as seen:
            columns = recorded_columns(db, LOCAL_USER, batch_id)
            outcomes_in(db, LOCAL_USER, batch_id, columns.rows)
            in_review_mask(db, LOCAL_USER, batch_id, columns.rows)
            accepted_references(db, LOCAL_USER, batch_id, columns)
            guards_in(db, LOCAL_USER, batch_id, columns.rows)
        sent.append(len(seen))
    assert sent[0] == sent[1]


def test_a_file_that_grows_meanwhile_leaves_the_new_rows_out(db: Database) -> None:
    batch_id = filled(db, 12)
    columns = recorded_columns(db, LOCAL_USER, batch_id)
    fewer = columns.rows[:7]
    whole = outcomes_in(db, LOCAL_USER, batch_id, columns.rows)
    assert (outcomes_in(db, LOCAL_USER, batch_id, fewer) == whole[:7]).all()
    short = replace(columns, rows=fewer, drawn=replace(columns.drawn, references=columns.drawn.references[:7]))
    assert len(accepted_references(db, LOCAL_USER, batch_id, short)[0]) == 7


def test_a_batch_without_a_case_is_empty_columns(db: Database) -> None:
    batch_id = batch(db)
    found = recorded_columns(db, LOCAL_USER, batch_id)
    assert found.drawn.record.cases == 0 and found.rows.tolist() == []
    assert outcomes_in(db, LOCAL_USER, batch_id, found.rows).tolist() == []


def test_draws_tokens_and_references_come_back_in_file_order(db: Database) -> None:
    batch_id = batch(db, ["one", "two", "three"], references="SU-")
    first, second, _ = waiting(db)
    made = run("SSU?SS", None), run("SSSSSSSSSSS", Label.SAFE, node="risk", tokens=10)
    for position, node_run in enumerate(made):
        commit_run(db, second, position, node_run)
    commit(db, second, screening(Outcome.SAFE, *made, node="risk"))
    commit_run(db, first, 0, run("UU", None))
    found = recorded_batch(db, LOCAL_USER, batch_id)
    assert [item.id for item in found.items] == ["p1", "p2", "p3"]
    assert [item.reference for item in found.items] == [Label.SAFE, Label.UNSAFE, None]
    assert found.book.of(1, "worker").codes == "SSU?SS" and found.book.of(1, "risk").codes == "S" * 11
    assert found.book.of(1, "risk").tokens == 11 * 12  # 10 in and 2 out a draw
    assert found.book.of(0, "worker").codes == "UU" and found.pending == 2
    assert all(item.text.text == "" for item in found.items)
    assert recorded_batch(db, LOCAL_USER, batch_id, with_texts=True).items[0].text.text == "one"


def test_what_was_recorded_is_what_a_replay_concludes(db: Database) -> None:
    batch_id = batch(db, ["one"], references="S")
    made = run("S" * 11)
    commit_run(db, waiting(db)[0], 0, made)
    found = recorded_batch(db, LOCAL_USER, batch_id)
    outcomes = {told.name: told.outcome for told in run_book(found.items, our_conditions(), found.book)[1]}
    assert [tuple(Outcome)[code] for code in outcomes["recommended"]] == [Outcome.SAFE]
