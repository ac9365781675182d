"""What lists and counts together tell of a case that somebody may yet read blind: nothing, in whatever way it ended."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from sqlalchemy import insert, select

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER, SYSTEM, Actor, Role
from screening.review.rating_form import RatingLabel
from screening.review.reach import Reach
from screening.text.received import receive
from storage.batches.batch_state import BatchState, Caps
from storage.batches.batches import change_caps, find_batch, list_batches, progress
from storage.batches.intake import add_rows, close_intake
from storage.batches.results import results, withheld_rows
from storage.database import Database
from storage.identifiers import new_id
from storage.kinds import IN_INBOX
from storage.research.case_tags import tag_counts
from storage.research.cells import cell_choices, cell_page, groups
from storage.research.confusion import confusion, count_unread
from storage.research.listed import Cell
from storage.research.relabelled import export_relabelled
from storage.review import claims
from storage.review.adjudication import adjudicate
from storage.review.ratings import my_rating, revise, submit_rating
from storage.review.second_looks import request_second_looks
from storage.schema import case_tags, cases
from storage.settings_store import SiteSettings, change
from tests.storage.batch_of import LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ADMIN, ANN, BO, RESEARCHER, SENIOR, form, person, register
from tests.storage.research.case_by_case import adjudicated_labels, outcomes_now

HELEN = person("helen", Role.SENIOR)  # who reads what is closed at the start
ALL_ROLES = person("eve", *Role)
S, U, H = Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW
ROWS = (  # group, reference, and how it ended where nobody reads it any more
    ("a", Label.SAFE, S), ("a", Label.UNSAFE, S), ("a", Label.UNSAFE, H), ("b", Label.SAFE, U), ("b", None, S),
    ("a", Label.SAFE, None), ("b", Label.UNSAFE, None), ("b", Label.UNSAFE, None), (None, None, None),
)  # fmt: skip
OPEN = sum(ended is None for *_, ended in ROWS)
WORLDS = [(ended,) * OPEN for ended in Outcome]


def team(db: Database) -> None:
    """Four who read, and no second readings by a coin."""
    register(db, ANN, BO, HELEN, SENIOR)
    change(db, ADMIN.at(NOW), SiteSettings(second_reading_rate=0.0), 0)


def _read(db: Database, who: Actor, case_id: str, label: str, *, certainty: int = 5) -> None:
    claim = (
        claims.claim(db, who.at(LATER), case_id) if Role.SENIOR in who.roles else claims.claim_next(db, who.at(LATER))
    )
    assert claim is not None and claim.case_id == case_id
    submit_rating(db, who.at(LATER), case_id, claim.token, form(label, certainty), new_id(LATER))


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
        agreed = "unsafe" if known is U else "safe"  # what reads otherwise than the engine waits for a second reader
        _read(db, HELEN, case_id, first_label if case_id == ids[-OPEN] else agreed)
    again, other = ids[-OPEN], "safe" if first_label == "unsafe" else "insufficient_information"
    revise(db, HELEN.at(LATER), again, form(other, 1), "read again", new_id(LATER))
    return batch_id


def _ids(db: Database, batch_id: str) -> list[str]:
    return db.values(select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row))


def _served(db: Database, who: Actor, batch_id: str) -> dict[str, Any]:
    """Every list and count that tells of outcomes, without ids that are made at random."""
    found: dict[str, Any] = {"progress": asdict(progress(db, batch_id, LATER, actor=who))}
    found["listed"] = [asdict(one.progress) for one in list_batches(db, who, now=LATER) if one.id == batch_id]
    found["found"] = asdict(find_batch(db, who, batch_id, now=LATER).progress)
    found["results"] = [replace(one, case_id="") for one in results(db, who, batch_id)]
    found["withheld"], found["groups"] = withheld_rows(db, who, batch_id), groups(db, who, batch_id)
    for group in (None, *found["groups"]):
        found[f"unread {group}"] = count_unread(db, who, batch_id, group)
        for labels in ("original", "adjudicated"):
            found[f"matrix {labels} {group}"] = confusion(db, who, batch_id, labels, group)  # type: ignore[arg-type]
            for reference in ("safe", "unsafe"):
                for outcome in (*Outcome, "pending"):
                    cell = Cell(
                        batch_id=batch_id, reference=reference, outcome=str(outcome), labels=labels, group=group
                    )  # type: ignore[arg-type]
                    found[repr(replace(cell, batch_id=""))] = _of_cell(db, who, cell)
    of_all = Cell(batch_id=batch_id)
    lists = [
        of_all, *(replace(of_all, outcome=outcome) for outcome in (*map(str, Outcome), "pending", "in the inbox")),
        *(replace(of_all, sort=sort, descending=down) for sort in ("calls", "cost", "gap") for down in (True, False)),
        replace(of_all, tag="lyrics"), replace(of_all, search="a"), replace(of_all, search="3"),
    ]  # fmt: skip
    order = {case_id: row for row, case_id in enumerate(_ids(db, batch_id))}
    for one in lists:
        page = cell_page(db, who, one)
        rows = [replace(case, case_id="", batch_id="") for case in page.cases]
        found[repr(replace(one, batch_id=""))] = rows, [order[case_id] for case_id in page.ids], page.waiting
    found["choices"] = cell_choices(db, who, of_all)
    found["tags"] = tag_counts(db, who, batch_id)
    return found


def _of_cell(db: Database, who: Actor, cell: Cell) -> list[object]:
    narrowed = [
        cell, replace(cell, node="worker"), replace(cell, reason="exhausted"), replace(cell, gap_at_most=0.5),
        replace(cell, source="adjudicated"),
    ]  # fmt: skip
    pages = [cell_page(db, who, one) for one in (narrowed if cell.group is None else narrowed[:1])]
    return [cell_choices(db, who, cell)] + [
        ([replace(case, case_id="", batch_id="") for case in page.cases], page.found, page.waiting) for page in pages
    ]


@pytest.mark.parametrize("who", [SENIOR, LOCAL_USER], ids=lambda who: who.id)
def test_nothing_served_depends_on_how_a_case_ended_that_is_yet_to_be_read(db: Database, who: Actor) -> None:
    """So no difference of two numbers, and no list beside a number, tells it: each may have ended in any way."""
    team(db)
    first, *others = [_served(db, who, _world(db, endings)) for endings in WORLDS]
    assert first["withheld"] == OPEN
    for other in others:
        assert other == first


def test_nothing_served_depends_on_the_first_reading_of_a_case_opened_again(db: Database) -> None:
    team(db)
    one, other = (_served(db, SENIOR, _world(db, WORLDS[0], label)) for label in ("unsafe", "safe"))
    assert one == other


def test_every_count_takes_what_waits_as_with_clinicians(db: Database) -> None:
    team(db)
    batch_id = _world(db, (S, U, H, S))
    known = confusion(db, SENIOR, batch_id)
    assert known == {("safe", "safe"): 1, ("unsafe", "safe"): 1, ("unsafe", "human_review"): 3,
                     ("safe", "unsafe"): 1, ("safe", "human_review"): 1}  # fmt: skip
    accepted = {("safe", "safe"): 3, ("safe", "human_review"): 2, ("unsafe", "unsafe"): 1}
    accepted |= {("unsafe", "human_review"): 2}
    assert confusion(db, SENIOR, batch_id, "adjudicated") == accepted, "Helen agreed with the engine"
    assert (count_unread(db, SENIOR, batch_id), count_unread(db, SENIOR, batch_id, "b")) == (3, 2)
    page = cell_page(db, SENIOR, Cell(batch_id=batch_id, reference="unsafe", outcome="human_review"))
    assert (page.found, page.waiting) == (1, 2)
    found = progress(db, batch_id, actor=SENIOR)
    assert (found.safe, found.unsafe, found.human_review, found.pending) == (3, 1, 5, 0)


def test_who_reads_nothing_is_given_the_outcomes(db: Database) -> None:
    team(db)
    batch_id = _world(db, (S, U, H, S))
    known = confusion(db, RESEARCHER, batch_id)
    assert (known["unsafe", "unsafe"], known["unsafe", "human_review"], known["safe", "safe"]) == (1, 2, 2)
    assert count_unread(db, RESEARCHER, batch_id) == 0
    assert outcomes_now(db, RESEARCHER, batch_id) == (S, S, H, U, S, S, U, H, S)
    assert outcomes_now(db, SENIOR, batch_id) == (S, S, H, U, S, H, H, H, H), "what she may yet read"
    for who in (SYSTEM, RESEARCHER):
        found = progress(db, batch_id, actor=who)
        assert (found.safe, found.unsafe, found.human_review) == (5, 2, 2)


def test_whoever_has_read_a_case_counts_it_as_it_ended(db: Database) -> None:
    team(db)
    batch_id = _world(db, (S, U, H, S))
    _read(db, SENIOR, _ids(db, batch_id)[-OPEN + 1], "safe", certainty=1)  # unsure: a second reader is due
    assert confusion(db, SENIOR, batch_id)["unsafe", "unsafe"] == 1
    assert progress(db, batch_id, actor=SENIOR).unsafe == 2
    assert progress(db, batch_id, actor=ALL_ROLES).unsafe == 1


def _one(db: Database, outcome: Outcome, audit_rate: float = 0.0) -> tuple[str, str]:
    batch_id = batch(db, ["a text"], references="S", audit_rate=audit_rate)
    (case_id,) = waiting(db)
    decide(db, case_id, outcome)
    return batch_id, case_id


@pytest.mark.parametrize(("outcome", "audit_rate"), [(S, 1.0), (U, 1.0), (H, 0.0), (H, 1.0)])
def test_a_case_that_was_in_the_inbox_from_the_start_is_read_blind_by_a_senior(
    db: Database, outcome: Outcome, audit_rate: float
) -> None:
    _, case_id = _one(db, outcome, audit_rate)
    _read(db, SENIOR, case_id, "safe")
    mine = my_rating(db, SENIOR, case_id)
    assert mine is not None and mine.blind


@pytest.mark.parametrize(("who", "blind"), [(SENIOR, False), (LOCAL_USER, False), (ANN, True)], ids=["s", "l", "r"])
def test_who_may_have_seen_a_case_in_a_list_gives_a_second_look_that_is_not_blind(
    db: Database, who: Actor, blind: bool
) -> None:
    """Lists remember nobody; the moments are the same, so that no clock decides."""
    _, case_id = _one(db, S)
    assert request_second_looks(db, RESEARCHER.at(LATER), [case_id]).opened == 1
    _read(db, who, case_id, "safe")
    mine = my_rating(db, who, case_id)
    assert mine is not None and mine.blind is blind


@pytest.mark.parametrize(
    ("outcome", "reach", "blind"), [(U, Reach.READ, True), (U, Reach.COUNT, False), (S, Reach.READ, False)]
)
def test_only_what_is_called_unsafe_in_a_batch_whose_unsafe_are_read_was_in_no_list(
    db: Database, outcome: Outcome, reach: Reach, blind: bool
) -> None:
    batch(db, ["a text"], reach=reach)
    (case_id,) = waiting(db)
    decide(db, case_id, outcome)
    opened = request_second_looks(db, RESEARCHER.at(LATER), [case_id])
    assert opened.there_before == int(blind), "it waits for a reader from the start"
    _read(db, SENIOR, case_id, "safe")
    mine = my_rating(db, SENIOR, case_id)
    assert mine is not None and mine.blind is blind


@pytest.mark.parametrize(("who", "blind"), [(SENIOR, False), (BO, True)], ids=["senior", "reviewer"])
def test_a_case_opened_again_is_read_blind_by_those_whom_no_list_told_of_it(
    db: Database, who: Actor, blind: bool
) -> None:
    team(db)
    _, case_id = _one(db, H)
    _reopened(db, case_id)
    _read(db, who, case_id, "safe")
    mine = my_rating(db, who, case_id)
    assert mine is not None and mine.blind is blind


@pytest.mark.parametrize(("who", "blind"), [(SENIOR, False), (ANN, True)], ids=["senior", "reviewer"])
def test_a_reading_revised_by_who_may_see_results_is_not_blind(db: Database, who: Actor, blind: bool) -> None:
    """The case is open still, for a second reader; from its first one no list withholds it."""
    team(db)
    _, case_id = _one(db, H)
    _read(db, who, case_id, "safe", certainty=1)
    revise(db, who.at(LATER), case_id, form("safe", 2), "surer", new_id(LATER))
    mine = my_rating(db, who, case_id)
    assert mine is not None and mine.blind is blind


def _reopened(db: Database, case_id: str) -> None:
    """Closed as unsafe by Ann, who then changes her mind: softened, so a second reader is due."""
    _read(db, ANN, case_id, "unsafe")
    revise(db, ANN.at(LATER), case_id, form("safe", 5), "looked again", new_id(LATER))


def test_a_label_taken_back_stands_nowhere_until_it_is_decided_again(db: Database) -> None:
    team(db)
    batch_id, case_id = _one(db, H)
    _reopened(db, case_id)
    for who in (SENIOR, RESEARCHER, replace(ALL_ROLES, id=ANN.id)):  # the last one has read it: nothing is withheld
        assert (
            confusion(db, who, batch_id, "adjudicated") == confusion(db, who, batch_id) == {("safe", "human_review"): 1}
        )
        assert adjudicated_labels(db, who, batch_id) == {}
        cell = Cell(batch_id=batch_id, reference="unsafe", outcome="human_review", labels="adjudicated")
        assert cell_page(db, who, cell).waiting == 0
    own = replace(ALL_ROLES, id=ANN.id)
    (row,) = export_relabelled(db, own.at(LATER), batch_id, "key")
    assert (row.withheld, row.adjudicated_label, row.final_label, row.final_source) == (
        False,
        None,
        "safe",
        "reference",
    )
    here = Cell(batch_id=batch_id, reference="safe", outcome="human_review")
    assert [case.adjudicated for case in cell_page(db, own, here).cases] == [False]
    _read(db, BO, case_id, "safe")
    assert adjudicated_labels(db, SENIOR, batch_id) == {}, "Ann's first word was another"
    adjudicate(db, SENIOR.at(LATER), case_id, RatingLabel.SAFE, "a quotation")
    assert adjudicated_labels(db, SENIOR, batch_id) == {case_id: RatingLabel.SAFE}
    (row,) = export_relabelled(db, own.at(LATER), batch_id, "key")
    assert (row.adjudicated_label, row.final_source) == ("safe", "adjudicated")
    assert [one.outcome for one in results(db, SENIOR, batch_id)] != [IN_INBOX]


@pytest.mark.parametrize("outcome", [S, U, H])
def test_what_a_batch_of_one_row_cost_tells_nothing_of_how_it_ended(db: Database, outcome: Outcome) -> None:
    """The number of calls alone would: a clear unsafe takes fewer than a clear safe."""
    batch_id, case_id = _one(db, outcome, audit_rate=1.0)
    shown = progress(db, batch_id, actor=SENIOR)
    assert (shown.calls, shown.cost_usd, shown.human_review, shown.left_out) == (0, 0.0, 1, 1)
    assert progress(db, batch_id, actor=RESEARCHER).calls == progress(db, batch_id).calls == 6
    _read(db, SENIOR, case_id, "safe")
    assert progress(db, batch_id, actor=SENIOR).calls == 6


def test_a_cap_is_reached_also_for_those_from_whom_the_calls_are_withheld(db: Database) -> None:
    batch_id = batch(db, ["one", "two"], audit_rate=1.0)
    change_caps(db, LOCAL_USER.at(NOW), batch_id, Caps(max_calls=6))
    decide(db, waiting(db)[0], S)
    found = progress(db, batch_id, actor=SENIOR)
    assert (found.state, found.calls, found.left_out) == (BatchState.CAPPED, 0, 1)
