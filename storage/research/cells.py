"""Original labels against outcomes: how many cases of each; and the cases behind a number, or all of a batch:
filtered, sorted, a page at a time, without their texts.

Three ways lead to the cases of a list, each flat in the rows of its batch. Where few cases can be meant (those of a
tag, of a small group, with such an id, on a rare way through the pipeline, with so narrow a gap, accepted by people)
these are looked up and tried. Where something of the AI is asked for, the kinds that have it, or the runs, are read
in the file's order, each from an index. All else is read in the file's order until the list is full.

Where a person hides the outcomes of cases in review (`storage.visibility`), those are listed with nothing of the AI,
are left out of a list that is narrowed by it, and sort behind all others. Otherwise what a page shows of them is
written down.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, exists, func, or_, select, true, union_all

from screening.labels import Label
from screening.pipeline.engine import MAIN
from screening.review.policy import Acting, Action, Actor, is_allowed, require
from storage.batches.counts import IN_REVIEW, PENDING, Kind, kinds
from storage.batches.results import Result, read_results
from storage.database import Database, begins
from storage.schema import case_tags, cases, inbox_entries, node_runs, pending_cases, screenings
from storage.visibility import accepted_labels, hidden_from, is_accepted, is_in_review, record_shown

MOST_LISTED = 10_000
"""Cases of a list that are counted, paged and sorted; beyond that it is narrowed or read in the file's order."""

Labels = Literal["original", "adjudicated"]
Sort = Literal["row", "calls", "cost", "gap", "value", "group", "id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Which cases of a batch: a cell of its matrix, an outcome, or what else they must share. None asks for nothing.

    ``outcome`` is an outcome, ``pending``, or ``in review`` for the cases that are open in the inbox.
    ``gap_at_most`` keeps the cases whose deciding agent was this much in two minds; ``source`` says where the reference
    is from; ``search`` is the beginning of an id or group, or the number of a row.
    ``way`` keeps the cases to which this agent gave this label, None for those that it did not settle, wherever they
    ended.
    ``ids`` are the cases themselves, `MOST_LISTED` at most, where a page has found them otherwise; with an empty
    ``batch_id`` they are of any batch.
    """

    batch_id: str
    reference: str | None = None
    outcome: str | None = None
    labels: Labels = "original"
    node: str | None = None
    way: tuple[str, Label | None] | None = None
    reason: str | None = None
    group: str | None = None
    gap_at_most: float | None = None
    source: Literal["file", "adjudicated"] | None = None
    tag: str | None = None
    search: str | None = None
    ids: tuple[str, ...] | None = None
    sort: Sort = "row"
    descending: bool = False


def listed_ids(conn: Connection, wanted: Cell) -> tuple[str, ...]:
    """The ids of the list in its order, one more than `MOST_LISTED` at most; so many are in the file's order."""
    if wanted.reference is not None and wanted.labels == "adjudicated":
        found = _find_by_accepted_label(conn, wanted)
    else:
        found = _find(conn, wanted)
    ids = tuple(case_id for _, case_id in found)
    if wanted.sort == "row" or len(ids) > MOST_LISTED:
        return ids
    ended = screenings.c
    values: dict[Sort, ColumnElement[Any]] = {
        "value": cases.c.reference_value, "group": cases.c.group_name, "id": cases.c.external_id,
        "calls": ended.calls, "cost": ended.cost_usd, "gap": ended.gap,
    }  # fmt: skip
    value = values[wanted.sort]
    ordered = select(_CASE).outerjoin(screenings, ended.case_id == _CASE).where(_CASE.in_(ids))
    order = (value.is_(None), value.desc() if wanted.descending else value, cases.c.row)
    return tuple(conn.execute(ordered.order_by(*order)).scalars())


_CASE = cases.c.id


def _find_by_accepted_label(conn: Connection, wanted: Cell) -> list[tuple[int, str]]:
    """Those whose label in the file nobody replaced, and those with such an accepted one."""
    by_file = _find(conn, replace(wanted, labels="original"), ~is_accepted(_CASE))
    latest = accepted_labels(wanted.batch_id).subquery().c
    accepted = conn.execute(select(latest.case_id).where(latest.label == wanted.reference)).scalars().all()
    given = set(accepted if wanted.ids is None else wanted.ids)
    chosen = tuple(case_id for case_id in accepted if case_id in given)[:MOST_LISTED]
    by_people = _find(conn, replace(wanted, labels="original", reference=None, ids=chosen))
    return sorted({*by_file, *by_people}, reverse=_backwards(wanted))[: MOST_LISTED + 1]


def _find(conn: Connection, wanted: Cell, *more: ColumnElement[bool]) -> list[tuple[int, str]]:
    """The rows and ids in the file's order."""
    asked = list(_filters(conn, wanted))
    few = _few(conn, [queries for _, queries in asked if queries])
    if few is not None:
        parts = [_among(wanted, few)]
    elif wanted.outcome == PENDING:  # no agent has ended it, for whatever reason
        parts = [] if _asks_how_it_ended(wanted) else [_along(wanted, pending_cases)]
    elif _asks_of_ai(wanted):
        chosen = (kind for kind in kinds(conn, wanted.batch_id) if _is_of(kind, wanted))
        parts = [_along(wanted, screenings, screenings.c.kind == kind.key) for kind in chosen]
    elif wanted.way is not None:
        parts = [_along(wanted, node_runs, *_is_way(node_runs.c, *wanted.way))]
    else:
        parts = [_along(wanted, cases)]
    conditions = [*(condition for condition, _ in asked), *more]
    each = (select(part.where(*conditions).subquery()) for part in parts)
    rows = conn.execute(union_all(*each)) if parts else ()
    return sorted({(int(row), case_id) for row, case_id in rows}, reverse=_backwards(wanted))[: MOST_LISTED + 1]


def _backwards(wanted: Cell) -> bool:
    return wanted.sort == "row" and wanted.descending


def _asks_how_it_ended(wanted: Cell) -> bool:
    return any(each is not None for each in (wanted.node, wanted.reason, wanted.gap_at_most))


def _asks_of_ai(wanted: Cell) -> bool:
    return wanted.outcome not in (None, IN_REVIEW) or _asks_how_it_ended(wanted)


def _is_of(kind: Kind, wanted: Cell) -> bool:
    outcome = None if wanted.outcome == IN_REVIEW else wanted.outcome
    asked = (outcome, wanted.reference, wanted.node, wanted.reason)
    told = (kind.outcome, kind.reference, kind.node, kind.reason)
    return kind.outcome != PENDING and all(one in (None, its) for one, its in zip(asked, told, strict=True))


def _along(wanted: Cell, table: Table, *which: ColumnElement[bool]) -> Select[Any]:
    """The first cases of a batch along an index of a table that has their rows."""
    its = table.c
    query = select(its.row, _CASE)
    if table is not cases:
        query = query.join(cases, its.case_id == _CASE)
    row = its.row.desc() if _backwards(wanted) else its.row
    return query.where(its.batch_id == wanted.batch_id, *which).order_by(row).limit(MOST_LISTED + 1)


def _among(wanted: Cell, few: Sequence[str]) -> Select[Any]:
    """Those of these cases: looked up by their ids, never by their batch."""
    ended = screenings.c
    query = select(cases.c.row, _CASE).outerjoin(screenings, ended.case_id == _CASE).where(_CASE.in_(few))
    if wanted.outcome == PENDING:
        return query.where(ended.case_id.is_(None))
    return query if wanted.outcome in (None, IN_REVIEW) else query.where(ended.outcome == wanted.outcome)


def _filters(conn: Connection, wanted: Cell) -> Iterator[tuple[ColumnElement[bool], list[Select[Any]]]]:
    """What is asked for, thing by thing: what each case of the list must have beside its kind, and who may have it, by
    queries that each begin from an index of their own; none where too many cases may.
    """
    of_batch = select(_CASE).where(cases.c.batch_id == wanted.batch_id)
    if wanted.ids is not None:
        chosen = select(_CASE, cases.c.batch_id).where(_CASE.in_(wanted.ids[:MOST_LISTED])).subquery().c
        yield true(), [select(chosen.id).where(chosen.batch_id == wanted.batch_id if wanted.batch_id else true())]
    if wanted.tag is not None:
        its, tagged = case_tags.c.case_id, case_tags.c.tag == wanted.tag
        yield _CASE.in_(select(its).where(tagged)), [of_batch.join(case_tags, its == _CASE).where(tagged)]
    if wanted.way is not None:
        run, taken = node_runs.c, node_runs.alias().c
        few = select(run.case_id.label("id")).where(run.batch_id == wanted.batch_id, *_is_way(run, *wanted.way))
        yield exists().where(taken.case_id == _CASE, *_is_way(taken, *wanted.way)), [few]
    if wanted.gap_at_most is not None:
        ended, close = screenings.c, screenings.c.gap <= wanted.gap_at_most
        yield close, [select(ended.case_id.label("id")).where(ended.batch_id == wanted.batch_id, close)]
    if wanted.search:
        words = wanted.search.strip()
        number = words.isascii() and words.isdigit() and len(words) < 16
        named = [begins(conn, column, words) for column in (cases.c.external_id, cases.c.group_name)]
        named += [cases.c.row == int(words)] if number else []
        yield or_(*named), [of_batch.where(one) for one in named]
    if wanted.group is not None:
        of_group = cases.c.group_name == wanted.group
        yield of_group, [of_batch.where(of_group)]
    if wanted.source == "file":
        yield ~is_accepted(_CASE), []
    if wanted.source == "adjudicated":
        yield is_accepted(_CASE), [select(accepted_labels(wanted.batch_id).subquery().c.case_id.label("id"))]
    if wanted.outcome == IN_REVIEW:
        entry = inbox_entries.c
        open_now = (entry.batch_id == wanted.batch_id, entry.closed_at.is_(None))
        yield is_in_review(_CASE), [select(entry.case_id.label("id")).where(*open_now)]
    columns = {cases.c.reference: wanted.reference, screenings.c.node: wanted.node, screenings.c.reason: wanted.reason}
    yield and_(true(), *(column == value for column, value in columns.items() if value is not None)), []


def _is_way(run: Any, node: str, label: Label | None) -> tuple[ColumnElement[bool], ...]:
    return run.node == node, run.variant == MAIN, run.label == label


def _few(conn: Connection, candidates: Sequence[Sequence[Select[Any]]]) -> tuple[str, ...] | None:
    """The cases among which the list must lie, where something that is asked for leaves no more than `MOST_LISTED`."""
    for queries in candidates:
        found = {row.id for query in queries for row in conn.execute(query.limit(MOST_LISTED + 1))}
        if len(found) <= MOST_LISTED:
            return tuple(sorted(found))
    return None


MOST_CHOICES = 200
_DECIDED = frozenset((Label.SAFE.value, Label.UNSAFE.value))
Counts = Mapping[tuple[str, str], int]
"""Cases by reference and outcome, or ``pending``; cells without a case are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusions:
    """The counts by the file's labels, and with those that clinicians accepted in the place of ``reviewed`` ones."""

    original: Counts
    adjudicated: Counts
    reviewed: int


def confusions(db: Database, actor: Actor, batch_id: str, group: str | None = None) -> Confusions:
    """Of a batch, read from its counts and so flat in its rows, or of one group, case by case. A label of insufficient
    information leaves a case without a reference: it is not among the adjudicated.
    """
    require(actor, Action.VIEW_RESULTS)
    outcome = func.coalesce(screenings.c.outcome, PENDING).label("outcome")

    def of_batch(*columns: Any) -> Select[Any]:
        query = select(cases.c.reference, outcome, *columns).select_from(cases)
        query = query.outerjoin(screenings, screenings.c.case_id == cases.c.id).where(cases.c.batch_id == batch_id)
        return query if group is None else query.where(cases.c.group_name == group)

    original, latest = Counter[tuple[str, str]](), accepted_labels(batch_id).subquery().c
    with db.read() as conn:
        if group is None:
            for kind, number in kinds(conn, batch_id).items():
                original[kind.reference or "", kind.outcome] += number
        else:
            counted = of_batch(func.count().label("n")).group_by(cases.c.reference, outcome)
            original.update({(row.reference or "", row.outcome): row.n for row in conn.execute(counted)})
        reviewed = conn.execute(of_batch(latest.label).join(latest.case_id.table, latest.case_id == cases.c.id)).all()
    adjudicated = Counter(original)
    for row in reviewed:
        adjudicated[row.reference or "", row.outcome] -= 1
        adjudicated[row.label, row.outcome] += 1
    return Confusions(original=_decidable(original), adjudicated=_decidable(adjudicated), reviewed=len(reviewed))


def _decidable(counts: Counts) -> Counts:
    return {cell: number for cell, number in counts.items() if number and cell[0] in _DECIDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPage:
    """One page, the ids of the whole list in its order, and how many there are: at most `MOST_LISTED`, and ``more``
    where there are others. ``hidden`` further ones are in review, and this person hides what became of those.
    """

    cases: tuple[Result, ...]
    ids: tuple[str, ...]
    hidden: int
    more: bool = False

    @property
    def found(self) -> int:
        return len(self.ids)


def cell_page(db: Database, by: Acting, wanted: Cell, limit: int = 50, offset: int = 0) -> CellPage:
    """The cases wanted, in the file's order where nothing else is asked for. What is shown of cases in review is
    written down. Who may not see outcomes gets those of a batch, or of a group, with nothing but their names.
    """
    outcomes = is_allowed(by.actor, Action.VIEW_RESULTS)
    if not outcomes:  # members, order and columns of the list tell nothing of outcomes, labels or the queue
        beside = replace(wanted, batch_id="", group=None, search=None, sort="row", descending=False)
        plain = wanted.batch_id and beside == Cell(batch_id="") and wanted.sort in ("row", "group", "id")
        require(by.actor, Action.VIEW_BATCHES if plain else Action.VIEW_RESULTS)
    with db.read() as conn:
        ids = listed_ids(conn, wanted)
        is_hidden = hidden_from(conn, by.actor, cases.c.id, None) if outcomes else true()
        hidden_ones = select(cases.c.id).where(cases.c.id.in_(ids), is_hidden).order_by(cases.c.row, cases.c.id)
        hidden = dict.fromkeys(conn.execute(hidden_ones).scalars() if outcomes else ())
        known = [case_id for case_id in ids if case_id not in hidden]
        asked = (wanted.way, wanted.source, wanted.tag, wanted.ids)
        tells = _asks_of_ai(wanted) or any(each is not None for each in asked)  # to be listed tells of a case
        left_out = len(hidden) if tells else 0
        if left_out or wanted.sort in ("calls", "cost", "gap"):
            ids = (*known, *(() if left_out else hidden))
        shown = ids[offset : min(offset + limit, MOST_LISTED)]
        found = _cases(conn, shown, is_hidden)
    if not outcomes:
        nothing = {"outcome": "", "reference": None, "reference_value": None, "accepted": None, "in_review": False}
        found = tuple(replace(case, **nothing) for case in found)  # type: ignore[arg-type]
    record_shown(db, by, [case.case_id for case in found if case.in_review and not case.hidden])
    return CellPage(cases=found, ids=ids[:MOST_LISTED], hidden=left_out, more=len(ids) > MOST_LISTED)


def listed_case(db: Database, by: Acting, case_id: str) -> Result | None:
    """One case as lists show it to this person; None for one there is not. Raises Forbidden."""
    require(by.actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        found = _cases(conn, [case_id], hidden_from(conn, by.actor, cases.c.id, None))
    record_shown(db, by, [case.case_id for case in found if case.in_review and not case.hidden])
    return found[0] if found else None


def cell_choices(db: Database, actor: Actor, wanted: Cell) -> Mapping[str, tuple[str, ...]]:
    """What a list can be filtered by: the values of ``node``, ``reason`` and ``tag`` among its cases; of a group or of
    accepted labels as far as its first cases tell. Raises Forbidden.
    """
    require(actor, Action.VIEW_RESULTS)
    unread = replace(wanted, node=None, way=None, reason=None, gap_at_most=None)
    bare = replace(unread, source=None, tag=None, search=None, sort="row")
    ended, tag = screenings.c, case_tags.c
    of_batch = func.coalesce(cases.c.batch_id, "") == bare.batch_id  # from what is tagged, not from the batch
    with db.read() as conn:

        def among(column: ColumnElement[str], which: ColumnElement[bool]) -> tuple[str, ...]:
            query = select(column).distinct().where(which, column.is_not(None)).order_by(column).limit(MOST_CHOICES)
            return tuple(conn.execute(query).scalars())

        if bare.group is None and bare.ids is None and (bare.reference is None or bare.labels == "original"):
            shown = [
                kind
                for kind in kinds(conn, bare.batch_id)
                if bare.outcome in (None, kind.outcome) and bare.reference in (None, kind.reference)
            ]
            return {
                "node": tuple(sorted({kind.node for kind in shown if kind.node is not None})),
                "reason": tuple(sorted({kind.reason for kind in shown if kind.reason is not None})),
                "tag": among(tag.tag, exists().where(cases.c.id == tag.case_id, of_batch)),
            }
        ids = listed_ids(conn, bare)
        of_list = ((ended.node, ended.case_id), (ended.reason, ended.case_id), (tag.tag, tag.case_id))
        return {column.name: among(column, case_id.in_(ids)) for column, case_id in of_list}


def groups(db: Database, actor: Actor, batch_id: str) -> tuple[str, ...]:
    """The groups of a batch, in order; empty where the file names none."""
    require(actor, Action.VIEW_BATCHES)
    name = cases.c.group_name
    query = select(name).distinct().where(cases.c.batch_id == batch_id, name.is_not(None)).order_by(name)
    return tuple(db.values(query.limit(MOST_CHOICES)))


def _cases(conn: Connection, ids: Sequence[str], hidden: ColumnElement[bool]) -> tuple[Result, ...]:
    found = {one.case_id: one for one in read_results(conn, hidden, cases.c.id.in_(ids))}
    return tuple(found[case_id] for case_id in ids if case_id in found)


def control_cases(
    db: Database, actor: Actor, cell: Cell, picked: Collection[str], number: int, seed: str
) -> Mapping[str, float]:
    """So many decided cases at random from the cells beside this one, of its original label or its outcome, that were
    not picked and never in the queue, each with its probability: beside them neither label nor outcome of a case tells
    why it was sent. None for those picked that are there already. Without an original label they are of the same
    outcome; fewer where there are no more. Raises Forbidden.
    """
    require(actor, Action.REQUEST_REVIEW)
    beside = [replace(cell, outcome=other.value) for other in Label if other.value in _DECIDED - {cell.outcome}]
    if cell.reference is not None:
        beside += [replace(cell, reference=other) for other in sorted(_DECIDED - {cell.reference})]
    else:
        beside = [cell]
    with db.read() as conn:
        if cell.ids is not None:  # of any batch, found otherwise: beside them stands whatever their batches decided
            of = conn.execute(select(cases.c.batch_id).distinct().where(cases.c.id.in_(picked))).scalars().all()
            beside = [Cell(batch_id=batch_id, outcome=outcome) for batch_id in of for outcome in _DECIDED]
        found = {case_id for each in beside for case_id in listed_ids(conn, each)}
        entered = select(inbox_entries.c.case_id).where(inbox_entries.c.case_id.in_(found.union(picked)))
        there = set(conn.execute(entered).scalars())
    pool, most = found.difference(picked, there), max(0, number - len(there.intersection(picked)))
    drawn = sorted(pool, key=lambda case_id: sha256(f"{seed} {case_id}".encode()).digest())[:most]
    return dict.fromkeys(drawn, len(drawn) / max(1, len(pool)))
