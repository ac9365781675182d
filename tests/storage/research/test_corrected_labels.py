"""Corrected labels keep everything beside the accepted label; reviews as tables for agreement; a batch's ledger. What
an audit may count: only blind first reviews of cases drawn at random or escalated; and what research pages keep is kept
only while nothing that it follows from has changed.
"""

from typing import Any

import pytest
from sqlalchemy import insert, select, update

from screening.evaluation.audit import Stratum, guarantee_of, tally_by_stratum
from screening.evaluation.estimates import estimate
from screening.labels import Outcome
from screening.pipeline.config import chain_bound
from screening.review.actors import LOCAL_USER, pseudonym
from screening.review.reach import Reach
from screening.review.review_form import ReviewLabel
from screening.review.triage import Priority
from storage.audit_log import events
from storage.clock import new_id
from storage.database import Database
from storage.research import reliability
from storage.research.cells import add_tag
from storage.research.corrected_labels import (
    CorrectedRow,
    DatasetVersion,
    dataset_version,
    export_corrected_labels,
    ledger,
)
from storage.research.review_table import switches
from storage.research.standing import batch_now, configuration_now
from storage.review.adjudication import Method, adjudicate, amend
from storage.review.claims import claim_next
from storage.review.erasure import By, Selection, erase
from storage.review.evidence import reveal_evidence
from storage.review.reviews import revise, submit_review, take_back
from storage.review.worklist import request_second_looks
from storage.schema import adjudications, cases, inbox_entries, unblindings
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, batch, decide, waiting
from tests.storage.batch_of import LATER as DECIDED
from tests.storage.batch_of import NOW as BEGUN
from tests.storage.inbox_cases import fill, form, read, register, take
from tests.storage.people import ADMIN, ANN, BO, MINUTE, NOW, RESEARCHER, SENIOR

LATER, KEY = NOW + MINUTE, "a site's key"


def batch_of(db: Database, case_id: str) -> str:
    return db.value(select(cases.c.batch_id).where(cases.c.id == case_id))


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
    amend(db, SENIOR.at(LATER), ids[0], ReviewLabel.SAFE, "private reason", 1)
    return ids


def test_every_review_and_version_stands_beside_the_accepted_label_as_at_any_time_before(db: Database) -> None:
    ids = worked(db)
    came, read, now = (exported(db, batch_of(db, ids[0]), as_of=number) for number in (0, 1, 2))
    assert [row.case_id for row in now] == ids and exported(db, batch_of(db, ids[0]))[0] == now[0]
    first = now[0]
    assert (first.reference, first.reference_value, first.provenance) == ("safe", "no", {"labels": "jury"})
    assert [(one.reviewer, one.version, one.label, one.blind) for one in first.reviews] == [
        (pseudonym(KEY, "ann"), 1, "unsafe", True),
        (pseudonym(KEY, "bo"), 1, "unsafe", True),
        (pseudonym(KEY, "bo"), 2, "unsafe", False),
    ]
    made = [(one.version, one.label, one.method) for one in first.adjudications]
    assert made == [(1, "unsafe", "agreement"), (2, "safe", "amendment")]
    assert (first.text, first.reviews[0].fields["ideation"]) == ("canary text number 1", 3)
    assert [(row.final_label, row.final_source, row.reviews) for row in came] == [("safe", "reference", ())] * 3
    assert [(row.reference, row.adjudicated_label, row.final_label, row.final_source) for row in (read[0], first)] == [
        ("safe", label, label, "adjudicated") for label in ("unsafe", "safe")
    ]
    assert [(rows[0].as_of, len(rows[0].reviews)) for rows in (came, read, now)] == [(0, 0), (1, 2), (2, 3)]
    assert len({rows[0].version for rows in (came, read, now)}) == 3


def test_reviewers_stay_unknown_their_own_words_inside_and_each_export_is_logged_before_its_first_row(
    db: Database,
) -> None:
    batch_id = batch_of(db, worked(db)[0])
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


def test_a_version_keeps_its_name_whatever_comes_after_it(db: Database) -> None:
    register(db, ANN, BO)
    ids = fill(db, [Priority.P2, Priority.P2])
    of, other = batch_of(db, ids[0]), batch(db, ["one"])

    def version(as_of: int | None = None, batch_id: str = of) -> DatasetVersion:
        with db.read() as conn:
            return dataset_version(conn, batch_id, as_of)

    came = version()
    assert (came.as_of, came.last, came.until, came.versions, len(came.name)) == (0, 0, None, {}, 16)
    assert came.holds(LATER) and came.name != version(batch_id=other).name
    names = []
    for number, who in enumerate((ANN, BO)):
        read(db, who, form("unsafe", 5), str(number), NOW + number * MINUTE)
        names.append(version().name)
    one, two = version(1), version(2)
    assert (one.name, two.name, version(0).name) == (*names, came.name), "the same labels and reviews as then"
    assert (one.as_of, one.last, one.until, one.versions) == (1, 2, NOW, {ids[0]: 1})
    assert (two.as_of, two.last, two.until, two.versions) == (2, 2, None, {ids[0]: 1, ids[1]: 1})
    assert [one.holds(moment) for moment in (NOW, LATER)] == [True, False] and two.holds(LATER + MINUTE)
    assert not version(0).holds(NOW) and version(9) == version() == two
    amend(db, SENIOR.at(NOW + 2 * MINUTE), ids[0], ReviewLabel.SAFE, "looked again", 1)
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
    add_tag(db, RESEARCHER.at(NOW), first, "Lyrics")
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
    add_tag(db, RESEARCHER.at(LATER), ids[0], "Lyrics")
    amend(db, SENIOR.at(LATER), ids[0], ReviewLabel.UNSAFE, "looked again", 2)
    write(db, update(inbox_entries).where(inbox_entries.c.case_id == ids[0]).values(closed_at=None))
    first, _, third = exported(db, batch_of(db, ids[0]), hide=True)
    assert (first.adjudicated_label, first.final_label, first.final_source) == (None, "safe", "reference")
    assert first.hidden and (first.outcome, first.model) == (None, None)
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


def test_a_second_look_that_somebody_picked_counts_nowhere(db: Database) -> None:
    case_ids = settled(db, 20, audit_rate=0.05)
    due = _stratum(db).selected
    assert request_second_looks(db, ME, case_ids).opened == 20 - due
    assert read_all(db, "unsafe") == 20
    found = _sample(db)
    assert sum(count for case, count in found.case_counts if case.read) == due
    assert estimate(tally_by_stratum(found.case_counts)).missed.read == due
    assert found.not_blind == 0  # nor among the reviews that are missing from the audit


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
    assert found[0] == case_id and found[1].unreadable and not found[1].read
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
    guarantee = guarantee_of((case for case, _ in _sample(db).case_counts), floor=1.0)
    assert (guarantee.waiting, guarantee.lost_safe) == (0, int(outcome is Outcome.SAFE))


def test_a_text_called_safe_and_read_as_unsafe_is_read_again_and_counts_as_settled(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    (case_id,) = settled(db, 1, audit_rate=1.0)
    read(db, ANN, form("unsafe"), now=DECIDED)
    stratum = _stratum(db)
    assert (stratum.selected, stratum.read, stratum.read_again, stratum.waiting) == (1, 0, 1, 0)
    read(db, BO, form("safe"), now=DECIDED)
    adjudicate(db, SENIOR.at(DECIDED), case_id, ReviewLabel.SAFE, "an idiom", Method.SENIOR)
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
    amend(db, LOCAL_USER.at(BEGUN), claim.case_id, ReviewLabel.SAFE, "by a clock that was set back", 1)
    assert changed(True, True)
    request_second_looks(db, ME, [first])
    assert changed(True, True)
    _erase(db, second)
    assert changed(True, True), "what is shown of it may hold its id and what people wrote"
