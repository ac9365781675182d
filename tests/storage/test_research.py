"""Corrected labels keep everything beside the accepted label; reviews as tables for agreement; a batch's ledger. What
an audit may count: only blind first reviews of cases drawn at random or escalated. What research pages keep is kept
only while nothing that it follows from has changed. A batch in columns of numbers is what it is case by case; the cases
behind a number: every filter, tag and remark, the gap, and what is kept from who has yet to read.
"""

import tomllib
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert, select, update

from screening.evaluation.audit import AuditPlan, Stratum, guarantee_of, tally_by_stratum
from screening.evaluation.experiments import SUICIDE_WATCH
from screening.evaluation.metrics import outcome_codes, reference_codes
from screening.labels import Label, Outcome
from screening.pipeline.config import chain_bound
from screening.pipeline.engine import Reason, guard_for
from screening.review.policy import LOCAL_USER, Forbidden, pseudonym
from screening.review.review_form import ReviewLabel
from screening.review.triage import Priority, Reach
from storage.audit_log import events
from storage.batches.counts import PENDING, batch_now, configuration_now
from storage.batches.results import Result
from storage.batches.screenings import committed_runs, gap_of
from storage.database import Database
from storage.research import cells, recordings, reliability
from storage.research.cells import MOST_LISTED, Cell
from storage.research.corrected_labels import CorrectedRow, dataset_version, export_corrected_labels, ledger
from storage.research.review_table import switches
from storage.review import evidence
from storage.review.adjudication import adjudicate
from storage.review.claims import claim_next
from storage.review.erasure import By, Selection, erase
from storage.review.evidence import reveal_evidence
from storage.review.follow_ups import request_second_looks
from storage.review.reviews import revise, submit_review, take_back
from storage.schema import adjudications, cases, inbox_entries, unblindings
from storage.schema.columns import new_id
from tests.databases import statements, write
from tests.storage.batch_of import CONFIGURATION, batch, commit, commit_run, decide, results, run, screening, waiting
from tests.storage.batch_of import LATER as DECIDED
from tests.storage.batch_of import NOW as BEGUN
from tests.storage.inbox_cases import batch_of, fill, form, read, register, take
from tests.storage.people import ADMIN, ANN, BO, MINUTE, NOW, RESEARCHER, SENIOR
from tests.storage.recount import adjudicated_labels

LATER, KEY = NOW + MINUTE, "a site's key"


def exported(db: Database, batch_id: str, **options: bool | int) -> list[CorrectedRow]:
    return list(export_corrected_labels(db, RESEARCHER.at(LATER), batch_id, KEY, **options))


def worked(db: Database) -> list[str]:
    """Case 1 is read by ann and bo, revised and amended; case 2 waits for a second reviewer; case 3 is unread."""
    register(db, ANN, BO)
    ids = fill(db, [Priority.P1, Priority.P2, Priority.P3])
    read(db, ANN, form("unsafe", 4, ideation=3, note="private"), "a", ask=True)
    read(db, BO, form("unsafe", 3), "b")
    read(db, ANN, form("insufficient_information", 5), "c")
    reveal_evidence(db, BO.at(NOW), ids[0])
    revise(db, BO.at(LATER), ids[0], form("unsafe", 5), "surer now", "d" * 32)
    adjudicate(db, SENIOR.at(LATER), ids[0], ReviewLabel.SAFE, "private reason", 1)
    return ids


def test_every_review_and_version_stands_beside_the_accepted_label_as_at_any_time_before(db: Database) -> None:
    ids = worked(db)
    came, read, now = (exported(db, batch_of(db, ids[0]), as_of=number) for number in (0, 1, 2))
    assert [row.case_id for row in now] == ids and exported(db, batch_of(db, ids[0]))[0] == now[0]
    first = now[0]
    assert (first.reference, first.reference_value, first.provenance) == ("safe", "no", {"labels": "jury"})
    given = [tuple(one[name] for name in ("reviewer", "version", "label", "blind")) for one in first.reviews]
    wanted = (("ann", 1, True), ("bo", 1, True), ("bo", 2, False))
    assert given == [(pseudonym(KEY, who), version, "unsafe", blind) for who, version, blind in wanted]
    made = [(one.version, one.label, one.method) for one in first.adjudications]
    assert made == [(1, "unsafe", "agreement"), (2, "safe", "amendment")]
    assert (first.text, first.reviews[0]["fields"]["ideation"]) == ("canary text number 1", 3)
    assert [one["fields"]["coded"] for one in first.reviews] == [True, False, False]
    assert [(row.final_label, row.final_source, row.reviews) for row in came] == [("safe", "reference", ())] * 3
    assert [(row.reference, row.adjudicated_label, row.final_label, row.final_source) for row in (read[0], first)] == [
        ("safe", label, label, "adjudicated") for label in ("unsafe", "safe")
    ]
    assert [(rows[0].as_of, len(rows[0].reviews)) for rows in (came, read, now)] == [(0, 0), (1, 2), (2, 3)]
    assert len({rows[0].version for rows in (came, read, now)}) == 3

    # reviewers stay unknown, their own words inside, and each export is logged before its first row
    batch_id = batch_of(db, ids[0])
    entries, hidden, _ = ledger(db, RESEARCHER.at(NOW), batch_id, KEY)
    assert [(one.number, one.before, one.label, one.reason, one.changes) for one in entries] == [
        (1, "safe", "unsafe", None, True),
        (2, "unsafe", "safe", "private reason", True),
    ]
    assert "sue" not in {one.by for one in entries} and hidden == 0
    assert len(ledger(db, RESEARCHER.at(NOW), batch_id, KEY, as_of=1)[0]) == 1
    newest, _, earlier = ledger(db, RESEARCHER.at(NOW), batch_id, KEY, most=1)
    assert [one.number for one in newest] == [2] and earlier == 1
    shown = repr(exported(db, batch_id, with_text=False))
    assert not [word for word in ("'ann'", "'bo'", "'sue'", "private", "surer", "canary") if word in shown]
    assert pseudonym(KEY, "ann") in shown and pseudonym("another key", "ann") not in shown
    asked = len(events(db, ADMIN))
    export_corrected_labels(db, RESEARCHER.at(LATER), batch_id, KEY)
    newest, *_ = logged = events(db, ADMIN)
    assert (newest.action, newest.subject, newest.actor, len(logged)) == ("exported", batch_id, "rae", asked + 1)
    with pytest.raises(KeyError):
        export_corrected_labels(db, RESEARCHER.at(LATER), "no such batch", KEY)


def test_switches_compare_the_last_label_before_anything_of_the_engine_was_shown_with_the_last_one(
    db: Database,
) -> None:
    ids = fill(db, [Priority.P2] * 3 + [Priority.P0], outcome="safe")
    urgent = take(db, BO)
    reveal_evidence(db, BO.at(NOW), urgent.case_id, open_at_once=True)  # not blind: no row
    submit_review(db, BO.at(NOW), urgent.case_id, urgent.token, form("unsafe"), "f" * 32)
    for number in range(3):
        read(db, ANN, form("safe", 5), str(number))
    revise(db, ANN.at(LATER), ids[0], form("safe", 4), "less sure, nothing was shown", "d" * 32)
    revise(db, ANN.at(LATER), ids[1], form("insufficient_information", 5), "before it was shown", "e" * 32)
    for case_id in ids[1:3]:
        reveal_evidence(db, ANN.at(LATER + MINUTE), case_id)
    revise(db, ANN.at(LATER + MINUTE), ids[2], form("unsafe", 4), "metaphor", "b" * 32)
    found = {each.case_id: (each.first, each.last, each.adjudicated) for each in switches(db, RESEARCHER, KEY)}
    unsure = "insufficient_information"
    assert found == {ids[1]: (unsure, unsure, unsure), ids[2]: ("safe", "unsafe", "unsafe")}
    assert {(each.reviewer, each.outcome) for each in switches(db, RESEARCHER, KEY)} == {
        (pseudonym(KEY, "ann"), "safe")
    }


ALL = datetime.max.replace(tzinfo=UTC)


def test_a_version_keeps_its_name_whatever_comes_after_it(db: Database) -> None:
    register(db, ANN, BO)
    ids = fill(db, [Priority.P2, Priority.P2])
    of, other = batch_of(db, ids[0]), batch(db, ["one"])

    def version(as_of: int | None = None, batch_id: str = of) -> Any:
        with db.read() as conn:
            return dataset_version(conn, batch_id, as_of)

    came = version()
    assert (came.as_of, came.until, came.versions, len(came.name)) == (0, ALL, {}, 16)
    assert came.name != version(batch_id=other).name
    names = []
    for number, who in enumerate((ANN, BO)):
        read(db, who, form("unsafe", 5), str(number), NOW + number * MINUTE)
        names.append(version().name)
    one, two = version(1), version(2)
    assert (one.name, two.name, version(0).name) == (*names, came.name), "the same labels and reviews as then"
    assert (one.as_of, one.until, one.versions) == (1, NOW, {ids[0]: 1})
    assert (two.as_of, two.until, two.versions) == (2, ALL, {ids[0]: 1, ids[1]: 1})
    assert version(0).until < NOW and version(9) == version() == two
    adjudicate(db, SENIOR.at(NOW + 2 * MINUTE), ids[0], ReviewLabel.SAFE, "looked again", 1)
    assert (version().versions, version(2).name, version(1).name) == ({ids[0]: 2, ids[1]: 1}, two.name, one.name)
    before, _ = version(), fill(db)
    assert read(db, ANN, form("unsafe", 5), "f", LATER) is not None
    assert version() == before, "what is read in another batch is no review of this one"
    first, second = sorted(fill(db, [Priority.P2, Priority.P2]))  # at one moment: by case and version
    made = {"label": "safe", "method": "single", "by": "ann", "at": NOW, "review_ids": []}
    write(db, insert(adjudications), [made | {"case_id": one, "version": n} for one in (second, first) for n in (2, 1)])
    kept = [version(number, batch_of(db, first)).versions for number in (1, 2, 3, 4)]
    assert kept == [{first: 1}, {first: 2}, {first: 2, second: 1}, {first: 2, second: 2}]


def test_a_row_says_all_that_the_file_said_of_its_case(db: Database) -> None:
    ids = fill(db, [Priority.P2])
    write(db, update(cases).values(group_name="a school", reply="canary reply", reply_original_json=None))
    found = batch_of(db, ids[0])
    (row,) = exported(db, found)
    case = db.row(select(cases))
    assert (row.row, row.external_id, row.group, row.reply) == (case.row, case.external_id, "a school", "canary reply")
    (bare,) = exported(db, found, with_text=False)
    assert (bare.text, bare.reply, bare.group) == (None, None, "a school")
    of_agents = batch(db, ["one", "two"], references="S-")
    decide(db, (first := waiting(db)[0]))
    evidence.add_tag(db, RESEARCHER.at(NOW), first, "Lyrics")
    done, pending = exported(db, of_agents)
    assert (done.tags, done.configuration) == (("lyrics",), CONFIGURATION.version)
    assert (done.model, done.prompts) == ("sampler simulated, seed 7", "none")
    assert str(done.pipeline).startswith("recommended ") and "pairwise-mixture" in str(done.rule)
    assert done.pipeline_delta == chain_bound(CONFIGURATION.pipeline) is not None
    not_yet = (pending.configuration, pending.model, pending.tags, pending.pipeline_delta)
    assert not_yet == (None, None, (), None), "it was not screened yet"
    assert (pending.reference, pending.final_label, pending.final_source) == (None, None, "none")


def test_a_case_that_is_open_again_has_no_accepted_label_until_it_is_closed(db: Database) -> None:
    ids = worked(db)
    evidence.add_tag(db, RESEARCHER.at(LATER), ids[0], "Lyrics")
    adjudicate(db, SENIOR.at(LATER), ids[0], ReviewLabel.UNSAFE, "looked again", 2)
    write(db, update(inbox_entries).where(inbox_entries.c.case_id == ids[0]).values(closed_at=None))
    first, _, third = exported(db, batch_of(db, ids[0]), hide=True)
    assert (first.adjudicated_label, first.final_label, first.final_source) == (None, "safe", "reference")
    assert first.hidden and (first.outcome, first.model, first.configuration) == (None, None, None)
    assert (first.reviews, first.adjudications, first.tags) == ((), (), ()), "all of it would tell the next reviewer"
    assert (third.hidden, third.outcome, third.final_label, third.final_source) == (True, None, "safe", "reference")


VERSION, ME = CONFIGURATION.version, LOCAL_USER.at(DECIDED)


def settled(
    db: Database, cases: int, audit_rate: float, outcome: Outcome = Outcome.SAFE, reach: Reach = Reach.COUNT
) -> list[str]:
    """Cases of one batch, all with this outcome."""
    batch(db, [f"text {number}" for number in range(cases)], audit_rate=audit_rate, reach=reach)
    case_ids = waiting(db)
    for case_id in case_ids:
        decide(db, case_id, outcome)
    return case_ids


def read_all(db: Database, label: str) -> int:
    """Rate everything in the inbox; how many."""
    count = 0
    while (claim := claim_next(db, ME)) is not None:
        submit_review(db, ME, claim.case_id, claim.token, form(label), new_id(DECIDED))
        count += 1
    return count


def _sample(db: Database) -> reliability.AuditSample:
    return reliability.audit_sample(db, LOCAL_USER, VERSION)


def _stratum(db: Database) -> Stratum:
    (stratum,) = tally_by_stratum(_sample(db).case_counts)
    return stratum


def _erase(db: Database, case_id: str) -> None:
    erase(db, ME, Selection(by=By.CASE, value=case_id), "asked for")


@pytest.mark.parametrize(
    ("outcome", "reach", "rate", "probability", "all_read"),
    [
        pytest.param(Outcome.UNSAFE, Reach.READ, 0.05, 1.0, True, id="each stands for itself alone"),
        pytest.param(Outcome.UNSAFE, Reach.COUNT, 0.3, 0.3, False, id="the audit alone reads it"),
        pytest.param(Outcome.HUMAN_REVIEW, Reach.COUNT, 0.01, 1.0, True, id="what the engine left is always due"),
    ],
)
def test_a_case_stands_for_as_many_as_its_chance_of_being_read(
    db: Database, outcome: Outcome, reach: Reach, rate: float, probability: float, all_read: bool
) -> None:
    settled(db, 20, rate, outcome, reach)
    count = read_all(db, "safe")
    found, stratum = _sample(db), _stratum(db)
    assert (stratum.probability, stratum.cases, stratum.read) == (probability, 20, count)
    assert count > 0 and (count == 20) is all_read
    assert (found.reaches, found.not_blind) == ({reach}, 0)


def test_the_mix_of_ends_has_a_reference_that_never_moves_and_as_many_cases_as_it_says(db: Database) -> None:
    settled(db, 3, audit_rate=0.1)
    early = reliability.outcome_mix(db, LOCAL_USER, VERSION, reference=4)
    assert (early.reference, early.looks, early.until) == ({"safe": 3}, (), None)
    settled(db, 2, audit_rate=0.0, outcome=Outcome.HUMAN_REVIEW)
    mix = reliability.outcome_mix(db, LOCAL_USER, VERSION, reference=3)
    assert mix.reference["safe"] == 3 and mix.until is not None
    assert sum(mix.reference.values()) + sum(sum(look.values()) for look in mix.looks[-1:]) == 5

    def found(most: int = 10, **wanted: Any) -> int:
        return len(reliability.settled_cases(db, LOCAL_USER, VERSION, most, reference=3, **wanted))

    assert (found(), found(most=4), found(sampled=True), found(sampled=False)) == (5, 4, 3, 2)
    assert found(outcome=Outcome.HUMAN_REVIEW) == 2
    for end in ("safe", "unsafe", "escalate", "abstained"):
        assert found(first_end=end, in_reference=True) == mix.reference.get(end, 0)
        assert found(first_end=end, in_reference=False) == (mix.looks[-1].get(end, 0) if mix.looks else 0)


def test_a_review_that_is_not_blind_is_found_apart(db: Database) -> None:
    (case_id,) = settled(db, 1, audit_rate=1.0)
    write(db, insert(unblindings).values(case_id=case_id, reviewer=LOCAL_USER.id, before_review=True, at=DECIDED))
    read(db, LOCAL_USER, form("safe"), now=DECIDED)
    (found,) = reliability.audited_reviews(db, LOCAL_USER, VERSION)
    assert found[0] == case_id and found[1].unreadable and found[1].state == "lost"
    stratum = _stratum(db)
    assert (_sample(db).not_blind, stratum.lost, stratum.waiting) == (1, 1, 0)


@pytest.mark.parametrize(
    ("outcome", "rate"), [(Outcome.SAFE, 1.0), (Outcome.UNSAFE, 1.0), (Outcome.HUMAN_REVIEW, 0.001)]
)
def test_a_text_that_is_erased_unread_is_lost_and_no_longer_due(db: Database, outcome: Outcome, rate: float) -> None:
    first, _ = settled(db, 2, rate, outcome)
    _erase(db, first)
    stratum = _stratum(db)
    assert (stratum.cases, stratum.lost, stratum.waiting) == (2, 1, 1)
    read(db, LOCAL_USER, form("unsafe"), now=DECIDED)
    assert claim_next(db, ME) is None
    stratum = _stratum(db)
    assert (stratum.read, stratum.lost, stratum.waiting) == (1, 1, 0)
    guarantee = guarantee_of((case for case, _ in _sample(db).case_counts), AuditPlan(), 1.0)
    assert (guarantee.waiting, guarantee.lost_safe) == (0, int(outcome is Outcome.SAFE))


def test_a_text_called_safe_and_read_as_unsafe_is_read_again_and_counts_as_settled(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    (case_id,) = settled(db, 1, audit_rate=1.0)
    read(db, ANN, form("unsafe"), now=DECIDED)
    stratum = _stratum(db)
    assert (stratum.selected, stratum.read, stratum.read_again, stratum.waiting) == (1, 0, 1, 0)
    read(db, BO, form("safe"), now=DECIDED)
    adjudicate(db, SENIOR.at(DECIDED), case_id, ReviewLabel.SAFE, "an idiom")
    alone = ((case.with_first_review_only(), count) for case, count in _sample(db).case_counts)
    (first,) = tally_by_stratum(alone)
    assert [(one.read, one.unsafe) for one in (_stratum(db), first)] == [(1, 0), (1, 1)]


def _accepted(db: Database, batch_id: str) -> str | None:
    """The label of the only case that people may have reviewed, as the relabelled data set has it."""
    return list(export_corrected_labels(db, ME, batch_id, "key"))[1].adjudicated_label


def test_it_changes_with_every_fact_that_a_figure_follows_from_and_with_nothing_else(db: Database) -> None:
    batch_id = batch(db, ["one", "two"])
    first, second = waiting(db)
    batch(db, ["three"])
    (third,) = set(waiting(db)) - {first, second}
    register(db, ANN)
    seen = [(batch_now(db, LOCAL_USER, batch_id), configuration_now(db, VERSION))]

    def changed(*expected: bool) -> bool:
        seen.append((batch_now(db, LOCAL_USER, batch_id), configuration_now(db, VERSION)))
        before, now = seen[-2:]
        return tuple(one != other for one, other in zip(before, now, strict=True)) == expected

    assert changed(False, False)
    decide(db, third, Outcome.SAFE)
    assert changed(False, True), "another batch of the same configuration"
    for case_id, outcome in ((first, Outcome.SAFE), (second, Outcome.HUMAN_REVIEW)):
        decide(db, case_id, outcome)
        assert changed(True, True)
    claim = take(db, ANN, DECIDED)
    assert changed(False, False)
    given = new_id(DECIDED)
    submit_review(db, ANN.at(DECIDED), claim.case_id, claim.token, form("safe", 5), given)
    assert changed(True, True) and _accepted(db, batch_id) == "safe"
    again = take_back(db, ANN.at(DECIDED), claim.case_id, given)
    assert changed(True, True) and _accepted(db, batch_id) is None
    submit_review(db, ANN.at(DECIDED), claim.case_id, again.token, form("unsafe"), new_id(DECIDED))
    assert changed(True, True) and _accepted(db, batch_id) == "unsafe"
    adjudicate(db, LOCAL_USER.at(BEGUN), claim.case_id, ReviewLabel.SAFE, "by a clock that was set back", 1)
    assert changed(True, True)
    request_second_looks(db, ME, [first])
    assert changed(True, True)
    _erase(db, second)
    assert changed(True, True), "what is shown of it may hold its id and what people wrote"


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
        conn.execute(update(cases).where(cases.c.row % 2 == 0).values(group_name=SUICIDE_WATCH))
        conn.execute(update(cases).where(cases.c.row == 3).values(group_name='a "quoted", name'))
    return batch_id


def test_columns_are_what_the_batch_is_case_by_case(db: Database) -> None:
    batch(db, ["another file's"], references="U")
    batch_id = filled(db, 24)
    with statements() as sent:
        found = recordings.recorded_columns(db, LOCAL_USER, batch_id)
        waits, guards = (
            read(db, LOCAL_USER, batch_id, found.rows) for read in (recordings.entered_mask, recordings.guards_in)
        )
    assert len(sent) < 24, "no statement a case"
    slow = recordings.recorded_batch(db, LOCAL_USER, batch_id)
    mine, yours = found.drawn, slow.record()
    assert (mine.references == yours.references).all() and found.rows.tolist() == list(range(1, 25))
    assert (mine.subset == yours.subset).all() and mine.subset.tolist() == [False, True] * 12
    for node in sorted({*mine.nodes, *yours.nodes}):
        one, other = mine.node(node), yours.node(node)
        assert (one.draws[one.of] == other.draws[other.of]).all() and (one.lengths == other.lengths).all()
        for per_draw in ("tokens", "costs"):
            assert np.array_equal(getattr(one, per_draw), getattr(other, per_draw), equal_nan=True)
    listed = list(results(db, LOCAL_USER.at(BEGUN), batch_id))
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
    case_ids = db.values(select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row))
    for run_ in committed_runs(db, case_ids[2]):
        kept = slow.of(2, run_.node)
        assert (kept.codes, kept.tokens) == (run_.codes, run_.usage.input_tokens + run_.usage.output_tokens)
    assert recordings.recorded_batch(db, LOCAL_USER, batch_id, with_texts=True).items[1].text.text == "text 1"
    assert {row: (one.case_id, one.external_id) for row, one in named.items()} == {
        row: (case_ids[row - 1], f"p{row}") for row in (2, 5)
    }

    fewer = found.rows[:7]  # the file grew meanwhile
    assert (recordings.outcomes_in(db, LOCAL_USER, batch_id, fewer) == told[:7]).all()
    short = replace(found, rows=fewer, drawn=replace(mine, references=mine.references[:7]))
    assert len(recordings.accepted_references(db, LOCAL_USER, batch_id, short)[0]) == 7
    nothing = recordings.recorded_columns(db, LOCAL_USER, batch(db))
    assert len(nothing.drawn.references) == 0 and nothing.rows.tolist() == []


@pytest.mark.parametrize("hour", [23, 0])
def test_accepted_labels_are_those_of_the_version_asked_for(db: Database, hour: int) -> None:
    """At hour 0 the clock was set back before the label was amended."""
    batch_id = batch(db, ["one", "two", "three"], references="SS-")
    ids = waiting(db)
    for case_id in ids:
        decide(db, case_id)
    request_second_looks(db, LOCAL_USER.at(DECIDED), ids)
    for said in ("unsafe", "insufficient_information", "safe"):
        read(db, LOCAL_USER, form(said), now=DECIDED)
    adjudicate(db, LOCAL_USER.at(DECIDED.replace(hour=hour)), ids[0], ReviewLabel.SAFE, "read again", 1)
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


LOCAL, BY = LOCAL_USER.at(BEGUN), RESEARCHER.at(BEGUN)
TEXTS = [f"text number {number}" for number in range(5)]


@pytest.fixture
def batch_id(db: Database) -> str:
    """Cases of every kind, some tagged, one whose label people replaced; and another file's case."""
    made = filled(db, 15)
    known = list(results(db, LOCAL, made))
    ids = [one.case_id for one in known]
    for case_id in ids[1:12:5]:
        evidence.add_tag(db, LOCAL, case_id, "odd")
    fields = {"method": "senior", "by": "s", "reason": None, "review_ids": [], "at": BEGUN}
    labels = sorted(
        ("safe", "unsafe"), key=lambda label: label == known[3].reference
    )  # the newest is another than this
    versions = [fields | {"case_id": ids[3], "version": 2 - at, "label": label} for at, label in enumerate(labels)]
    write(db, insert(adjudications), versions)
    batch(db, ["another file's"], references="U")
    return made


def _known(db: Database, batch_id: str) -> list[tuple[Result, Collection[tuple[str, Label | None]]]]:
    """Each case of the batch, and which agent gave it which label."""
    every = list(results(db, LOCAL, batch_id))
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


FILTERS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "filters.toml").read_text("utf-8"))["filters"]
for by_way in (one for one in FILTERS if "way" in one):
    node, label = by_way["way"]
    by_way["way"] = (node, Label(label) if label else None)


@pytest.mark.parametrize("most", [1, MOST_LISTED])
def test_a_list_holds_the_cases_that_have_all_it_asks_for_in_the_files_order(
    db: Database, batch_id: str, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Among few and among many, by one filter or two; what is more than can be counted is said and left out."""
    monkeypatch.setattr("storage.research.cells.MOST_LISTED", most)
    known, seen = _known(db, batch_id), set()
    pairs = list(combinations(FILTERS, 2))[most % 6 :: 6]
    for filters in [{}, *FILTERS, *(one | other for one, other in pairs)]:
        wanted = Cell(batch_id=batch_id, **filters)
        found = [one.row for one, ways in known if _is_on(one, ways, wanted)]
        page = cells.cell_page(db, LOCAL, wanted)
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
        page = cells.cell_page(db, who.at(BEGUN), Cell(batch_id=batch_id, sort=sort, descending=descending))
        found = [case.row for case in page.cases]
        assert [values[row] for row in found] == [values[row] for row in (*ordered, *none, *hidden)], (who, sort)
        assert len(set(found)) == len(every)
    for filters in FILTERS:
        wanted = Cell(batch_id=batch_id, **filters)
        told = cells.cell_page(db, SENIOR.at(BEGUN), wanted)
        tells = not {"reference", "search", "group"} & set(filters) and wanted.outcome != "in review"
        left_out = {one.row for one, ways in known if tells and one.in_review and _is_on(one, ways, wanted)}
        assert (told.hidden, {case.row for case in told.cases} & left_out) == (len(left_out), set()), filters
        assert {(one.node, one.calls, one.cost_usd, one.gap) for one in told.cases if one.hidden} <= {(None,) * 4}
    whole = cells.cell_page(db, SENIOR.at(BEGUN), Cell(batch_id=batch_id))
    second = cells.cell_page(db, SENIOR.at(BEGUN), Cell(batch_id=batch_id), limit=2, offset=2)
    assert ([case.row for case in second.cases], second.ids, second.found) == ([3, 4], whole.ids, len(every))


def test_the_gap_is_how_far_the_first_answer_lies_ahead_of_the_second() -> None:
    gaps = {"SSSSSS": 1.0, "SSSUUE": 1 / 6, "SSS?!E": 0.0, "SSSSUU": 1 / 3, "SSEEUU": 0.0}
    assert {codes: gap_of(run(codes)) for codes in gaps} == pytest.approx(gaps)


def test_the_matrix_counts_by_the_files_labels_and_by_accepted_ones_in_a_group_as_in_the_batch(
    db: Database, batch_id: str
) -> None:
    known = _known(db, batch_id)
    every = [one for one, _ in known]
    assert cells.groups(db, LOCAL_USER, batch_id) == tuple(sorted({one.group for one in every if one.group}))
    for group in (None, SUICIDE_WATCH):
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
            cells.cell_page(db, ANN.at(BEGUN), replace(whole, **narrowed))
    cell = Cell(batch_id=batch(db, TEXTS, references="UUSS-", audit_rate=0.5), sort="id")
    case_ids, lists = waiting(db)[-5:], [cells.cell_page(db, ANN.at(BEGUN), cell)]
    for case_id, outcome in zip(case_ids, (*Outcome, Outcome.SAFE), strict=False):
        decide(db, case_id, outcome)
        lists.append(cells.cell_page(db, ANN.at(BEGUN), cell))
    evidence.add_tag(db, BY, case_ids[0], "odd")
    request_second_looks(db, BY, case_ids[:4])
    lists.append(cells.cell_page(db, ANN.at(BEGUN), cell))
    assert [case.external_id for case in lists[0].cases] == ["p1", "p2", "p3", "p4", "p5"]
    assert all(each == lists[0] for each in lists)


def test_tags_are_kept_once_counted_filtered_by_and_taken_away(db: Database) -> None:
    batch_id = batch(db, TEXTS[:2])
    first, second = waiting(db)
    decide(db, second, Outcome.HUMAN_REVIEW)  # in review or not
    for words in (" Song  Lyrics", "song lyrics", "sarcasm"):
        evidence.add_tag(db, BY, first, words)
    evidence.add_tag(db, BY, second, "song lyrics")
    assert dict(evidence.tag_counts(db, RESEARCHER, batch_id)) == {"song lyrics": 2, "sarcasm": 1}
    listed = cells.cell_page(db, BY, Cell(batch_id=batch_id, tag="song lyrics"))
    assert [case.tags for case in listed.cases] == [("sarcasm", "song lyrics"), ("song lyrics",)]
    assert cells.cell_choices(db, RESEARCHER, Cell(batch_id=batch_id))["tag"] == ("sarcasm", "song lyrics")
    evidence.remove_tag(db, BY, first, "song lyrics")
    assert dict(evidence.tag_counts(db, RESEARCHER, batch_id)) == {"sarcasm": 1, "song lyrics": 1}
    for words in ("reads like lyrics", " second "):
        evidence.add_remark(db, LOCAL, second, words)
    assert [one.remark for one in evidence.remarks(db, LOCAL_USER, second)] == ["reads like lyrics", "second"]
    for note, wrong in (
        (evidence.add_remark, ("", " ", "x" * 4_001)),
        (evidence.add_tag, ("", "  ", "x" * 41, "a\u202eb")),
    ):
        for words in wrong:
            with pytest.raises(ValueError, match=r"a (remark|tag) has"):
                note(db, BY, first, words)
    with pytest.raises(KeyError):
        evidence.add_tag(db, BY, "nothing", "lyrics")
