"""The cases behind a number, or all of a batch: filtered, sorted, a page at a time, without their texts.

What a person may yet read blind is listed with nothing of the engine, passes no filter on it and sorts behind all
others: neither a filter, nor an order, nor a neighbour tells what became of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, case, func, null, select

from screening.labels import Outcome
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, is_allowed, require
from storage.accepted import accepted_label
from storage.audit_log import append
from storage.blindness import is_withheld, open_to
from storage.database import Database
from storage.kinds import IN_INBOX, PENDING, Kind, known_kinds, withheld_kinds
from storage.research.listed import MOST_LISTED, Cell, listed_ids
from storage.schema import case_tags, cases, inbox_entries, screenings

MOST_CHOICES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseInCell:
    """One case of a list. ``gap`` is how far the most frequent answer of the node that ended the case lay ahead of
    the second, as a share of its draws; None where no agent was asked. ``waits`` marks an open case that the person
    asking may yet read: its outcome is ``in the inbox``, and nothing else of the engine or of other readers is given.
    """

    case_id: str
    batch_id: str
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
        """The number of cases listed."""
        return len(self.ids)


def cell_page(db: Database, actor: Actor, wanted: Cell, limit: int = 50, offset: int = 0) -> CellPage:
    """The cases wanted, in the file's order where nothing else is asked for. Raises Forbidden."""
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        ids = listed_ids(conn, actor, wanted)
        shown = ids[offset : min(offset + limit, MOST_LISTED)]
        rows = {row.case_id: row for row in conn.execute(_details(actor, shown))}
        tags: dict[str, list[str]] = {}
        for row in conn.execute(_tags_of(shown)):
            tags.setdefault(row.case_id, []).append(row.tag)
        waiting = 0 if wanted.outcome in (None, IN_INBOX) else _count_waiting(conn, wanted, actor)
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


def take_texts_to_compare(
    db: Database, by: Acting, case_ids: Sequence[str], characters: int = 4_000
) -> Mapping[str, str]:
    """The beginnings of texts, to be compared by the program and not shown; what waits for this person's reading is
    left out. One line in the audit log says how many. Raises Forbidden.
    """
    require(by.actor, Action.VIEW_TEXT)
    beginning = func.substr(cases.c.text, 1, characters).label("beginning")
    query = select(cases.c.id, beginning).where(cases.c.id.in_(case_ids), ~is_withheld(by.actor, cases.c.id))
    with db.write() as conn:
        found = {row.id: row.beginning for row in conn.execute(query.order_by(cases.c.row))}
        append(conn, by, "texts_compared", None, {"cases": len(found)})
    return found


def shown_kinds(db: Database, actor: Actor, batch_id: str) -> Mapping[Kind, int]:
    """How many cases of the batch are of each kind, less what waits for this person's reading. Raises Forbidden."""
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        return known_kinds(conn, actor, batch_id)


def cell_choices(
    db: Database, actor: Actor, wanted: Cell, shown: Mapping[Kind, int] | None = None
) -> Mapping[str, tuple[str, ...]]:
    """What the shown cases of a list can be filtered by: the values of ``node``, ``reason`` and ``tag`` among them;
    of a group or of accepted labels as far as its first cases tell. Whoever keeps the batch's `shown_kinds` gives them.
    """
    require(actor, Action.VIEW_RESULTS)
    unread = replace(wanted, node=None, way=None, reason=None, gap_at_most=None)
    bare = replace(unread, source=None, tag=None, search=None, sort="row")
    with db.read() as conn:
        if bare.group is None and bare.ids is None and (bare.reference is None or bare.labels == "original"):
            return _choices_of_kinds(conn, actor, bare, shown)
        return _choices_among(conn, actor, listed_ids(conn, actor, bare))


def _choices_of_kinds(
    conn: Connection, actor: Actor, wanted: Cell, found: Mapping[Kind, int] | None
) -> dict[str, tuple[str, ...]]:
    shown = [
        kind
        for kind in (known_kinds(conn, actor, wanted.batch_id) if found is None else found)
        if wanted.outcome in (None, kind.outcome) and wanted.reference in (None, kind.reference)
    ]
    tagged = select(case_tags.c.tag).distinct().join(cases, cases.c.id == case_tags.c.case_id)
    one_of_batch = func.coalesce(cases.c.batch_id, "") == wanted.batch_id  # from what is tagged, not from the batch
    here = tagged.where(one_of_batch, ~is_withheld(actor, case_tags.c.case_id))
    tags = conn.execute(here.order_by(case_tags.c.tag).limit(MOST_CHOICES)).scalars()
    return {
        "node": tuple(sorted({kind.node for kind in shown if kind.node is not None})),
        "reason": tuple(sorted({kind.reason for kind in shown if kind.reason is not None})),
        "tag": tuple(tags),
    }


def _choices_among(conn: Connection, actor: Actor, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    ended, tag = screenings.c, case_tags.c
    found: dict[str, tuple[str, ...]] = {}
    columns = ((ended.node, ended.case_id), (ended.reason, ended.case_id), (tag.tag, tag.case_id))
    for column, case_id in columns:
        query = select(column).distinct().where(case_id.in_(ids), column.is_not(None), ~is_withheld(actor, case_id))
        found[str(column.name)] = tuple(conn.execute(query.order_by(column).limit(MOST_CHOICES)).scalars())
    return found


def groups(db: Database, actor: Actor, batch_id: str) -> tuple[str, ...]:
    """The groups of a batch, in order; empty where the file names none."""
    require(actor, Action.VIEW_RESULTS)
    name = cases.c.group_name
    query = select(name).distinct().where(cases.c.batch_id == batch_id, name.is_not(None)).order_by(name)
    return tuple(db.values(query.limit(MOST_CHOICES)))


def reveal_text_starts(db: Database, by: Acting, case_ids: Sequence[str], characters: int = 80) -> Mapping[str, str]:
    """The beginning of each text, each one a view in the audit log. Raises Forbidden."""
    require(by.actor, Action.VIEW_TEXT)
    beginning = func.substr(cases.c.text, 1, characters).label("beginning")
    with db.write() as conn:
        rows = conn.execute(select(cases.c.id, beginning).where(cases.c.id.in_(case_ids)).order_by(cases.c.id)).all()
        for row in rows:
            append(conn, by, "text_viewed", row.id, {"characters": characters})
    return {row.id: row.beginning for row in rows}


def _details(actor: Actor, ids: Sequence[str]) -> Select[Any]:
    """What is shown of these cases: of one that waits, only what its file says."""
    hidden = is_withheld(actor, cases.c.id)
    engine = (screenings.c.node, screenings.c.reason, screenings.c.calls, screenings.c.cost_usd, screenings.c.gap)
    shown = [case((hidden, null()), else_=column).label(column.name) for column in engine]
    outcome = case((hidden, IN_INBOX), else_=func.coalesce(screenings.c.outcome, PENDING)).label("outcome")
    of_file = (
        cases.c.id.label("case_id"), cases.c.batch_id, cases.c.row, cases.c.external_id,
        cases.c.group_name.label("group"), cases.c.reference, cases.c.reference_value,
    )  # fmt: skip
    accepted, waits = accepted_label(cases.c.id).label("accepted"), hidden.label("waits")
    query = select(*of_file, outcome, *shown, accepted, waits).where(cases.c.id.in_(ids))
    return query.outerjoin(screenings, screenings.c.case_id == cases.c.id)


def _tags_of(ids: Sequence[str]) -> Select[Any]:
    return select(case_tags.c.case_id, case_tags.c.tag).where(case_tags.c.case_id.in_(ids)).order_by(case_tags.c.tag)


def _case_in_cell(row: Any, tags: Sequence[str]) -> CaseInCell:
    fields = dict(row._mapping) | {"waits": bool(row.waits), "tags": () if row.waits else tuple(tags)}
    return CaseInCell(**fields)


def _count_waiting(conn: Connection, wanted: Cell, actor: Actor) -> int:
    """How many of a chosen outcome are open and not read by this person: no more than `MOST_LISTED` are looked for."""
    reads = is_allowed(actor, Action.CLAIM_NEXT)
    if reads and wanted.outcome != Outcome.HUMAN_REVIEW.value:
        return 0  # for those who read all of these count as with clinicians
    chosen = [  # no open case has an accepted label
        (kind, count)
        for kind, count in withheld_kinds(conn, actor, wanted.batch_id).items()
        if wanted.reference in (None, kind.reference) and (reads or kind.outcome == wanted.outcome)
    ]
    if wanted.group is None:
        return min(MOST_LISTED, sum(count for _, count in chosen))
    kinds_of_it = inbox_entries.c.kind.in_([kind.key for kind, _ in chosen])
    query = open_to(actor, wanted.batch_id).join(cases, cases.c.id == inbox_entries.c.case_id).where(kinds_of_it)
    counted = query.where(cases.c.group_name == wanted.group).limit(MOST_LISTED).subquery()
    return int(conn.execute(select(func.count()).select_from(counted)).scalar_one())
