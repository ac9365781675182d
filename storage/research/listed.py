"""Which cases a list of results holds, each list flat in the rows of its batch.

Three ways lead to them. Where few cases can be meant (those of a tag, of a small group, with such an id, on a rare way
through the pipeline, with so narrow a gap, accepted by clinicians) these are looked up and tried. Where something of
the engine is asked for, the kinds that have it, or the runs, are read in the file's order, each from an index. All else
is read in the file's order until the list is full.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, false, or_, select, true, union_all

from screening.labels import Label
from screening.pipeline.engine import MAIN
from storage.batches.counts import IN_REVIEW, PENDING, Kind, kinds
from storage.database import begins
from storage.schema import case_tags, cases, inbox_entries, node_runs, pending_cases, screenings
from storage.visibility import accepted_labels, is_accepted, is_in_review

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


_Found = list[tuple[int, str]]


def tells_outcome(wanted: Cell) -> bool:
    """Whether to be on the list tells something of what became of a case, or of what was said of it."""
    asked = (wanted.way, wanted.source, wanted.tag, wanted.ids)
    return _asks_of_engine(wanted) or any(each is not None for each in asked)


def sorts_by_outcome(wanted: Cell) -> bool:
    """Whether the place on the list tells something of what became of a case."""
    return wanted.sort in ("calls", "cost", "gap")


def listed_ids(conn: Connection, wanted: Cell) -> tuple[str, ...]:
    """The ids of the list in its order, one more than `MOST_LISTED` at most; so many are in the file's order."""
    if wanted.reference is not None and wanted.labels == "adjudicated":
        found = _find_by_accepted_label(conn, wanted)
    else:
        found = _find(conn, wanted)
    ids = tuple(case_id for _, case_id in found)
    if wanted.sort == "row" or len(ids) > MOST_LISTED:
        return ids
    ordered = select(cases.c.id).outerjoin(screenings, screenings.c.case_id == cases.c.id).where(cases.c.id.in_(ids))
    return tuple(conn.execute(ordered.order_by(*_order(wanted))).scalars())


def _find_by_accepted_label(conn: Connection, wanted: Cell) -> _Found:
    """Those whose label in the file nobody replaced, and those with such an accepted one."""
    by_file = _find(conn, replace(wanted, labels="original"), ~is_accepted(_CASE))
    latest = accepted_labels(wanted.batch_id).subquery().c
    accepted = conn.execute(select(latest.case_id).where(latest.label == wanted.reference)).scalars().all()
    given = set(accepted if wanted.ids is None else wanted.ids)
    chosen = tuple(case_id for case_id in accepted if case_id in given)[:MOST_LISTED]
    by_people = _find(conn, replace(wanted, labels="original", reference=None, ids=chosen))
    return sorted({*by_file, *by_people}, reverse=_backwards(wanted))[: MOST_LISTED + 1]


_CASE = cases.c.id


def _find(conn: Connection, wanted: Cell, *more: ColumnElement[bool]) -> _Found:
    """The rows and ids in the file's order."""
    asked = list(_filters(conn, wanted))
    conditions = [*(condition for condition, _ in asked), *more]
    few = _few(conn, wanted, [queries for _, queries in asked if queries])
    if few is not None:
        query = _among(wanted, few, conditions)
    elif wanted.outcome == PENDING and (wanted.node is not None or wanted.reason is not None):
        return []  # no agent has ended it, for whatever reason
    elif wanted.outcome == PENDING:
        waits = pending_cases.c
        joined = select(waits.row, waits.case_id).join(cases, waits.case_id == _CASE)
        joined = joined.outerjoin(screenings, screenings.c.case_id == _CASE)
        query = _cut(joined.where(waits.batch_id == wanted.batch_id, *conditions), wanted, waits.row)
    elif _asks_of_engine(wanted):
        chosen = [kind for kind in kinds(conn, wanted.batch_id) if _is_of(kind, wanted)]
        if not chosen:
            return []
        query = _by_kind(wanted, chosen, conditions)
    elif wanted.way is not None:
        query = _by_way(wanted, *wanted.way, conditions)
    else:
        query = _cut(select(cases.c.row, _CASE).where(cases.c.batch_id == wanted.batch_id, *conditions), wanted)
    rows = sorted({(int(row), case_id) for row, case_id in conn.execute(query)}, reverse=_backwards(wanted))
    return rows[: MOST_LISTED + 1]


def _backwards(wanted: Cell) -> bool:
    return wanted.sort == "row" and wanted.descending


def _cut(query: Select[Any], wanted: Cell, row: ColumnElement[int] = cases.c.row) -> Select[Any]:
    return query.order_by(row.desc() if _backwards(wanted) else row).limit(MOST_LISTED + 1)


def _asks_of_engine(wanted: Cell) -> bool:
    named = (wanted.node, wanted.reason, wanted.gap_at_most)
    return wanted.outcome not in (None, IN_REVIEW) or any(each is not None for each in named)


def _is_of(kind: Kind, wanted: Cell) -> bool:
    asked = ("outcome", "reference", "node", "reason")
    hidden_by = (IN_REVIEW, None)
    return kind.outcome != PENDING and all(
        getattr(wanted, name) in (getattr(kind, name), None) or (name == "outcome" and wanted.outcome in hidden_by)
        for name in asked
    )


def _by_kind(wanted: Cell, chosen: Sequence[Kind], conditions: Sequence[ColumnElement[bool]]) -> Any:
    """The first of each kind, from the index by kind and row."""
    ended = screenings.c
    of_batch = select(ended.row, ended.case_id).join(cases, ended.case_id == _CASE)
    parts = [
        _cut(of_batch.where(ended.batch_id == wanted.batch_id, ended.kind == kind.key, *conditions), wanted, ended.row)
        for kind in chosen
    ]
    return union_all(*(select(part.subquery()) for part in parts))


def _among(wanted: Cell, few: Sequence[str], conditions: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """Those of these cases: looked up by their ids, never by their batch."""
    ended = screenings.c
    query = select(cases.c.row, _CASE).outerjoin(screenings, ended.case_id == _CASE).where(_CASE.in_(few), *conditions)
    if wanted.outcome == PENDING:
        return query.where(ended.case_id.is_(None))
    return query if wanted.outcome in (None, IN_REVIEW) else query.where(ended.outcome == wanted.outcome)


def _filters(conn: Connection, wanted: Cell) -> Iterator[tuple[ColumnElement[bool], list[Select[Any]]]]:
    """What is asked for, thing by thing: what each case of the list must have beside its kind, and who may have it, by
    queries that each begin from an index of their own; none where too many cases may.
    """
    of_batch = select(_CASE).where(cases.c.batch_id == wanted.batch_id)
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
        names = _names(conn, wanted.search.strip())
        yield or_(*names), [of_batch.where(named) for named in names]
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


def _by_way(wanted: Cell, node: str, label: Label | None, conditions: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """Those that took this way, from the index by way and row."""
    run = node_runs.c
    query = select(run.row, run.case_id).join(cases, run.case_id == _CASE)
    return _cut(query.where(run.batch_id == wanted.batch_id, *_is_way(run, node, label), *conditions), wanted, run.row)


def _few(conn: Connection, wanted: Cell, candidates: list[list[Select[Any]]]) -> tuple[str, ...] | None:
    """The cases among which the list must lie, where something that is asked for leaves no more than `MOST_LISTED`."""
    if wanted.ids is not None:
        chosen = select(_CASE, cases.c.batch_id).where(_CASE.in_(wanted.ids[:MOST_LISTED])).subquery().c
        of_batch = chosen.batch_id == wanted.batch_id if wanted.batch_id else true()
        candidates = [[select(chosen.id).where(of_batch)], *candidates]
    for queries in candidates:
        found = {row.id for query in queries for row in conn.execute(query.limit(MOST_LISTED + 1))}
        if len(found) <= MOST_LISTED:
            return tuple(sorted(found))
    return None


def _names(conn: Connection, words: str) -> tuple[ColumnElement[bool], ...]:
    """Three ways to be meant: as the number of a row, by the beginning of the id, or of the group."""
    row = cases.c.row == int(words) if words.isascii() and words.isdigit() and len(words) < 16 else false()
    return row, begins(conn, cases.c.external_id, words), begins(conn, cases.c.group_name, words)


def _order(wanted: Cell) -> list[ColumnElement[Any]]:
    ended = screenings.c
    values: dict[Sort, ColumnElement[Any]] = {
        "value": cases.c.reference_value, "group": cases.c.group_name, "id": cases.c.external_id,
        "calls": ended.calls, "cost": ended.cost_usd, "gap": ended.gap,
    }  # fmt: skip
    value = values[wanted.sort]
    return [value.is_(None), value.desc() if wanted.descending else value, cases.c.row]
