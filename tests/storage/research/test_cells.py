"""The cases behind a number: every filter, tag and remark, the gap, and what is kept from who has yet to read."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import insert

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.pipeline.engine import Reason
from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.policy import Forbidden
from screening.text.received import receive
from storage.batches.intake import add_rows
from storage.database import Database
from storage.research.cells import (
    TAG_LIMIT,
    add_remark,
    add_tag,
    cell_choices,
    cell_page,
    confusions,
    control_cases,
    groups,
    remarks,
    remove_tag,
    reveal_text_starts,
    tag_counts,
)
from storage.research.listed import MOST_LISTED, Cell
from storage.review.worklist import request_second_looks
from storage.schema import adjudications
from tests.databases import write
from tests.storage.batch_of import NOW, batch, commit, commit_run, decide, run, screening, waiting
from tests.storage.inbox_cases import RESEARCHER, SENIOR, person

TEXTS = [f"text number {number}" for number in range(5)]
REVIEWER = Actor(id="rev", name="Rev", roles=frozenset({Role.REVIEWER}))


def _ids(db: Database, cell: Cell) -> list[str]:
    return [case.external_id for case in cell_page(db, SENIOR.at(NOW), cell).cases]


def _missed(db: Database, codes: str, node: str = "worker", row: int = 0) -> str:
    """A case taken to safe by these draws."""
    case_id = waiting(db)[row]
    made = run(codes, Label.SAFE, node)
    commit_run(db, case_id, 0, made)
    commit(db, case_id, screening(Outcome.SAFE, made, node=node))
    return case_id


def test_every_case_of_a_cell_is_on_one_of_its_pages(db: Database) -> None:
    batch_id = batch(db, TEXTS, references="UUUU-")
    for case_id in waiting(db):
        decide(db, case_id)
    cell = Cell(batch_id=batch_id, reference="unsafe", outcome="safe")
    pages = [cell_page(db, LOCAL_USER.at(NOW), cell, limit=3, offset=offset) for offset in (0, 3)]
    assert [case.row for page in pages for case in page.cases] == [1, 2, 3, 4]
    assert {page.found for page in pages} == {4} == {confusions(db, LOCAL_USER, batch_id).original["unsafe", "safe"]}


@pytest.mark.parametrize(
    ("codes", "gap"), [("SSSSSS", 1.0), ("SSSUUE", 1 / 6), ("SSS?!E", 0.0), ("SSSSUU", 1 / 3), ("SSEEUU", 0.0)]
)
def test_the_gap_is_how_far_the_first_answer_lies_ahead_of_the_second(db: Database, codes: str, gap: float) -> None:
    batch_id = batch(db, TEXTS[:1], references="U")
    _missed(db, codes)
    cell = Cell(batch_id=batch_id, reference="unsafe", outcome="safe")
    assert cell_page(db, LOCAL_USER.at(NOW), cell).cases[0].gap == pytest.approx(gap)
    assert _ids(db, replace(cell, gap_at_most=gap + 0.01)) == ["p1"]
    assert _ids(db, replace(cell, gap_at_most=gap - 0.01)) == []


def test_node_reason_and_source_narrow_the_cell(db: Database) -> None:
    batch_id = batch(db, TEXTS[:3], references="UUS")
    _missed(db, "SSSSSS")
    _missed(db, "SSSSSS", node="risk")
    missed = _missed(db, "SSSSSS")
    fields = {"method": "senior", "by": "s", "reason": None, "review_ids": [], "at": NOW}
    write(db, insert(adjudications).values(case_id=missed, version=1, label="unsafe", **fields))
    cell = Cell(batch_id=batch_id, reference="unsafe", outcome="safe", labels="adjudicated")
    assert _ids(db, cell) == ["p1", "p2", "p3"]
    assert _ids(db, replace(cell, labels="original")) == ["p1", "p2"]
    assert _ids(db, replace(cell, node="risk")) == ["p2"]
    assert _ids(db, replace(cell, reason=Reason.EXHAUSTED.value)) == []
    assert (_ids(db, replace(cell, source="adjudicated")), _ids(db, replace(cell, source="file"))) == (
        ["p3"],
        ["p1", "p2"],
    )
    assert cell_choices(db, LOCAL_USER, cell) == {"node": ("risk", "worker"), "reason": ("identified",), "tag": ()}


def test_a_way_is_kept_by_those_who_took_it_and_tells_nothing_of_what_waits(db: Database) -> None:
    batch_id = batch(db, TEXTS[:4])
    for case_id, outcome in zip(
        sorted(waiting(db)), (Outcome.UNSAFE, Outcome.SAFE, Outcome.HUMAN_REVIEW), strict=False
    ):
        worker = run("EEEEEE", None if outcome is Outcome.SAFE else Label.ESCALATE)
        risk = run("UUUUUU", Label.UNSAFE if outcome is Outcome.UNSAFE else Label.SAFE, "risk")
        commit_run(db, case_id, 0, worker)
        commit_run(db, case_id, 1, risk)
        commit(db, case_id, screening(outcome, worker, risk, node="risk"))
    page = cell_page(db, SENIOR.at(NOW), Cell(batch_id=batch_id))
    everything = {case.external_id: case.outcome for case in page.cases}
    by_outcome = {outcome: name for name, outcome in everything.items()}
    escalated, given_up = Cell(batch_id=batch_id, way=("worker", Label.ESCALATE)), ("worker", None)
    assert _ids(db, escalated) == [by_outcome["unsafe"]]  # the third took it too, and waits to be read
    assert _ids(db, replace(escalated, way=given_up)) == [by_outcome["safe"]]
    assert _ids(db, replace(escalated, way=("legal", Label.ESCALATE))) == []
    assert everything[by_outcome["in review"]] == "in review" and len(everything) == 4


@pytest.mark.parametrize("most", [1, MOST_LISTED])
def test_a_way_and_a_gap_are_found_alike_among_few_and_among_many(
    db: Database, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("storage.research.listed.MOST_LISTED", most)  # with more than 1 no list is a short one
    batch_id = batch(db, TEXTS[:4])
    worker, risk = run("EEEEES", Label.ESCALATE), run("UUUUUU", Label.UNSAFE, "risk")
    for case_id in waiting(db):
        commit_run(db, case_id, 0, worker)
        commit_run(db, case_id, 1, risk)
        commit(db, case_id, screening(Outcome.UNSAFE, worker, risk, node="risk"))
    other = batch(db, TEXTS[:1])
    (begun,) = waiting(db)
    commit_run(db, begun, 0, worker)
    escalated = Cell(batch_id=batch_id, way=("worker", Label.ESCALATE))
    for cell in (escalated, replace(escalated, gap_at_most=1.0), Cell(batch_id=batch_id, gap_at_most=1.0)):
        found = cell_page(db, LOCAL_USER.at(NOW), cell).ids
        assert len(found) == min(most + 1, 4) and begun not in found
    assert cell_page(db, LOCAL_USER.at(NOW), replace(escalated, gap_at_most=0.0)).ids == ()
    assert cell_page(db, LOCAL_USER.at(NOW), replace(escalated, batch_id=other)).ids == (begun,)


def _grouped(db: Database, groups: Sequence[str | None]) -> str:
    """A batch with a case a group, all safe by the file's label."""
    batch_id = batch(db, closed=False)
    rows = [
        NewCase(row=row, external_id=f"p{row}", text=receive("quiet"), reference=Label.SAFE, group=group)
        for row, group in enumerate(groups, start=1)
    ]
    add_rows(db, batch_id, rows, NOW)
    return batch_id


def test_groups_narrow_both_the_matrix_and_the_cell(db: Database) -> None:
    batch_id = _grouped(db, ["b", "a", "b", None])
    assert groups(db, LOCAL_USER, batch_id) == ("a", "b")
    assert confusions(db, LOCAL_USER, batch_id, "b").original == {("safe", "pending"): 2}
    assert _ids(db, Cell(batch_id=batch_id, reference="safe", outcome="pending", group="b")) == ["p1", "p3"]


def test_what_clinicians_accepted_beats_the_files_label_in_a_group_as_in_the_batch(db: Database) -> None:
    batch_id = _grouped(db, ["a", "a"])
    missed, right = waiting(db)
    for case_id in (missed, right):
        decide(db, case_id)
    fields = {"method": "senior", "by": "s", "reason": None, "review_ids": [], "at": NOW}
    write(db, insert(adjudications).values(case_id=missed, version=1, label="unsafe", **fields))
    for group in (None, "a"):
        assert confusions(db, LOCAL_USER, batch_id, group).original == {("safe", "safe"): 2}
        accepted = {("safe", "safe"): 1, ("unsafe", "safe"): 1}
        assert confusions(db, LOCAL_USER, batch_id, group).adjudicated == accepted, group


def test_of_hidden_cases_a_list_by_outcome_says_how_many_there_are(db: Database) -> None:
    batch_id = batch(db, TEXTS[:3], references="UUU", audit_rate=1.0)
    for case_id, outcome in zip(waiting(db), (Outcome.SAFE, Outcome.SAFE, Outcome.UNSAFE), strict=True):
        decide(db, case_id, outcome)
    cell = Cell(batch_id=batch_id, reference="unsafe", outcome="safe")
    for who, found, hidden in ((SENIOR, 0, 2), (RESEARCHER, 2, 0)):
        page = cell_page(db, who.at(NOW), cell)
        assert (len(page.cases), page.found, page.hidden) == (found, found, hidden)
        assert cell_choices(db, who, cell)["node"] == ("worker",)


def test_reviewers_see_neither_cells_nor_texts_of_others(db: Database) -> None:
    batch_id = batch(db, TEXTS)
    telling = [Cell(batch_id=batch_id, reference="safe"), Cell(batch_id=batch_id, tag="odd"), Cell(batch_id="")]
    telling += [Cell(batch_id=batch_id, way=("worker", None)), Cell(batch_id=batch_id, source="file")]
    telling += [Cell(batch_id=batch_id, outcome=one) for one in ("safe", "pending", "in review")]
    telling += [Cell(batch_id=batch_id, sort=one) for one in ("calls", "cost", "gap", "value")]
    telling += [Cell(batch_id=batch_id, ids=()), Cell(batch_id=batch_id, gap_at_most=0.5)]
    for cell in telling:
        with pytest.raises(Forbidden):
            cell_page(db, REVIEWER.at(NOW), cell)
    for ask in (
        lambda: cell_choices(db, REVIEWER, Cell(batch_id=batch_id)),
        lambda: reveal_text_starts(db, REVIEWER.at(NOW), waiting(db)),
    ):
        with pytest.raises(Forbidden):
            ask()


def test_who_may_not_see_outcomes_gets_the_same_list_whatever_becomes_of_the_cases(db: Database) -> None:
    batch_id = batch(db, TEXTS, references="UUSS-", audit_rate=0.5)
    case_ids, lists = waiting(db), []

    def look() -> None:
        lists.append(cell_page(db, REVIEWER.at(NOW), Cell(batch_id=batch_id, sort="id")))

    look()
    for case_id, outcome in zip(case_ids, (*Outcome, Outcome.SAFE), strict=False):
        decide(db, case_id, outcome)
        look()
    add_tag(db, RESEARCHER.at(NOW), case_ids[0], "odd")
    request_second_looks(db, RESEARCHER.at(NOW), case_ids[:4])
    look()
    assert [case.external_id for case in lists[0].cases] == ["p1", "p2", "p3", "p4", "p5"]
    assert all(each == lists[0] for each in lists)


def test_controls_of_a_list_found_otherwise_come_from_all_that_its_batches_decided(db: Database) -> None:
    batch(db, TEXTS, references="UUSS-")
    case_ids = waiting(db)
    for case_id, outcome in zip(case_ids, (Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW), strict=False):
        decide(db, case_id, outcome)
    found = control_cases(db, RESEARCHER, Cell(batch_id="", ids=(case_ids[0],)), case_ids[:1], 5, "seed")
    assert set(found) == {case_ids[1]}  # p3 is in the queue, p4 and p5 are not screened


def test_a_list_of_all_cases_is_searched_sorted_and_tells_nothing_of_what_waits(db: Database) -> None:
    batch_id = batch(db, TEXTS, references="UUSS-")
    _missed(db, "SSSSSS")
    _missed(db, "SSSUUE")
    _missed(db, "SSS")
    decide(db, waiting(db)[0], Outcome.HUMAN_REVIEW)
    everything = Cell(batch_id=batch_id)
    page = cell_page(db, SENIOR.at(NOW), everything)
    assert [case.outcome for case in page.cases] == ["safe", "safe", "safe", "in review", "pending"]
    waits = page.cases[3]
    assert (waits.hidden, waits.node, waits.reason, waits.calls, waits.cost_usd, waits.gap) == (True, *[None] * 5)
    assert _ids(db, replace(everything, sort="calls")) == ["p3", "p1", "p2", "p5", "p4"]
    assert _ids(db, replace(everything, sort="gap", descending=True)) == ["p1", "p3", "p2", "p5", "p4"]
    assert _ids(db, replace(everything, search="p4")) == ["p4"] == _ids(db, replace(everything, search="4"))
    assert _ids(db, replace(everything, search="p")) == ["p1", "p2", "p3", "p4", "p5"]
    assert _ids(db, replace(everything, search="%")) == []
    assert _ids(db, replace(everything, outcome="in review")) == ["p4"]
    assert _ids(db, replace(everything, outcome="safe", reference="unsafe")) == ["p1", "p2"]
    second = cell_page(db, SENIOR.at(NOW), everything, limit=2, offset=2)
    assert ([case.external_id for case in second.cases], second.found, second.more) == (["p3", "p4"], 5, False)
    assert [case.case_id for case in page.cases] == list(second.ids)


def test_a_list_longer_than_can_be_counted_is_cut_in_the_files_order(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.research.listed.MOST_LISTED", 2)
    monkeypatch.setattr("storage.research.cells.MOST_LISTED", 2)
    batch_id = batch(db, TEXTS, references="SUSUS")
    for outcome in (Outcome.SAFE, Outcome.UNSAFE, Outcome.SAFE, Outcome.SAFE):
        decide(db, waiting(db)[0], outcome)
    for wanted, rows, more in (
        (Cell(batch_id=batch_id), [1, 2], True),
        (Cell(batch_id=batch_id, outcome="safe"), [1, 3], True),
        (Cell(batch_id=batch_id, node="worker", sort="calls"), [1, 2], True),
        (Cell(batch_id=batch_id, outcome="safe", reference="unsafe", gap_at_most=1), [4], False),
        (Cell(batch_id=batch_id, outcome="pending"), [5], False),
        (Cell(batch_id=batch_id, search="p"), [1, 2], True),
        (Cell(batch_id=batch_id, search="p4"), [4], False),
    ):
        page = cell_page(db, LOCAL_USER.at(NOW), wanted)
        assert ([case.row for case in page.cases], page.more) == (rows, more), wanted


REVIEWER = person("rita")


def test_tags_are_kept_once_counted_filtered_by_and_taken_away(db: Database) -> None:
    batch_id = batch(db, ["a quiet day", "a long walk", "a cup of tea"])
    first, second, third = waiting(db)
    for case_id in (first, second, third):
        decide(db, case_id, Outcome.SAFE)
    for case_id, words in (
        (first, " Song  Lyrics"),
        (first, "song lyrics"),
        (second, "song lyrics"),
        (first, "sarcasm"),
    ):
        add_tag(db, RESEARCHER.at(NOW), case_id, words)
    assert dict(tag_counts(db, RESEARCHER, batch_id)) == {"song lyrics": 2, "sarcasm": 1}
    listed = cell_page(db, RESEARCHER.at(NOW), Cell(batch_id=batch_id, tag="song lyrics"))
    assert [case.tags for case in listed.cases] == [("sarcasm", "song lyrics"), ("song lyrics",)]
    assert cell_choices(db, RESEARCHER, Cell(batch_id=batch_id))["tag"] == ("sarcasm", "song lyrics")
    remove_tag(db, RESEARCHER.at(NOW), first, "song lyrics")
    assert dict(tag_counts(db, RESEARCHER, batch_id)) == {"sarcasm": 1, "song lyrics": 1}


def test_a_case_is_noted_in_review_or_not_by_those_who_may_see_outcomes(db: Database) -> None:
    batch(db, ["a quiet day"])
    (case_id,) = waiting(db)
    decide(db, case_id, Outcome.HUMAN_REVIEW)
    add_tag(db, LOCAL_USER.at(NOW), case_id, "lyrics")
    for words in ("reads like lyrics", " second "):
        add_remark(db, LOCAL_USER.at(NOW), case_id, words)
    assert [one.remark for one in remarks(db, LOCAL_USER, case_id)] == ["reads like lyrics", "second"]
    for wrong in ("", " ", "x" * 4_001):
        with pytest.raises(ValueError, match="a remark has"):
            add_remark(db, RESEARCHER.at(NOW), case_id, wrong)
    for wrong in ("", "  ", "x" * (TAG_LIMIT + 1), "a\u202eb"):
        with pytest.raises(ValueError, match="a tag has"):
            add_tag(db, RESEARCHER.at(NOW), case_id, wrong)
    with pytest.raises(Forbidden):
        add_tag(db, REVIEWER.at(NOW), case_id, "lyrics")
    with pytest.raises(KeyError):
        add_tag(db, RESEARCHER.at(NOW), "nothing", "lyrics")
