"""What became of each case: one row and one join, for whole batches as for lists of cases."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, exists, func, null, select
from sqlalchemy import case as sql_case

from screening.datasets.rows import RejectedRow
from screening.labels import OUTCOMES, Label
from screening.pipeline.config import PipelineConfig
from screening.pipeline.engine import MAIN, Reason
from screening.review.actors import SYSTEM, Acting, Actor
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.batches.batches import find_batch
from storage.batches.configurations import contract_words, load_configuration, pipeline_bound
from storage.batches.costs import cost_by_node
from storage.batches.counts import IN_REVIEW, PENDING, Kind, kinds
from storage.batches.intake import read_rejected
from storage.database import Database
from storage.schema.engine import case_errors, node_runs, screenings
from storage.schema.intake import batches, cases, configurations
from storage.schema.review import case_remarks, case_tags, inbox_entries
from storage.visibility import accepted_label, hidden_from, is_in_review, record_shown

PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One accepted row. ``outcome`` is an outcome's value or ``pending``; ``calls`` and ``cost_usd`` are those of its
    committed runs, so far. ``error`` is the kind of the last error of a row that is pending.

    ``gap`` is how far the most frequent answer of the agent that ended the case lay ahead of the second, as a share of
    its draws; ``grounds`` says what a settled row rests on. Both are None where no agent was asked; where part was read
    off from probabilities no error level holds, and ``delta`` is None.

    ``in_review`` cases are open in the inbox. ``hidden`` marks one of them of which whoever asks hides the outcome: it
    is ``in review``, and nothing else that the AI made of it is given, nor the ``tags`` and ``remarks`` of researchers.

    ``accepted`` is the label that people accepted, the final one; None without one and while it is in review.

    ``delta`` bounds errors on the way that the text took, ``pipeline_delta`` on any way through the batch's pipeline;
    None where an agent has no bound. ``contract`` says in words which errors that bounds. `results` alone gives these
    two.
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
    delta: float | None
    gap: float | None
    grounds: str | None
    reference: str | None
    reference_value: str | None
    group: str | None
    error: str | None
    accepted: str | None
    in_review: bool
    hidden: bool
    tags: tuple[str, ...]
    remarks: tuple[str, ...]
    pipeline_delta: float | None = None
    contract: str | None = None


_OF_ENGINE = ("node", "reason", "calls", "cost_usd", "delta", "gap", "grounds")
DRAWS, PROBABILITIES = "draws", "probabilities"
"""What an outcome rests on: answers drawn by a stopping rule, or a server's own probabilities read off in one call."""


def results(db: Database, by: Acting, batch_id: str, *, after: int = 0, hide: bool | None = None) -> Iterator[Result]:
    """The rows in file order, those after a row. Each page is one moment; a running batch may change between pages.

    What is given of cases in review is written down; ``hide`` says whether it is hidden, None: as this person has
    chosen. Raises Forbidden when the first row is asked for.
    """
    if by.actor != SYSTEM:
        require(by.actor, Action.VIEW_RESULTS)
    of_batch = select(configurations.c.body).join(batches, batches.c.configuration == configurations.c.version)
    with db.read() as conn:
        body = conn.execute(of_batch.where(batches.c.id == batch_id)).scalar()
        delta = None if body is None else pipeline_bound(conn, batch_id, body)
    last, contract = after, contract_words(body or {}, delta)
    while True:
        with db.read() as conn:
            hidden = hidden_from(conn, by.actor, cases.c.id, hide)
            next_ones = (cases.c.batch_id == batch_id, cases.c.row > last)
            page = read_results(conn, hidden, *next_ones, most=PAGE)
        record_shown(db, by, [row.case_id for row in page if row.in_review and not row.hidden])
        for row in page:
            yield replace(row, pipeline_delta=delta, contract=contract)
        if len(page) < PAGE:
            return
        last = page[-1].row


def read_results(
    conn: Connection, hidden: ColumnElement[bool], *chosen: ColumnElement[bool], most: int | None = None
) -> list[Result]:
    """The cases chosen, in the order of their rows; of one that is ``hidden`` only what its file says. Whoever shows
    them asks first whether they may be seen, and writes down what is shown of cases in review.
    """
    case, ended, run = cases.c, screenings.c, node_runs.c
    asked = exists().where(run.case_id == ended.case_id)
    read_off = asked.where(run.distribution.is_not(None), run.draws == "")
    grounds = sql_case((read_off, PROBABILITIES), (asked, DRAWS), else_=null())
    columns: tuple[ColumnElement[Any], ...] = (
        case.id.label("case_id"), case.batch_id, case.row, case.external_id, case.reference, case.reference_value,
        case.group_name.label("group"), ended.outcome, *(ended[name] for name in _OF_ENGINE if name != "grounds"),
        grounds.label("grounds"), accepted_label(case.id).label("accepted"), is_in_review(case.id).label("in_review"),
        hidden.label("hidden"),
    )  # fmt: skip
    query = select(*columns).select_from(cases).outerjoin(screenings, ended.case_id == case.id).where(*chosen)
    rows = conn.execute(query.order_by(case.row).limit(most)).all()
    so_far = _so_far(conn, [row.case_id for row in rows if row.outcome is None and not row.hidden])
    open_to_all = [row.case_id for row in rows if not row.hidden]
    tags, remarks = noted(conn, case_tags.c.tag, open_to_all), noted(conn, case_remarks.c.remark, open_to_all)
    found = []
    for row in rows:
        fields = dict(row._mapping) | {"in_review": bool(row.in_review), "hidden": bool(row.hidden), "error": None}
        if row.hidden:
            fields |= dict.fromkeys(_OF_ENGINE) | {"outcome": IN_REVIEW}
        elif row.outcome is None:
            calls, cost_usd, error = so_far.get(row.case_id, (0, None, None))
            fields |= {"outcome": PENDING, "calls": calls, "cost_usd": cost_usd, "error": error}
        found.append(Result(**fields, tags=tags.get(row.case_id, ()), remarks=remarks.get(row.case_id, ())))
    return found


def count_in_review(db: Database, batch_id: str) -> int:
    """How many cases of a batch are open in the inbox."""
    entry = inbox_entries.c
    return int(db.value(select(func.count()).where(entry.batch_id == batch_id, entry.closed_at.is_(None))))


def _so_far(conn: Connection, case_ids: Sequence[str]) -> dict[str, tuple[int, float | None, str | None]]:
    """The calls and the cost of pending cases so far, and the kind of their last error."""
    run, error = node_runs.c, case_errors.c
    spent = select(run.case_id, func.sum(run.calls).label("calls"), func.sum(run.cost_usd).label("cost_usd"))
    of_runs = conn.execute(spent.where(run.case_id.in_(case_ids)).group_by(run.case_id))
    used = {row.case_id: (int(row.calls), row.cost_usd) for row in of_runs}
    last = select(func.max(error.id)).where(error.case_id.in_(case_ids)).group_by(error.case_id)
    kinds = {row.case_id: row.kind for row in conn.execute(select(error.case_id, error.kind).where(error.id.in_(last)))}
    return {case_id: (*used.get(case_id, (0, None)), kinds.get(case_id)) for case_id in used.keys() | kinds.keys()}


def noted(conn: Connection, said: Column[str], case_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The tags or remarks of those of these cases that have some."""
    of, found = said.table.c, dict[str, tuple[str, ...]]()
    query = select(of.case_id, said.label("said")).where(of.case_id.in_(case_ids))
    for row in conn.execute(query.order_by(of.tag if "tag" in of else of.id)):
        found[row.case_id] = (*found.get(row.case_id, ()), row.said)
    return found


_OF_THE_RULE = {Reason.IDENTIFIED, Reason.ESCALATED, Reason.EXHAUSTED, Reason.FUTILITY}
_ABSTAINED = {Reason.EXHAUSTED, Reason.FUTILITY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """``asked`` counts cases by agent. ``taken`` counts them by agent and label, None for a case it did not settle.

    ``kept_back`` went to a clinician for what stands in the text or for a fault, on no way of the pipeline.
    """

    asked: Mapping[str, int]
    taken: Mapping[tuple[str, Label | None], int]
    kept_back: int


def count_ways(db: Database, actor: Actor, batch_id: str, pipeline: PipelineConfig) -> Ways:
    """The counts of now. Raises Forbidden."""
    require(actor, Action.VIEW_BATCHES)
    with db.read() as conn:
        asked, onward = _runs(conn, batch_id, pipeline)
        ended, kept_back = _ends(kinds(conn, batch_id), pipeline)
    return Ways(asked=asked, taken=onward | ended, kept_back=kept_back)


_Taken = dict[tuple[str, Label | None], int]


def _runs(conn: Connection, batch_id: str, pipeline: PipelineConfig) -> tuple[dict[str, int], _Taken]:
    """How many cases each agent was asked about, and the ways that lead from one agent to another."""
    run = node_runs.c
    query = select(run.node, run.label, func.count()).where(run.batch_id == batch_id, run.variant == MAIN)
    asked, onward = dict[str, int](), _Taken()
    for name, said, count in conn.execute(query.group_by(run.node, run.label)):
        label = None if said is None else Label(said)
        asked[name] = asked.get(name, 0) + count
        if pipeline.node(name).target(label) not in OUTCOMES:
            onward[name, label] = count
    return asked, onward


def _ends(known: Mapping[Kind, int], pipeline: PipelineConfig) -> tuple[_Taken, int]:
    """The ways that lead to an outcome, and how many cases went to a clinician beside them."""
    ended, kept_back = _Taken(), 0
    for kind, count in known.items():
        if kind.outcome == PENDING:
            continue
        if kind.node is None or kind.reason not in _OF_THE_RULE:
            kept_back += count
            continue
        name, routes = kind.node, pipeline.node(kind.node).routes
        label = None if kind.reason in _ABSTAINED else next(each for each in Label if routes[each] == kind.outcome)
        ended[name, label] = ended.get((name, label), 0) + count
    return ended, kept_back


def batch_overview(db: Database, actor: Actor, batch_id: str) -> tuple[Ways, tuple[Row[Any], ...], int]:
    """The ways its cases took, what each agent has used, and all calls made: of one moment, so that they add up while
    the batch runs. Raises Forbidden, UnknownBatch.
    """
    with db.one_snapshot():
        one = find_batch(db, actor, batch_id)
        pipeline = load_configuration(db, one.configuration_version).pipeline
        ways, costs = count_ways(db, actor, batch_id, pipeline), cost_by_node(db, actor, batch_id)
        return ways, costs, one.progress.calls


def export_results(
    db: Database, by: Acting, batch_id: str, *, after: int = 0, again: bool = False, hide: bool | None = None
) -> Iterator[Result]:
    """`results` to take away; ``again`` for more of a file that is in the log. Raises Forbidden at once."""
    if by.actor != SYSTEM:
        require(by.actor, Action.VIEW_RESULTS)
    if not again:
        _log(db, by, batch_id, "results")
    return results(db, by, batch_id, after=after, hide=hide)


def export_rejected(db: Database, by: Acting, batch_id: str) -> Iterator[RejectedRow]:
    """`rejected` to take away: these rows hold the texts as they came. Raises Forbidden at once."""
    require(by.actor, Action.VIEW_RESULTS)
    _log(db, by, batch_id, "rejected")
    return read_rejected(db, by.actor, batch_id)


def _log(db: Database, by: Acting, batch_id: str, kind: str) -> None:
    with db.write() as conn:
        append(conn, by, "exported", batch_id, {"kind": kind})
