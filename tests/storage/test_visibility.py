"""Counts are what the AI did, for everybody and in every state; lists hide cases in review from who asked for that, and
what they show of them is written down and makes a later review not blinded."""

import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert, select

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER, SYSTEM, Acting, Actor, Role
from screening.review.policy import Action, Forbidden, is_allowed
from screening.review.reach import Reach
from screening.review.review_form import ReviewLabel
from screening.review.triage import Priority
from screening.text.received import receive
from storage import visibility
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
from storage.schema import adjudications, case_tags, cases, unblindings
from storage.visibility import NotYetRated, choose_hiding, hides_in_review
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import fill, form, put, rows, site, take
from tests.storage.people import ANN, BO, HELEN, PEOPLE, RESEARCHER, SENIOR, person
from tests.storage.research.case_by_case import adjudicated_labels

ALL_ROLES = person("eve", *Role)
S, U, H = Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW
ROWS = (  # group, reference, and how it ended where nobody reads it any more
    ("a", Label.SAFE, S), ("a", Label.UNSAFE, S), ("a", Label.UNSAFE, H), ("b", Label.SAFE, U), ("b", None, S),
    ("a", Label.SAFE, None), ("b", Label.UNSAFE, None), ("b", Label.UNSAFE, None), (None, None, None),
)  # fmt: skip
OPEN = sum(ended is None for *_, ended in ROWS)
WORLDS = [(S,) * OPEN, (U,) * OPEN, (H, U, H, S)]


@pytest.fixture(autouse=True)
def team(db: Database) -> None:
    """Four who read, and no second reviews by a coin."""
    site(db, ANN, BO, HELEN, SENIOR)


def _read(db: Database, who: Actor, case_id: str, label: str, *, certainty: int = 5) -> None:
    by = who.at(LATER)
    claim = claims.claim(db, by, case_id) if Role.SENIOR in who.roles else take(db, who, LATER)
    assert claim.case_id == case_id
    submit_review(db, by, case_id, claim.token, form(label, certainty), new_id(LATER))


def _was_blind(db: Database, who: Actor, case_id: str) -> bool:
    mine = my_review(db, who, case_id)
    assert mine is not None
    return mine.blind


def _world(db: Database, endings: Sequence[Outcome], first_label: str = "unsafe") -> str:
    """A batch, all under audit: some cases are closed, the others wait and ended in these ways. The first of those
    that wait was closed with ``first_label`` and then opened again.
    """
    batch_id = batch(db, closed=False, audit_rate=1.0)
    new = [
        NewCase(row=row, external_id=f"p{row}", text=receive(f"text {row}"), reference=reference, group=group)
        for row, (group, reference, _) in enumerate(ROWS, start=1)
    ]
    add_rows(db, batch_id, new, NOW)
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
    return {
        "progress": asdict(find_batch(db, who, batch_id, now=LATER).progress),
        "listed": [asdict(one.progress) for one in list_batches(db, who, now=LATER) if one.id == batch_id],
        "matrix": [confusions(db, who, batch_id, group).original for group in (None, "a", "b")],
        "ways": count_ways(db, who, batch_id, CONFIGURATION.pipeline),
        "costs": cost_by_node(db, who, batch_id),
        "kinds": shown_kinds(db, who, batch_id),
        "columns": outcomes_in(db, who, batch_id, np.arange(1, len(ROWS) + 1)).tolist(),
    }


def test_every_count_is_what_the_ai_did_for_everybody_and_in_every_state(db: Database) -> None:
    """In review, half reviewed, closed, sent to review again: the facts alone."""
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


def _listed(db: Database, batch_id: str) -> dict[str, Any]:
    """Every list of cases and the file, without ids that are made at random."""
    by, of_all = SENIOR.at(LATER), Cell(batch_id=batch_id)
    order = {case_id: row for row, case_id in enumerate(_ids(db, batch_id))}
    found: dict[str, Any] = {"results": [replace(one, case_id="", batch_id="") for one in results(db, by, batch_id)]}
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
            ("gap_at_most", 0.5), ("source", "adjudicated"), ("way", ("worker", Label.SAFE)), ("ids", tuple(order)),
        )),
    ]  # fmt: skip
    for one in lists:
        page = cell_page(db, by, one)
        shown = [replace(case, case_id="", batch_id="") for case in page.cases]
        found[repr(replace(one, batch_id="", ids=None))] = shown, [order[case_id] for case_id in page.ids]
    return found


def test_with_the_switch_on_no_list_depends_on_how_a_case_in_review_ended(db: Database) -> None:
    """Nor on the first review of a case that was opened again."""
    first = _listed(db, _world(db, WORLDS[0]))
    assert sum(row.hidden for row in first["results"]) == OPEN
    for endings, label in (*((world, "unsafe") for world in WORLDS[1:]), (WORLDS[0], "safe")):
        assert _listed(db, _world(db, endings, label)) == first
    assert not [row for row in rows(db, unblindings) if row.reviewer == SENIOR.id]


def test_the_switch_is_on_for_reviewers_of_a_site_with_sign_in_and_remembered_per_person(db: Database) -> None:
    people = {LOCAL_USER: False, RESEARCHER: False, SENIOR: True, ALL_ROLES: True, ANN: True}
    for who, hides in people.items():
        with db.read() as conn:
            assert hides_in_review(conn, who) is hides and not hides_in_review(conn, SYSTEM)
        for chosen in (not hides, hides, not hides):
            if who == ANN:  # who may not see outcomes chooses nothing
                with pytest.raises(Forbidden):
                    choose_hiding(db, who.at(NOW), hide=chosen)
                continue
            choose_hiding(db, who.at(NOW), hide=chosen)
            with db.read() as conn:
                assert hides_in_review(conn, who) is chosen
                assert hides_in_review(conn, replace(who, id="other")) is is_allowed(who, Action.CLAIM_NEXT)


def _see_corrected(db: Database, by: Acting, batch_id: str) -> None:
    anybody = replace(by, actor=replace(by.actor, roles=frozenset(Role)))
    assert len(list(export_corrected_labels(db, anybody, batch_id, "k"))) == 2


See = Callable[[Database, Acting, str], object]
VIEWS: dict[str, See] = {
    "page": lambda db, by, batch_id: cell_page(db, by, Cell(batch_id=batch_id), limit=1),
    "case": lambda db, by, batch_id: listed_case(db, by, _ids(db, batch_id)[0]),
    "file": lambda db, by, batch_id: list(results(db, by, batch_id)),
    "corrected": _see_corrected,
    "evidence": lambda db, by, batch_id: reveal_evidence(db, by, _ids(db, batch_id)[0], browsing=True),
}


@pytest.mark.parametrize("see", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("hide", [True, False])
def test_what_was_shown_of_a_case_in_review_is_written_down_once_and_its_review_is_not_blinded(
    db: Database, see: See, hide: bool
) -> None:
    batch_id = batch(db, ["one", "two"], references="SU", audit_rate=1.0)
    for case_id in waiting(db):
        decide(db, case_id, U)
    choose_hiding(db, SENIOR.at(NOW), hide=hide)
    for moment in (NOW, LATER):
        with suppress(NotYetRated):  # the page of a case that hides its outcome
            see(db, SENIOR.at(moment), batch_id)
    seen = {(row.reviewer, row.at, row.before_review) for row in rows(db, unblindings)}
    assert seen == (set() if hide else {(SENIOR.id, NOW, True)})
    first, second = _ids(db, batch_id)
    for who, case_id in ((SENIOR, first), (HELEN, second)):
        _read(db, who, case_id, "unsafe")
    assert (_was_blind(db, SENIOR, first), _was_blind(db, HELEN, second)) == (hide, True)


def _one(db: Database, outcome: Outcome, **options: Any) -> tuple[str, str]:
    batch_id = batch(db, ["a text"], references="S", **options)
    (case_id,) = waiting(db)
    decide(db, case_id, outcome)
    return batch_id, case_id


def test_the_desk_shows_nothing_before_the_save_whatever_the_switch_says(db: Database) -> None:
    _, case_id = _one(db, U, audit_rate=1.0)
    choose_hiding(db, SENIOR.at(NOW), hide=False)
    claims.claim(db, SENIOR.at(LATER), case_id)
    with pytest.raises(NotYetRated):
        reveal_evidence(db, SENIOR.at(LATER), case_id)
    by = ANN.at(LATER + timedelta(days=1))
    take(db, ANN, by.now)
    for browsing in (False, True):  # whoever may not see outcomes cannot ask for them otherwise
        with pytest.raises(NotYetRated):
            reveal_evidence(db, by, case_id, browsing=browsing)


TABLES = tomllib.loads((Path(__file__).parent / "visibility.toml").read_text(encoding="utf-8"))
READERS = PEOPLE | {LOCAL_USER.id: LOCAL_USER}


@pytest.mark.parametrize(("reader", "outcome", "reach", "audit_rate", "waited", "is_blind"), TABLES["screened"])
def test_a_case_is_read_blind_by_whom_no_list_can_have_told_how_it_ended(
    db: Database, reader: str, outcome: str, reach: str, audit_rate: float, waited: bool, is_blind: bool
) -> None:
    _, case_id = _one(db, Outcome(outcome), reach=Reach(reach), audit_rate=audit_rate)
    assert request_second_looks(db, RESEARCHER.at(LATER), [case_id]).there_before == waited
    _read(db, READERS[reader], case_id, "safe")
    assert _was_blind(db, READERS[reader], case_id) is is_blind


@pytest.mark.parametrize(("reader", "again", "is_blind"), TABLES["read"])
def test_a_case_opened_again_and_one_reviewed_before_are_read_blind_by_those_whom_no_list_told_of_it(
    db: Database, reader: str, again: bool, is_blind: bool
) -> None:
    who, (_, case_id) = READERS[reader], _one(db, H)
    if again:
        _reopened(db, case_id)
        _read(db, who, case_id, "safe")
    else:
        _read(db, who, case_id, "safe", certainty=1)
        revise(db, who.at(LATER), case_id, form("safe", 2), "surer", new_id(LATER))
    assert _was_blind(db, who, case_id) is is_blind


def _reopened(db: Database, case_id: str) -> None:
    """Closed as unsafe by Ann, who then changes her mind: softened, so a second reviewer is due."""
    _read(db, ANN, case_id, "unsafe")
    revise(db, ANN.at(LATER), case_id, form("safe", 5), "looked again", new_id(LATER))


def test_a_label_taken_back_stands_nowhere_until_it_is_decided_again(db: Database) -> None:
    batch_id, case_id = _one(db, H)
    _reopened(db, case_id)
    own = replace(ALL_ROLES, id=ANN.id)  # who has read it: nothing is withheld
    for who in (SENIOR, RESEARCHER, own):
        matrices = confusions(db, who, batch_id)
        assert matrices.adjudicated == matrices.original == {("safe", "human_review"): 1}
        assert adjudicated_labels(db, who, batch_id) == {}
        cell = Cell(batch_id=batch_id, reference="unsafe", outcome="human_review", labels="adjudicated")
        assert cell_page(db, who.at(NOW), cell).cases == ()
    here = replace(cell, reference="safe", labels="original")
    assert [case.accepted for case in cell_page(db, own.at(NOW), here).cases] == [None]
    _read(db, BO, case_id, "safe")
    assert adjudicated_labels(db, SENIOR, batch_id) == {}, "Ann's first word was another"
    adjudicate(db, SENIOR.at(LATER), case_id, ReviewLabel.SAFE, "a quotation")
    assert adjudicated_labels(db, SENIOR, batch_id) == {case_id: ReviewLabel.SAFE}
    assert [one.outcome for one in results(db, SENIOR.at(NOW), batch_id)] == ["human_review"]


def decide_so(db: Database, case_id: str, *labels: str, closed: bool = True) -> None:
    """These versions of the case's label, the first one first; its entry is closed, or open again."""
    same = {"case_id": case_id, "method": "single", "by": "ann", "at": NOW, "review_ids": []}
    made = [same | {"version": number, "label": label} for number, label in enumerate(labels, 1)]
    with db.write() as conn:
        conn.execute(insert(adjudications), made[::-1])  # the order of the rows tells nothing
    put(db, case_id, closed_at=NOW if closed else None)


def test_the_accepted_label_is_the_latest_version_of_what_is_closed_and_of_nothing_else(db: Database) -> None:
    once, amended, again, unread = ids = fill(db, [Priority.P2] * 4)
    (other,), _never_in_the_inbox = fill(db), fill(db, entered=False)
    decide_so(db, once, "safe")
    decide_so(db, amended, "unsafe", "insufficient_information", "safe", "unsafe")
    decide_so(db, again, "safe", "unsafe", closed=False)
    decide_so(db, other, "unsafe", "safe")
    made, batch_id = adjudications.c, db.value(select(cases.c.batch_id).where(cases.c.id == once))
    accepted = visibility.accepted_label(cases.c.id).label("label")
    alone = {row.id: row.label for row in db.rows(select(cases.c.id, accepted).where(cases.c.id.in_(ids)))}
    assert alone == {once: "safe", amended: "unsafe", again: None, unread: None}
    of_batch = sorted((row.case_id, row.label) for row in db.rows(visibility.accepted_labels(batch_id)))
    assert of_batch == sorted([(once, "safe"), (amended, "unsafe")]), "each once"
    assert set(db.values(select(cases.c.id).where(visibility.is_accepted(cases.c.id)))) == {once, amended, other}
    joined = select(made.label, visibility.accepted_label(made.case_id).label("accepted")).order_by(made.version)
    found = db.rows(joined.where(visibility.is_accepted(made.case_id), made.case_id == other))
    assert found == [("unsafe", "safe"), ("safe", "safe")], "also where a query joins decisions itself"
