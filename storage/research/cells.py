"""The cases behind a number, or all of a batch: filtered, sorted, a page at a time, without their texts.

What a person may yet read blind is listed with nothing of the engine, passes no filter on it and sorts behind all
others: neither a filter, nor an order, nor a neighbour tells what became of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Float, Select, and_, case, cast, exists, false, func, null, or_, select

from screening.engine.screen import MAIN
from screening.labels import Label
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.accepted import accepted_label, is_accepted
from storage.audit_log import append
from storage.batches.results import IN_INBOX, PENDING
from storage.blindness import withheld
from storage.database import Database
from storage.research.confusion import Labels, outcome_now, reference_now
from storage.schema import case_tags, cases, inbox_entries, node_runs, screenings

MOST_CHOICES = 200
MOST_LISTED = 10_000
"""Cases of a list that are counted, paged and sorted; beyond that it is narrowed or read in the file's order."""

Sort = Literal["row", "calls", "cost", "gap", "value", "group", "id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Which cases of a batch: a cell of its matrix, an outcome, or what else they must share. None asks for nothing.

    ``outcome`` is an outcome, ``pending`` or ``in the inbox``. ``gap_at_most`` keeps the cases whose deciding agent
    was this much in two minds; ``source`` says where the reference is from; ``search`` is part of an id or group.
    ``way`` keeps the cases to which this agent gave this label, None for those that it did not settle, wherever they
    ended.
    ``ids`` are the cases themselves, `MOST_LISTED` at most, where a page has found them otherwise.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseInCell:
    """One case of a list. ``gap`` is how far the most frequent answer of the node that ended the case lay ahead of
    the second, as a share of its draws; None where no agent was asked. ``waits`` marks an open case that the person
    asking may yet read: its outcome is ``in the inbox``, and nothing else of the engine or of other readers is given.
    """

    case_id: str
    row: int
    external_id: str
    outcome: str
    node: str | None
    reason: str | None
    calls: int | None
    cost_usd: float | None
    group: str | None
    gap: float | None
    reference: str | None
    reference_value: str | None
    accepted: str | None
    waits: bool
    tags: tuple[str, ...] = ()

    @property
    def adjudicated(self) -> bool:
        """Whether clinicians accepted a label for it."""
        return self.accepted is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPage:
    """One page, the ids of the whole list in its order, and how many there are: at most `MOST_LISTED`, and ``more``
    where there are others. ``waiting`` cases of a chosen outcome are open and not read by this person, who is not
    served the engine's view of them before. For those who read, all of these wait in the cells of cases with
    clinicians, so that their number in a cell tells nothing.
    """

    cases: tuple[CaseInCell, ...]
    ids: tuple[str, ...]
    waiting: int
    more: bool = False

    @property
    def found(self) -> int:
        """How many are listed."""
        return len(self.ids)


def cell_page(db: Database, actor: Actor, wanted: Cell, limit: int = 50, offset: int = 0) -> CellPage:
    """The cases wanted, in the file's order where nothing else is asked for. Raises Forbidden."""
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        ids = tuple(conn.execute(_ids(replace(wanted, sort="row"), actor, MOST_LISTED + 1)).scalars())
        if wanted.sort != "row" and len(ids) <= MOST_LISTED:
            ids = tuple(conn.execute(_ids(wanted, actor, MOST_LISTED)).scalars())
        shown = ids[offset : min(offset + limit, MOST_LISTED)]
        rows = {row.case_id: row for row in conn.execute(_details(actor, shown))}
        tags: dict[str, list[str]] = {}
        for row in conn.execute(_tags_of(shown)):
            tags.setdefault(row.case_id, []).append(row.tag)
        waiting = 0 if wanted.outcome in (None, IN_INBOX) else _waiting(conn, wanted, actor)
    return CellPage(
        cases=tuple(_case_in_cell(rows[case_id], tags.get(case_id, ())) for case_id in shown),
        ids=ids[:MOST_LISTED],
        waiting=waiting,
        more=len(ids) > MOST_LISTED,
    )


def listed_case(db: Database, actor: Actor, case_id: str) -> CaseInCell | None:
    """One case as lists show it to this person; None for one there is not. Raises Forbidden."""
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        row = conn.execute(_details(actor, [case_id])).first()
        tags = [one.tag for one in conn.execute(_tags_of([case_id]))]
    return None if row is None else _case_in_cell(row, tags)


def texts_compared(
    db: Database, actor: Actor, case_ids: Sequence[str], now: datetime, characters: int = 4_000
) -> Mapping[str, str]:
    """The beginnings of texts, to be compared by the program and not shown; what waits for this person's reading is
    left out. One line in the audit log says how many. Raises Forbidden.
    """
    require(actor, Action.VIEW_TEXT)
    beginning = func.substr(cases.c.text, 1, characters).label("beginning")
    query = select(cases.c.id, beginning).where(cases.c.id.in_(case_ids), ~withheld(actor, cases.c.id))
    with db.write() as conn:
        found = {row.id: row.beginning for row in conn.execute(query.order_by(cases.c.row))}
        append(conn, actor, "texts_compared", None, {"cases": len(found)}, now)
    return found


def cell_choices(db: Database, actor: Actor, wanted: Cell) -> Mapping[str, tuple[str, ...]]:
    """What the shown cases of a list can be filtered by: the values of ``node``, ``reason`` and ``tag`` among them,
    as far as its first cases tell.
    """
    require(actor, Action.VIEW_RESULTS)
    unread = replace(wanted, node=None, way=None, reason=None, gap_at_most=None)
    bare = replace(unread, source=None, tag=None, search=None, sort="row")
    listed = _ids(bare, actor, MOST_LISTED).subquery()
    found: dict[str, tuple[str, ...]] = {}
    with db.read() as conn:
        for name in ("node", "reason"):
            column = screenings.c[name]
            query = select(column).distinct().where(screenings.c.case_id.in_(select(listed.c.case_id)))
            open_ones = query.where(column.is_not(None), ~withheld(actor, screenings.c.case_id))
            found[name] = tuple(conn.execute(open_ones.order_by(column).limit(MOST_CHOICES)).scalars())
        tag = case_tags.c.tag
        tagged = select(tag).distinct().where(case_tags.c.case_id.in_(select(listed.c.case_id)))
        unhidden = tagged.where(~withheld(actor, case_tags.c.case_id)).order_by(tag)
        found["tag"] = tuple(conn.execute(unhidden.limit(MOST_CHOICES)).scalars())
    return found


def groups(db: Database, actor: Actor, batch_id: str) -> tuple[str, ...]:
    """The groups of a batch, in order; empty where the file names none."""
    require(actor, Action.VIEW_RESULTS)
    name = cases.c.group_name
    query = select(name).distinct().where(cases.c.batch_id == batch_id, name.is_not(None)).order_by(name)
    with db.read() as conn:
        return tuple(conn.execute(query.limit(MOST_CHOICES)).scalars())


def text_starts(
    db: Database, actor: Actor, case_ids: Sequence[str], now: datetime, characters: int = 80
) -> Mapping[str, str]:
    """The beginning of each text, each one a view in the audit log. Raises Forbidden."""
    require(actor, Action.VIEW_TEXT)
    beginning = func.substr(cases.c.text, 1, characters).label("beginning")
    with db.write() as conn:
        rows = conn.execute(select(cases.c.id, beginning).where(cases.c.id.in_(case_ids)).order_by(cases.c.id)).all()
        for row in rows:
            append(conn, actor, "text_viewed", row.id, {"characters": characters}, now)
    return {row.id: row.beginning for row in rows}


def _ids(wanted: Cell, actor: Actor, limit: int) -> Select[Any]:
    """The ids of the list in its order, so many of them at most."""
    hidden = withheld(actor, cases.c.id)
    query = _filter(_of_batch(select(cases.c.id.label("case_id")), wanted), wanted, hidden)
    if wanted.outcome == IN_INBOX:
        query = query.where(hidden)
    elif wanted.outcome is not None:
        query = query.where(outcome_now(actor) == wanted.outcome, ~hidden)
    return query.order_by(*_order(wanted, hidden)).limit(limit)


def _order(wanted: Cell, hidden: ColumnElement[bool]) -> list[ColumnElement[Any]]:
    if wanted.sort == "row":
        return [cases.c.row.desc() if wanted.descending else cases.c.row]
    of_file = {"value": cases.c.reference_value, "group": cases.c.group_name, "id": cases.c.external_id}
    of_engine = {"calls": screenings.c.calls, "cost": screenings.c.cost_usd, "gap": _gap()}
    value = of_file.get(wanted.sort, case((hidden, null()), else_=of_engine.get(wanted.sort, null())))
    return [value.is_(None), value.desc() if wanted.descending else value, cases.c.row]


def _details(actor: Actor, ids: Sequence[str]) -> Select[Any]:
    """What is shown of these cases: of one that waits, only what its file says."""
    hidden = withheld(actor, cases.c.id)
    engine = (screenings.c.node, screenings.c.reason, screenings.c.calls, screenings.c.cost_usd, _gap().label("gap"))
    shown = [case((hidden, null()), else_=column).label(column.name) for column in engine]
    outcome = case((hidden, IN_INBOX), else_=func.coalesce(screenings.c.outcome, PENDING)).label("outcome")
    of_file = (
        cases.c.id.label("case_id"), cases.c.row, cases.c.external_id, cases.c.group_name.label("group"),
        cases.c.reference, cases.c.reference_value,
    )  # fmt: skip
    accepted, waits = accepted_label(cases.c.id).label("accepted"), hidden.label("waits")
    return _with_runs(select(*of_file, outcome, *shown, accepted, waits)).where(cases.c.id.in_(ids))


def _tags_of(ids: Sequence[str]) -> Select[Any]:
    return select(case_tags.c.case_id, case_tags.c.tag).where(case_tags.c.case_id.in_(ids)).order_by(case_tags.c.tag)


def _case_in_cell(row: Any, tags: Sequence[str]) -> CaseInCell:
    fields = dict(row._mapping) | {"waits": bool(row.waits), "tags": () if row.waits else tuple(tags)}
    return CaseInCell(**fields)


def _waiting(conn: Any, wanted: Cell, actor: Actor) -> int:
    """How many of a chosen outcome are open and not read by this person; counted from the open ones."""
    entry = inbox_entries.alias()
    query = _of_batch(select(cases.c.id), wanted).join(entry, entry.c.case_id == cases.c.id)
    open_ones = query.where(entry.c.closed_at.is_(None), withheld(actor, cases.c.id))
    counted = open_ones.where(outcome_now(actor) == wanted.outcome).limit(MOST_LISTED).subquery()
    return int(conn.execute(select(func.count()).select_from(counted)).scalar_one())


def _of_batch(query: Select[Any], wanted: Cell) -> Select[Any]:
    """The cases of the batch, of a group and of a reference, each beside its outcome and the run that ended it."""
    of_batch = _with_runs(query).where(cases.c.batch_id == wanted.batch_id)
    if wanted.group is not None:
        of_batch = of_batch.where(cases.c.group_name == wanted.group)
    if wanted.reference is not None:
        of_batch = of_batch.where(reference_now(wanted.labels) == wanted.reference)
    return of_batch


def _with_runs(query: Select[Any]) -> Select[Any]:
    run = node_runs.c
    last = and_(run.case_id == cases.c.id, run.node == screenings.c.node, run.variant == MAIN)
    joined = query.select_from(cases).outerjoin(screenings, screenings.c.case_id == cases.c.id)
    return joined.outerjoin(node_runs, last)


def _filter(query: Select[Any], wanted: Cell, hidden: ColumnElement[bool]) -> Select[Any]:
    """What is asked of the engine's view, of readers or of tags leaves out what this person may yet read."""
    asked: list[ColumnElement[bool]] = []
    if wanted.node is not None:
        asked.append(screenings.c.node == wanted.node)
    if wanted.way is not None:
        asked.append(_went(*wanted.way))
    if wanted.reason is not None:
        asked.append(screenings.c.reason == wanted.reason)
    if wanted.gap_at_most is not None:
        asked.append(_gap() <= wanted.gap_at_most)
    if wanted.source is not None:
        accepted = is_accepted(cases.c.id)
        asked.append(accepted if wanted.source == "adjudicated" else ~accepted)
    if wanted.tag is not None:
        tagged = case_tags.alias().c
        asked.append(cases.c.id.in_(select(tagged.case_id).where(tagged.tag == wanted.tag)))
    if wanted.ids is not None:
        asked.append(cases.c.id.in_(wanted.ids[:MOST_LISTED]))
    if wanted.search:
        query = query.where(_names(wanted.search.strip()))
    return query.where(~hidden, *asked) if asked else query


def _went(node: str, label: Label | None) -> ColumnElement[bool]:
    """Whether this agent gave the case this label."""
    run = node_runs.alias().c
    return exists().where(run.case_id == cases.c.id, run.node == node, run.variant == MAIN, run.label == label)


def _names(words: str) -> ColumnElement[bool]:
    """Whether the words stand in the id or the group, or are the number of the row."""
    row = cases.c.row == int(words) if words.isascii() and words.isdigit() and len(words) < 16 else false()
    inside = (column.icontains(words, autoescape=True) for column in (cases.c.external_id, cases.c.group_name))
    return or_(row, *inside)


def _gap() -> ColumnElement[Any]:
    """(most frequent − second) / draws; what is neither S nor U in the codes counts as escalate; without draws
    the gap of the distribution that was read off.
    """
    draws = node_runs.c.draws
    total = func.length(draws)
    safe = total - func.length(func.replace(draws, "S", ""))
    unsafe = total - func.length(func.replace(draws, "U", ""))
    escalate = total - safe - unsafe
    most = case((and_(safe >= unsafe, safe >= escalate), safe), (unsafe >= escalate, unsafe), else_=escalate)
    least = case((and_(safe <= unsafe, safe <= escalate), safe), (unsafe <= escalate, unsafe), else_=escalate)
    drawn = cast(2 * most + least - total, Float) / func.nullif(total, 0)
    return func.coalesce(drawn, node_runs.c.distribution_gap)
