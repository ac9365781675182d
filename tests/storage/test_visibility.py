"""Counts are what the AI did, for everybody and in every state; lists hide cases in review from who asked for that, and
what they show of them is written down and makes a later review not blinded."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, insert, select, update

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER, SYSTEM, Acting, Actor, Role
from screening.review.policy import Action, Forbidden, is_allowed
from screening.review.reach import Reach
from screening.review.review_form import ReviewLabel
from screening.review.triage import Priority
from screening.text.received import receive
from storage.batches.batches import find_batch, list_batches
from storage.batches.costs import cost_by_node
from storage.batches.intake import add_rows, close_intake
from storage.batches.results import count_ways, results
from storage.clock import new_id
from storage.database import Database
from storage.research.cells import cell_page, confusions, listed_case, shown_kinds
from storage.research.corrected_labels import export_corrected_labels
from storage.research.listed import Cell
from storage.research.recordings import outcomes_in
from storage.review import claims
from storage.review.adjudication import adjudicate
from storage.review.evidence import reveal_evidence
from storage.review.reviews import my_review, revise, submit_review
from storage.review.worklist import request_second_looks
from storage.schema import adjudications, case_tags, cases, inbox_entries, unblindings
from storage.settings_store import SiteSettings, change
from storage.visibility import NotYetRated, accepted_label, accepted_labels, choose_hiding, hides_in_review, is_accepted
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ADMIN, ANN, BO, RESEARCHER, SENIOR, fill, form, person, register, take
from tests.storage.research.case_by_case import adjudicated_labels

HELEN = person("helen", Role.SENIOR)  # who reads what is closed at the start
ALL_ROLES = person("eve", *Role)
S, U, H = Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW
ROWS = (  # group, reference, and how it ended where nobody reads it any more
    ("a", Label.SAFE, S), ("a", Label.UNSAFE, S), ("a", Label.UNSAFE, H), ("b", Label.SAFE, U), ("b", None, S),
    ("a", Label.SAFE, None), ("b", Label.UNSAFE, None), ("b", Label.UNSAFE, None), (None, None, None),
)  # fmt: skip
OPEN = sum(ended is None for *_, ended in ROWS)
WORLDS = [*((ended,) * OPEN for ended in Outcome), (S, U, H, S), (H, H, S, U)]


def team(db: Database) -> None:
    """Four who read, and no second reviews by a coin."""
    register(db, ANN, BO, HELEN, SENIOR)
    change(db, ADMIN.at(NOW), SiteSettings(second_review_rate=0.0), 0)


def _read(db: Database, who: Actor, case_id: str, label: str, *, certainty: int = 5) -> None:
    claim = (
        claims.claim(db, who.at(LATER), case_id) if Role.SENIOR in who.roles else claims.claim_next(db, who.at(LATER))
    )
    assert claim is not None and claim.case_id == case_id
    submit_review(db, who.at(LATER), case_id, claim.token, form(label, certainty), new_id(LATER))


def _was_blind(db: Database, who: Actor, case_id: str) -> bool:
    mine = my_review(db, who, case_id)
    assert mine is not None
    return mine.blind


def _world(db: Database, endings: Sequence[Outcome], first_label: str = "unsafe") -> str:
    """A batch, all under audit: some cases are closed, the others wait and ended in these ways. The first of those
    that wait was closed with ``first_label`` and then opened again.
    """
    batch_id = batch(db, closed=False, audit_rate=1.0)
    rows = [
        NewCase(row=row, external_id=f"p{row}", text=receive(f"text {row}"), reference=reference, group=group)
        for row, (group, reference, _) in enumerate(ROWS, start=1)
    ]
    add_rows(db, batch_id, rows, NOW)
    close_intake(db, LOCAL_USER.at(NOW), batch_id)
    ended = [known for *_, known in ROWS if known is not None]
    for case_id, outcome in zip(waiting(db), [*ended, *endings], strict=True):
        decide(db, case_id, outcome, 0.25)  # sums of quarters are exact, in whatever order a database adds them up
    ids = _ids(db, batch_id)
    with db.write() as conn:  # somebody who may not read noted which ended as safe
        tagged = [*ids[:2], *(one for one, ended in zip(ids[-OPEN:], endings, strict=True) if ended is S)]
        conn.execute(insert(case_tags), [{"case_id": one, "tag": "lyrics", "by": "x", "at": NOW} for one in tagged])
    for case_id, (*_, known) in zip(ids[: -OPEN + 1], ROWS, strict=False):
        agreed = "unsafe" if known is U else "safe"  # what reads otherwise than the engine waits for a second reviewer
        _read(db, HELEN, case_id, first_label if case_id == ids[-OPEN] else agreed)
    again, other = ids[-OPEN], "safe" if first_label == "unsafe" else "insufficient_information"
    revise(db, HELEN.at(LATER), again, form(other, 1), "read again", new_id(LATER))
    return batch_id


def _ids(db: Database, batch_id: str) -> list[str]:
    return db.values(select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row))


def _counted(db: Database, who: Actor, batch_id: str) -> dict[str, Any]:
    """Every count of a batch, as this person sees it."""
    pipeline = CONFIGURATION.pipeline
    return {
        "progress": asdict(find_batch(db, who, batch_id, now=LATER).progress),
        "listed": [asdict(one.progress) for one in list_batches(db, who, now=LATER) if one.id == batch_id],
        "matrix": [confusions(db, who, batch_id, group).original for group in (None, "a", "b")],
        "ways": count_ways(db, who, batch_id, pipeline),
        "costs": cost_by_node(db, who, batch_id),
        "kinds": shown_kinds(db, who, batch_id),
        "columns": outcomes_in(db, who, batch_id, np.arange(1, len(ROWS) + 1)).tolist(),
    }


def test_every_count_is_what_the_ai_did_for_everybody_and_in_every_state(db: Database) -> None:
    """In review, half reviewed, closed, sent to review again: the facts alone."""
    team(db)
    batch_id = _world(db, (S, U, H, S))
    ids = _ids(db, batch_id)
    before = _counted(db, RESEARCHER, batch_id)
    assert before["matrix"][0] == {
        ("safe", "safe"): 2, ("unsafe", "safe"): 1, ("unsafe", "human_review"): 2, ("safe", "unsafe"): 1,
        ("unsafe", "unsafe"): 1,
    }  # fmt: skip
    assert (before["progress"]["safe"], before["progress"]["unsafe"], before["progress"]["human_review"]) == (5, 2, 2)
    assert before["progress"]["calls"] == before["ways"].asked["worker"] * 6 == 54
    for who in (SENIOR, LOCAL_USER, ALL_ROLES):
        assert _counted(db, who, batch_id) == before
    assert find_batch(db, ANN, batch_id, now=LATER).progress == find_batch(db, SENIOR, batch_id, now=LATER).progress
    _read(db, SENIOR, ids[-OPEN + 1], "safe", certainty=1)  # unsure: a second reviewer is due
    assert _counted(db, SENIOR, batch_id) == before
    for case_id in ids[-OPEN + 2 :]:
        _read(db, SENIOR, case_id, "safe")
    request_second_looks(db, RESEARCHER.at(LATER), ids)
    for who in (SENIOR, RESEARCHER):
        assert _counted(db, who, batch_id) == before


def _listed(db: Database, who: Actor, batch_id: str) -> dict[str, Any]:
    """Every list of cases and the file, without ids that are made at random."""
    found: dict[str, Any] = {
        "results": [replace(one, case_id="", batch_id="") for one in results(db, who.at(LATER), batch_id)]
    }
    of_all, order = Cell(batch_id=batch_id), {case_id: row for row, case_id in enumerate(_ids(db, batch_id))}
    cells = [
        replace(of_all, reference=reference, outcome=str(outcome), labels=labels, group=group)  # type: ignore[arg-type]
        for labels, group in product(("original", "adjudicated"), (None, "a", "b"))
        for reference, outcome in product(("safe", "unsafe"), (*Outcome, "pending"))
    ]
    lists = [
        of_all, *cells, *(replace(of_all, outcome=outcome) for outcome in (*map(str, Outcome), "pending", "in review")),
        *(replace(of_all, sort=sort, descending=down) for sort in ("calls", "cost", "gap") for down in (True, False)),
        *(replace(of_all, **{name: value}) for name, value in (  # type: ignore[arg-type]
            ("tag", "lyrics"), ("search", "a"), ("search", "3"), ("node", "worker"), ("reason", "exhausted"),
            ("gap_at_most", 0.5), ("source", "adjudicated"), ("way", ("worker", Label.SAFE)),
            ("ids", tuple(_ids(db, batch_id))),
        )),
    ]  # fmt: skip
    for one in lists:
        page = cell_page(db, who.at(LATER), one)
        rows = [replace(case, case_id="", batch_id="") for case in page.cases]
        found[repr(replace(one, batch_id="", ids=None))] = rows, [order[case_id] for case_id in page.ids]
    return found


def test_with_the_switch_on_no_list_depends_on_how_a_case_in_review_ended(db: Database) -> None:
    team(db)
    first, *others = [_listed(db, SENIOR, _world(db, endings)) for endings in WORLDS]
    assert sum(row.hidden for row in first["results"]) == OPEN
    for other in others:
        assert other == first
    assert db.value(select(func.count()).select_from(unblindings).where(unblindings.c.reviewer == SENIOR.id)) == 0


def test_with_the_switch_on_no_list_depends_on_the_first_review_of_a_case_opened_again(db: Database) -> None:
    team(db)
    one, other = (_listed(db, SENIOR, _world(db, WORLDS[0], label)) for label in ("unsafe", "safe"))
    assert one == other


@pytest.mark.parametrize(
    ("who", "hides"), [(LOCAL_USER, False), (RESEARCHER, False), (SENIOR, True), (ALL_ROLES, True), (ANN, True)],
    ids=lambda one: getattr(one, "id", None),
)  # fmt: skip
def test_the_switch_is_on_for_reviewers_of_a_site_with_sign_in_and_remembered_per_person(
    db: Database, who: Actor, hides: bool
) -> None:
    with db.read() as conn:
        assert hides_in_review(conn, who) is hides and not hides_in_review(conn, SYSTEM)
    if who == ANN:  # who may not see outcomes chooses nothing
        with pytest.raises(Forbidden):
            choose_hiding(db, who.at(NOW), hide=False)
        return
    for chosen in (not hides, hides, not hides):
        choose_hiding(db, who.at(NOW), hide=chosen)
        with db.read() as conn:
            assert hides_in_review(conn, who) is chosen and hides_in_review(conn, replace(who, id="other")) is (
                is_allowed(who, Action.CLAIM_NEXT)
            )


def _see_page(db: Database, by: Acting, batch_id: str) -> None:
    cell_page(db, by, Cell(batch_id=batch_id), limit=1)


def _see_case(db: Database, by: Acting, batch_id: str) -> None:
    listed_case(db, by, _ids(db, batch_id)[0])


def _see_file(db: Database, by: Acting, batch_id: str) -> None:
    assert len(list(results(db, by, batch_id))) == 2


def _see_corrected(db: Database, by: Acting, batch_id: str) -> None:
    anybody = replace(by, actor=replace(by.actor, roles=frozenset(Role)))
    assert len(list(export_corrected_labels(db, anybody, batch_id, "k"))) == 2


def _see_evidence(db: Database, by: Acting, batch_id: str) -> None:
    reveal_evidence(db, by, _ids(db, batch_id)[0], browsing=True)


@pytest.mark.parametrize("see", [_see_page, _see_case, _see_file, _see_corrected, _see_evidence])
@pytest.mark.parametrize("hide", [True, False])
def test_what_was_shown_of_a_case_in_review_is_written_down_once_and_its_review_is_not_blinded(
    db: Database, see: Callable[[Database, Acting, str], None], hide: bool
) -> None:
    team(db)
    batch_id = batch(db, ["one", "two"], references="SU", audit_rate=1.0)
    for case_id in waiting(db):
        decide(db, case_id, U)
    choose_hiding(db, SENIOR.at(NOW), hide=hide)
    for moment in (NOW, LATER):
        with suppress(NotYetRated):  # the page of a case that hides its outcome
            see(db, SENIOR.at(moment), batch_id)
    seen = db.rows(select(unblindings.c.reviewer, unblindings.c.at, unblindings.c.before_review).distinct())
    assert seen == ([] if hide else [(SENIOR.id, NOW, True)])
    first, second = _ids(db, batch_id)
    for who, case_id in ((SENIOR, first), (HELEN, second)):
        _read(db, who, case_id, "unsafe")
    assert (_was_blind(db, SENIOR, first), _was_blind(db, HELEN, second)) == (hide, True)


def test_the_desk_shows_nothing_before_the_save_whatever_the_switch_says(db: Database) -> None:
    team(db)
    _, case_id = _one(db, U, audit_rate=1.0)
    choose_hiding(db, SENIOR.at(NOW), hide=False)
    claims.claim(db, SENIOR.at(LATER), case_id)
    with pytest.raises(NotYetRated):
        reveal_evidence(db, SENIOR.at(LATER), case_id)
    take(db, ANN, LATER + timedelta(days=1))
    for browsing in (False, True):  # whoever may not see outcomes cannot ask for them otherwise
        with pytest.raises(NotYetRated):
            reveal_evidence(db, ANN.at(LATER + timedelta(days=1)), case_id, browsing=browsing)


def _one(db: Database, outcome: Outcome, audit_rate: float = 0.0) -> tuple[str, str]:
    batch_id = batch(db, ["a text"], references="S", audit_rate=audit_rate)
    (case_id,) = waiting(db)
    decide(db, case_id, outcome)
    return batch_id, case_id


@pytest.mark.parametrize(
    ("who", "outcome", "reach", "audit_rate", "waited", "blind"),
    [
        # in the inbox from the start, so that no list told how it ended
        (SENIOR, S, Reach.COUNT, 1.0, True, True),
        (SENIOR, U, Reach.COUNT, 1.0, True, True),
        (SENIOR, H, Reach.COUNT, 0.0, True, True),
        (SENIOR, H, Reach.COUNT, 1.0, True, True),
        (SENIOR, U, Reach.READ, 0.0, True, True),
        # sent there later: lists remember nobody, and the moments are the same, so that no clock decides
        (SENIOR, U, Reach.COUNT, 0.0, False, False),
        (SENIOR, S, Reach.READ, 0.0, False, False),
        (SENIOR, S, Reach.COUNT, 0.0, False, False),
        (LOCAL_USER, S, Reach.COUNT, 0.0, False, False),
        (ANN, S, Reach.COUNT, 0.0, False, True),
    ],
)
def test_a_case_is_read_blind_by_whom_no_list_can_have_told_how_it_ended(
    db: Database, who: Actor, outcome: Outcome, reach: Reach, audit_rate: float, waited: bool, blind: bool
) -> None:
    batch(db, ["a text"], references="S", reach=reach, audit_rate=audit_rate)
    (case_id,) = waiting(db)
    decide(db, case_id, outcome)
    assert request_second_looks(db, RESEARCHER.at(LATER), [case_id]).there_before == waited
    _read(db, who, case_id, "safe")
    assert _was_blind(db, who, case_id) is blind


@pytest.mark.parametrize(
    ("who", "again", "blind"), [(SENIOR, True, False), (BO, True, True), (SENIOR, False, False), (ANN, False, True)]
)
def test_a_case_opened_again_and_one_reviewed_before_are_read_blind_by_those_whom_no_list_told_of_it(
    db: Database, who: Actor, again: bool, blind: bool
) -> None:
    """Opened ``again`` by another's change; or open still, for a second reviewer, and the first revises theirs: from
    its first one no list withholds it.
    """
    team(db)
    _, case_id = _one(db, H)
    if again:
        _reopened(db, case_id)
        _read(db, who, case_id, "safe")
    else:
        _read(db, who, case_id, "safe", certainty=1)
        revise(db, who.at(LATER), case_id, form("safe", 2), "surer", new_id(LATER))
    assert _was_blind(db, who, case_id) is blind


def _reopened(db: Database, case_id: str) -> None:
    """Closed as unsafe by Ann, who then changes her mind: softened, so a second reviewer is due."""
    _read(db, ANN, case_id, "unsafe")
    revise(db, ANN.at(LATER), case_id, form("safe", 5), "looked again", new_id(LATER))


def test_a_label_taken_back_stands_nowhere_until_it_is_decided_again(db: Database) -> None:
    team(db)
    batch_id, case_id = _one(db, H)
    _reopened(db, case_id)
    for who in (SENIOR, RESEARCHER, replace(ALL_ROLES, id=ANN.id)):  # the last one has read it: nothing is withheld
        matrices = confusions(db, who, batch_id)
        assert matrices.adjudicated == matrices.original == {("safe", "human_review"): 1}
        assert adjudicated_labels(db, who, batch_id) == {}
        cell = Cell(batch_id=batch_id, reference="unsafe", outcome="human_review", labels="adjudicated")
        assert cell_page(db, who.at(NOW), cell).cases == ()
    own = replace(ALL_ROLES, id=ANN.id)
    (row,) = export_corrected_labels(db, own.at(LATER), batch_id, "key")
    assert (row.hidden, row.adjudicated_label) == (False, None)
    assert (row.final_label, row.final_source) == ("safe", "reference")
    here = Cell(batch_id=batch_id, reference="safe", outcome="human_review")
    assert [case.accepted is not None for case in cell_page(db, own.at(NOW), here).cases] == [False]
    _read(db, BO, case_id, "safe")
    assert adjudicated_labels(db, SENIOR, batch_id) == {}, "Ann's first word was another"
    adjudicate(db, SENIOR.at(LATER), case_id, ReviewLabel.SAFE, "a quotation")
    assert adjudicated_labels(db, SENIOR, batch_id) == {case_id: ReviewLabel.SAFE}
    (row,) = export_corrected_labels(db, own.at(LATER), batch_id, "key")
    assert (row.adjudicated_label, row.final_source) == ("safe", "adjudicated")
    assert [one.outcome for one in results(db, SENIOR.at(NOW), batch_id)] == ["human_review"]


def decide_so(db: Database, case_id: str, *labels: str, closed: bool = True) -> None:
    """These versions of the case's label, the first one first; its entry is closed, or open again."""
    same = {"case_id": case_id, "method": "single", "by": "ann", "at": NOW, "review_ids": []}
    rows = [same | {"version": number, "label": label} for number, label in enumerate(labels, 1)]
    with db.write() as conn:
        conn.execute(insert(adjudications), rows[::-1])  # the order of the rows tells nothing
        entry = update(inbox_entries).where(inbox_entries.c.case_id == case_id)
        conn.execute(entry.values(closed_at=NOW if closed else None))


def told(db: Database, ids: list[str]) -> tuple[Mapping[str, str | None], list[tuple[str, str]], set[str]]:
    """The label of each case by itself, those of the first one's batch at once, and which have one."""
    with db.read() as conn:
        alone = conn.execute(select(cases.c.id, accepted_label(cases.c.id).label("label")).where(cases.c.id.in_(ids)))
        batch_id = conn.execute(select(cases.c.batch_id).where(cases.c.id == ids[0])).scalar_one()
        of_batch = conn.execute(accepted_labels(batch_id))
        has_one = conn.execute(select(cases.c.id).where(is_accepted(cases.c.id)))
        return (
            {row.id: row.label for row in alone},
            sorted((row.case_id, row.label) for row in of_batch),
            set(has_one.scalars()),
        )


def test_it_is_the_latest_version_of_what_is_closed_and_of_nothing_else(db: Database) -> None:
    once, amended, again, unread = ids = fill(db, [Priority.P2] * 4)
    (other,), _never_in_the_inbox = fill(db), fill(db, entered=False)
    decide_so(db, once, "safe")
    decide_so(db, amended, "unsafe", "insufficient_information", "safe", "unsafe")
    decide_so(db, again, "safe", "unsafe", closed=False)
    decide_so(db, other, "safe")
    alone, of_batch, has_one = told(db, ids)
    assert alone == {once: "safe", amended: "unsafe", again: None, unread: None}
    assert of_batch == sorted([(once, "safe"), (amended, "unsafe")]), "each once"
    assert has_one == {once, amended, other}


def test_a_query_that_joins_decisions_itself_gets_the_latest_all_the_same(db: Database) -> None:
    (case_id,) = fill(db)
    decide_so(db, case_id, "unsafe", "safe")
    made = adjudications.c
    query = select(made.label, accepted_label(made.case_id).label("accepted")).where(is_accepted(made.case_id))
    rows = db.rows(query.order_by(made.version))
    assert rows == [("unsafe", "safe"), ("safe", "safe")]
