"""The draws of a batch as they were recorded, for replay: in columns of numbers for what is counted over all its cases,
and case by case for what draws on. What is read is numbers about a batch, not a view of a case.

Columns are read in a fixed number of statements: the database puts each together as one JSON list, so that no row is
met one by one; a million cases cost a second or two, most of it outside Python. Cases are in the file's order; ``rows``
says which row of the file each is.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, ColumnElement, Connection, Text, and_, case, cast, func, select

from screening.evaluation.corrected import INCONCLUSIVE, UNREAD
from screening.evaluation.experiments import OUTCOMES, SUICIDE_WATCH, NodeRecord, Record, node_record
from screening.evaluation.metrics import NONE, REFERENCES, Codes, Integers
from screening.evaluation.recording import DrawBook, Item, NodeDraws
from screening.labels import Label, Outcome
from screening.pipeline.draws import ScreenedText
from screening.pipeline.engine import MAIN, Guard, guard_for
from screening.review.policy import Action, Actor, require
from storage.batches.batch_state import batch_row
from storage.batches.configurations import Configuration, load_configuration
from storage.batches.counts import kind_of
from storage.batches.intake import SHOWN_TO_AGENTS, text_for_agents
from storage.database import Database, record
from storage.research.cells import MOST_LISTED
from storage.research.reliability import SEVERAL, is_first_review
from storage.schema import adjudications, cases, inbox_entries, node_runs, reviews, screenings
from storage.visibility import is_accepted, order_given

_NO_TEXT = ScreenedText(text="")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RecordedColumns:
    """A batch's cases as numbers, its draws and what it ran with, without any text or id of a case."""

    configuration: Configuration
    seed: int
    rows: Integers
    drawn: Record


def recorded_columns(db: Database, actor: Actor, batch_id: str) -> RecordedColumns:
    """All draws of a batch with the file's references. Raises Forbidden, UnknownBatch."""
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        batch = batch_row(conn, batch_id)
        rows, references = _references(conn, batch_id)
        of_subset = _rows_by(conn, batch_id, cases.c.group_name, cases.c.group_name == SUICIDE_WATCH)
        nodes = _draws(conn, batch_id, rows)
    drawn = Record(references=references, nodes=nodes, subset=np.isin(rows, of_subset.get(SUICIDE_WATCH, ())))
    configuration = load_configuration(db, batch.configuration)
    return RecordedColumns(configuration=configuration, seed=batch.seed, rows=rows, drawn=drawn)


def _in_one(conn: Connection, column: ColumnElement[Any]) -> ColumnElement[str]:
    """The values of a group as one JSON list; several of a query are in the same order."""
    return cast(func.json_agg(column), Text) if conn.dialect.name == "postgresql" else func.json_group_array(column)


def _exact(conn: Connection, column: ColumnElement[float]) -> ColumnElement[Any]:
    """A float with all its digits, of which SQLite's lists keep 15."""
    if conn.dialect.name == "postgresql":
        return column
    return case((column.is_not(None), func.json(func.printf("%!.17g", column))), else_=None)


def _integers(listed: str) -> Integers:
    return np.array(json.loads(listed), dtype=np.int64)


def places_of(rows: Integers, some: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Where these rows are among all ``rows``, and which of them are there at all: a file may be growing.

    >>> [each.tolist() for each in places_of(np.array([2, 3, 5]), np.array([5, 4, 2]))]
    [[2, 2, 0], [True, False, True]]
    """
    places = np.minimum(np.searchsorted(rows, some), max(len(rows) - 1, 0))
    return places, rows[places] == some if len(rows) else np.zeros(len(some), bool)


def _rows_by(conn: Connection, batch_id: str, column: Column[Any], *which: ColumnElement[bool]) -> dict[Any, Integers]:
    """The rows of the file by what a column says of them, off an index."""
    table = column.table.c
    query = select(column, _in_one(conn, table.row)).where(table.batch_id == batch_id, *which).group_by(column)
    return {value: _integers(listed) for value, listed in conn.execute(query)}


def _references(conn: Connection, batch_id: str) -> tuple[Integers, Codes]:
    """Each case's row and the number of its reference."""
    found = _rows_by(conn, batch_id, cases.c.reference)
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *found.values()]))
    return rows, _codes(rows, found, _reference)


def _reference(label: str | None) -> int:
    return REFERENCES.index(Label(label)) if label in REFERENCES else NONE


def _codes(rows: Integers, found: Mapping[Any, Integers], number: Callable[[Any], int]) -> Codes:
    """The number of what was found of each row, `NONE` where nothing was."""
    codes = np.full(len(rows), NONE, dtype=np.int8)
    for value, some in found.items():
        places, known = places_of(rows, some)
        codes[places[known]] = number(value)
    return codes


def _draws(conn: Connection, batch_id: str, rows: Integers) -> dict[str, NodeRecord]:
    """By node: the draws of the main prompt, and what they took."""
    run = node_runs.c
    columns = {"rows": run.row, "draws": run.draws, "tokens": func.nullif(run.input_tokens + run.output_tokens, 0)}
    listed = [_in_one(conn, column).label(name) for name, column in columns.items()]
    query = select(run.node, *listed, _in_one(conn, _exact(conn, run.cost_usd)).label("costs"))
    nodes = {}
    for row in conn.execute(query.where(run.batch_id == batch_id, run.variant == MAIN).group_by(run.node)):
        places, known = places_of(rows, _integers(row.rows))
        codes = np.full(len(rows), "", dtype=object)
        codes[places[known]] = np.array(json.loads(row.draws), dtype=object)[known]
        spent = np.full((2, len(rows)), np.nan)
        for kept, values in zip(spent, (row.tokens, row.costs), strict=True):
            kept[places[known]] = np.array(json.loads(values), dtype=np.float64)[known]  # None becomes NaN
        nodes[row.node] = node_record(codes.tolist(), *spent)
    return nodes


def outcomes_in(db: Database, actor: Actor, batch_id: str, rows: Integers) -> Codes:
    """What the AI made of these rows, as the Errors page has it: numbers into `Outcome`, `NONE` where it is pending."""
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        found = _rows_by(conn, batch_id, screenings.c.kind)
    return _codes(rows, found, lambda kind: OUTCOMES.index(Outcome(kind_of(kind).outcome)))


def entered_mask(db: Database, actor: Actor, batch_id: str, rows: Integers) -> NDArray[np.bool_]:
    """Which of the cases are in review, or were."""
    require(actor, Action.VIEW_RESULTS)
    entry = inbox_entries.c
    with db.read() as conn:
        query = select(_in_one(conn, cases.c.row)).join(inbox_entries, entry.case_id == cases.c.id)
        listed = conn.execute(query.where(entry.batch_id == batch_id)).scalar()
    return np.isin(rows, _integers(listed or "[]"))


def accepted_references(
    db: Database, actor: Actor, batch_id: str, columns: RecordedColumns, version: int | None = None
) -> tuple[Codes, Integers]:
    """The references with what clinicians accepted in their place (a text found to hold too little information has
    none), and the places of the cases that have such a label: as of the first ``version`` adjudications, or of all.
    """
    require(actor, Action.VIEW_RESULTS)
    made = adjudications.c
    query = select(cases.c.row, made.label, is_accepted(cases.c.id).label("accepted"))
    query = query.join(adjudications, made.case_id == cases.c.id).where(cases.c.batch_id == batch_id)
    found = db.rows(query.order_by(*order_given()))
    latest = {row.row: _reference(row.label) for row in found[:version] if row.accepted}
    places, known = places_of(columns.rows, np.fromiter(latest, np.int64, len(latest)))
    references = columns.drawn.references.copy()
    references[places[known]] = np.fromiter(latest.values(), np.int8, len(latest))[known]
    return references, np.sort(places[known])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reviews:
    """What blinded reviews say of N cases: ``labels`` numbers into `REFERENCES`, `INCONCLUSIVE` or `UNREAD`;
    ``by_several`` where more than one reviewer settled it; ``picked`` where it was to be reviewed for what it is or
    what the AI made of it, so that it stands for no other text; the rest of those reviewed was drawn by chance.
    ``entered`` ever came to the queue.
    """

    labels: Codes
    by_several: NDArray[np.bool_]
    picked: NDArray[np.bool_]
    entered: NDArray[np.bool_]


def reviews_in(db: Database, actor: Actor, batch_id: str, rows: Integers) -> Reviews:
    """The reviews of the cases of these rows. A case that is open again, or whose first review was not blinded, has
    none that counts.
    """
    require(actor, Action.VIEW_RESULTS)
    entry, made, done = inbox_entries.c, adjudications.c, screenings.c
    newest = adjudications.alias().c
    last = select(func.max(newest.version)).where(newest.case_id == cases.c.id).correlate(cases).scalar_subquery()
    query = select(cases.c.row, entry.sent_as, entry.closed_at, made.label, made.method, reviews.c.blind)
    query = query.add_columns(done.outcome, done.audited).join(inbox_entries, entry.case_id == cases.c.id)
    query = query.outerjoin(screenings, done.case_id == cases.c.id).outerjoin(reviews, is_first_review(cases.c.id))
    query = query.outerjoin(adjudications, and_(made.case_id == cases.c.id, made.version == last))
    found = Reviews(
        labels=np.full(len(rows), UNREAD, np.int8),
        by_several=np.zeros(len(rows), bool),
        picked=np.zeros(len(rows), bool),
        entered=np.zeros(len(rows), bool),
    )
    entered = db.rows(query.where(cases.c.batch_id == batch_id))
    places, known = places_of(rows, np.array([row.row for row in entered], dtype=np.int64))
    for place, there, row in zip(places.tolist(), known.tolist(), entered, strict=True):
        if not there:
            continue
        found.entered[place] = True
        by_chance = row.sent_as == "drawn" or (row.sent_as is None and row.audited)
        found.picked[place] = not by_chance or row.outcome == Outcome.HUMAN_REVIEW.value
        if row.label is not None and row.blind and row.closed_at is not None:
            code = _reference(row.label)
            found.labels[place] = INCONCLUSIVE if code == NONE else code
            found.by_several[place] = row.method in SEVERAL
    return found


def guards_in(db: Database, actor: Actor, batch_id: str, rows: Integers) -> Mapping[int, Guard]:
    """What the findings in the texts forbid, by the place of the case; most texts have none."""
    require(actor, Action.VIEW_RESULTS)
    found = cast(cases.c.flags, Text).like('%["%')
    flagged = db.rows(select(cases.c.row, cases.c.flags).where(cases.c.batch_id == batch_id, found))
    places, known = places_of(rows, np.array([row.row for row in flagged], dtype=np.int64))
    return {
        int(place): guard_for(row.flags["text"] + row.flags["reply"])
        for place, row, there in zip(places, flagged, known, strict=True)
        if there
    }


class Named(NamedTuple):
    """A case by its id, and its name in the file."""

    case_id: str
    external_id: str


def case_names(db: Database, actor: Actor, batch_id: str, some: Sequence[int]) -> dict[int, Named]:
    require(actor, Action.VIEW_RESULTS)
    case = cases.c
    query = select(case.row, case.id, case.external_id).where(case.batch_id == batch_id)
    found = db.rows(query.where(case.row.in_(list(some)[:MOST_LISTED])))
    return {row.row: Named(case_id=row.id, external_id=row.external_id) for row in found}


def recorded_batch(db: Database, actor: Actor, batch_id: str, *, with_texts: bool = False) -> DrawBook:
    """A batch's draws so far, from one moment of the database, with its items in the file's order and their original
    references; the texts are empty unless asked for. Raises Forbidden, UnknownBatch.
    """
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        batch_row(conn, batch_id)
        case = cases.c
        columns = [case[name] for name in ("id", "external_id", "reference", "group_name")]
        columns += [case[name] for name in SHOWN_TO_AGENTS] if with_texts else []
        rows = conn.execute(select(*columns).where(case.batch_id == batch_id).order_by(case.row)).all()
        items = [
            Item(
                id=row.external_id,
                text=text_for_agents(row) if with_texts else _NO_TEXT,
                reference=None if row.reference is None else Label(row.reference),
                group=row.group_name,
            )
            for row in rows
        ]
        places, book, run = {row.id: place for place, row in enumerate(rows)}, DrawBook(items), node_runs.c
        tokens = (run.input_tokens + run.output_tokens).label("tokens")
        drawn = select(run.case_id, run.node, run.draws.label("codes"), run.cost_usd, tokens)
        for one in conn.execute(drawn.where(run.batch_id == batch_id, run.variant == MAIN).order_by(run.position)):
            book.nodes[places[one.case_id], one.node] = record(NodeDraws, one, tokens=one.tokens or None)
    return book
