"""What became of each case: one row and one join, for whole batches as for lists of cases; and what the agents cost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, timedelta, tzinfo
from itertools import islice
from math import sqrt
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Float,
    Row,
    bindparam,
    case,
    cast,
    func,
    select,
    type_coerce,
)

from screening.datasets.rows import RejectedRow
from screening.labels import OUTCOMES, Label
from screening.pipeline.config import PipelineConfig, promises, version_of
from screening.pipeline.engine import MAIN, Reason
from screening.review.policy import SYSTEM, Acting, Action, Actor, require
from storage.audit_log import append
from storage.batches.batch_state import standings
from storage.batches.batches import find_batch
from storage.batches.configurations import load_configuration, pipeline_bound
from storage.batches.counts import IN_REVIEW, PENDING, Totals, kinds
from storage.batches.intake import read_rejected
from storage.database import Database
from storage.schema.engine import case_errors, comparison_outcomes, node_runs, screenings
from storage.schema.intake import batches, cases, configurations
from storage.schema.review import case_remarks, case_tags, inbox_entries
from storage.visibility import accepted_label, hidden_from, is_in_review, record_shown

PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One accepted row. ``outcome`` is an outcome's value, ``pending``, or ``in review`` where it is ``hidden``: then
    nothing is given that the AI made of it, nor ``tags`` and ``remarks``. Of a pending row ``calls`` and ``cost_usd``
    are of its runs so far, ``error`` is the kind of its last error. ``gap`` is how far the most frequent answer of the
    deciding agent lay ahead of the second, as a share of its draws, ``grounds`` what the outcome rests on; both None
    where no agent was asked. ``accepted`` is the label that people accepted; None without one, and while ``in_review``.

    ``delta`` bounds errors on the way that the text took, ``pipeline_delta`` on any way through the pipeline,
    ``contract`` says which; None where an agent has no bound or answers were read off. `export_results` alone gives
    the last two.
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


def export_results(
    db: Database, by: Acting, batch_id: str, *, after: int = 0, again: bool = False, hide: bool | None = None
) -> Iterator[Result]:
    """The rows to take away in file order, those after a row; each page is one moment. What is given of cases in review
    is written down; ``hide`` says whether it is hidden, None: as this person has chosen. ``again`` for more of a file
    that is in the log. Raises Forbidden at once.
    """
    if by.actor != SYSTEM:
        require(by.actor, Action.VIEW_RESULTS)
    if not again:
        _log(db, by, batch_id, "results")
    of_batch = select(configurations.c.body).join(batches, batches.c.configuration == configurations.c.version)
    with db.read() as conn:
        body = conn.execute(of_batch.where(batches.c.id == batch_id)).scalar()
        delta = None if body is None else pipeline_bound(conn, batch_id, body)
    contract = None if body is None or delta is None else promises(PipelineConfig.model_validate(body["pipeline"]))

    def rows() -> Iterator[Result]:
        last, more = after, True
        while more:
            with db.read() as conn:
                hidden = hidden_from(conn, by.actor, cases.c.id, hide)
                page = read_results(conn, hidden, cases.c.batch_id == batch_id, cases.c.row > last, most=PAGE)
            record_shown(db, by, [row.case_id for row in page if row.in_review and not row.hidden])
            for row in page:
                yield replace(row, pipeline_delta=delta, contract=contract)
                last = row.row
            more = len(page) == PAGE

    return rows()


def read_results(
    conn: Connection, hidden: ColumnElement[bool], *chosen: ColumnElement[bool], most: int | None = None
) -> list[Result]:
    """The cases chosen, in the order of their rows; of one that is ``hidden`` only what its file says. Whoever shows
    them asks first whether they may be seen, and writes down what is shown of cases in review.
    """
    its, ended, run = cases.c, screenings.c, node_runs.c
    asked = select(run.case_id).where(run.case_id == ended.case_id)
    read_off = asked.where(run.distribution.is_not(None), run.draws == "")
    grounds = case((read_off.exists(), PROBABILITIES), (asked.exists(), DRAWS))
    columns: tuple[ColumnElement[Any], ...] = (
        its.id.label("case_id"), its.batch_id, its.row, its.external_id, its.reference, its.reference_value,
        its.group_name.label("group"), ended.outcome, *(ended[name] for name in _OF_ENGINE if name != "grounds"),
        grounds.label("grounds"), accepted_label(its.id).label("accepted"), is_in_review(its.id).label("in_review"),
        hidden.label("hidden"),
    )  # fmt: skip
    query = select(*columns).select_from(cases).outerjoin(screenings, ended.case_id == its.id).where(*chosen)
    rows = conn.execute(query.order_by(its.row).limit(most)).all()
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

    ``kept_back`` went to a clinician on no way of the pipeline, by the reason: what stands in the text, or a fault.
    """

    asked: Mapping[str, int]
    taken: Mapping[tuple[str, Label | None], int]
    kept_back: Mapping[str, int]


def count_ways(db: Database, actor: Actor, batch_id: str, pipeline: PipelineConfig) -> Ways:
    """The counts of now: of the ways from one agent to another by the runs, of those to an outcome by how cases ended,
    which is not always as their last agent said. Raises Forbidden.
    """
    require(actor, Action.VIEW_BATCHES)
    asked, taken, kept_back = Counter[str](), Counter[tuple[str, Label | None]](), Counter[str]()
    run = node_runs.c
    runs = select(run.node, run.label, func.count()).where(run.batch_id == batch_id, run.variant == MAIN)
    with db.read() as conn:
        said, ended = conn.execute(runs.group_by(run.node, run.label)).all(), kinds(conn, batch_id)
    for name, word, count in said:
        label = None if word is None else Label(word)
        asked[name] += count
        if pipeline.node(name).target(label) not in OUTCOMES:
            taken[name, label] = count
    for kind, count in ended.items():
        if kind.outcome == PENDING:
            continue
        if kind.node is None or kind.reason not in _OF_THE_RULE:
            kept_back[kind.reason or ""] += count
            continue
        routes = pipeline.node(kind.node).routes
        label = None if kind.reason in _ABSTAINED else next(each for each in Label if routes[each] == kind.outcome)
        taken[kind.node, label] += count
    return Ways(asked=asked, taken=taken, kept_back=kept_back)


def batch_overview(db: Database, actor: Actor, batch_id: str) -> tuple[Ways, tuple[Row[Any], ...], int]:
    """The ways its cases took, what each agent has used, and all calls made: of one moment, so that they add up."""
    with db.one_snapshot():
        one = find_batch(db, actor, batch_id)
        pipeline = load_configuration(db, one.configuration_version).pipeline
        ways, costs = count_ways(db, actor, batch_id, pipeline), cost_by_node(db, actor, batch_id)
        return ways, costs, one.progress.calls


def export_rejected(db: Database, by: Acting, batch_id: str) -> Iterator[RejectedRow]:
    """`rejected` to take away: these rows hold the texts as they came. Raises Forbidden at once."""
    require(by.actor, Action.VIEW_RESULTS)
    _log(db, by, batch_id, "rejected")
    return read_rejected(db, by.actor, batch_id)


def _log(db: Database, by: Acting, batch_id: str, kind: str) -> None:
    with db.write() as conn:
        append(conn, by, "exported", batch_id, {"kind": kind})


_DAY_US = 86_400_000_000


DAYS = 30


def daily_costs(db: Database, by: Acting, zone: tzinfo = UTC) -> dict[date, Row[Any]]:
    """The days with calls of the last ones, the newest first: their ``calls``, ``tokens``, known ``cost_usd``, and
    ``unpriced_calls`` whose price is not known. Calls that decide, on the day their node ended, and those of
    comparisons, on the day their case was done; days are those of a zone, as far ahead of UTC as it is now. Raises
    Forbidden.
    """
    require(by.actor, Action.VIEW_BATCHES)
    since = by.now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=DAYS - 1)
    ahead = by.now.astimezone(zone).utcoffset() or timedelta()
    run, tried = node_runs.c, comparison_outcomes.c
    tokens = (run.input_tokens + run.output_tokens).label("tokens")
    decided = select(run.ended_at.label("at"), run.calls, tokens, run.cost_usd).where(run.ended_at >= since)
    compared = select(tried.at, tried.calls, tried.tokens, tried.cost_usd).where(tried.at >= since)
    paid = decided.union_all(compared).subquery().c
    day = ((type_coerce(paid.at, BigInteger) + ahead // timedelta(microseconds=1)) // _DAY_US).label("day")
    columns = (
        day,
        cast(func.sum(paid.calls), BigInteger).label("calls"),
        cast(func.sum(paid.tokens), BigInteger).label("tokens"),
        func.coalesce(func.sum(paid.cost_usd), 0.0).label("cost_usd"),
        cast(func.sum(case((paid.cost_usd.is_(None), paid.calls), else_=0)), BigInteger).label("unpriced_calls"),
    )
    query = select(*columns).group_by(day).order_by(day.desc())
    return {date(1970, 1, 1) + timedelta(days=int(row.day)): row for row in db.rows(query)}


LAST = 5
"""Batches that an expectation rests on."""
NORMAL = 1.959963984540054
"""The 0.975 quantile of the standard normal distribution."""
_ASKED = screenings.c.calls > 0
"""Texts that cannot be screened take no call, and no estimate counts on one for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Of ``texts`` that agents were asked about: calls a text, their standard deviation, dollars a call (None:
    unknown).
    """

    batches: int
    texts: int
    calls: float
    spread: float
    usd_a_call: float | None

    def interval(self, texts: int) -> tuple[float, float]:
        """Where the calls of so many further texts of the same kind lie in 95 of 100 such batches (normal
        approximation): the mean is itself known from ``texts`` only.

        >>> Spent(batches=1, texts=100, calls=10.0, spread=5.0, usd_a_call=None).interval(100)
        (861.4096175650322, 1138.5903824349678)
        """
        half = NORMAL * self.spread * sqrt(texts + texts**2 / self.texts)
        return max(0.0, texts * self.calls - half), texts * self.calls + half


def recent_spending(db: Database, actor: Actor, pipeline: str) -> Spent | None:
    """Over the last batches with this version of a pipeline; None where none of them has settled a text."""
    require(actor, Action.VIEW_BATCHES)
    recent = select(batches.c.id, configurations.c.body).join(configurations).where(batches.c.kind == "batch")
    with db.read() as conn:
        rows = conn.execute(recent.order_by(batches.c.created_at.desc()).limit(200))
        with_it = [row.id for row in rows if version_of(row.body["pipeline"]) == pipeline]
        known = standings(conn, with_it)
        likely = (one for one in with_it if known[one].totals.ended and known[one].totals.calls)
        asked = select(screenings.c.case_id).where(screenings.c.batch_id == bindparam("one"), _ASKED).limit(1)
        last = list(islice((one for one in likely if conn.execute(asked, {"one": one}).first()), LAST))
        of_these = screenings.c.batch_id.in_(last) & _ASKED
        calls = cast(screenings.c.calls, Float)
        sums = select(func.count(), func.sum(calls), func.sum(calls * calls)).where(of_these)
        texts, total, squares = conn.execute(sums).one()
    if not texts:
        return None
    used, mean = sum((known[one].totals for one in last), Totals()), total / texts
    price = None if not used.calls or used.unpriced_calls else used.cost_usd / used.calls
    spread = sqrt(max(0.0, squares - texts * mean**2) / (texts - 1)) if texts > 1 else mean
    return Spent(batches=len(last), texts=texts, calls=mean, spread=spread, usd_a_call=price)


def cost_by_node(db: Database, actor: Actor, batch_id: str) -> tuple[Row[Any], ...]:
    """What each agent (``node``) has used in a batch: ``texts``, ``calls``, ``input_tokens``, of which ``cached`` were
    read from the cache, ``output_tokens``; ``cost_usd`` is None where part of it is not known. Raises Forbidden.
    """
    require(actor, Action.VIEW_BATCHES)
    run = node_runs.c
    counts = {
        "texts": func.count(run.case_id.distinct()),
        "calls": func.sum(run.calls),
        "input_tokens": func.sum(run.input_tokens),
        "output_tokens": func.sum(run.output_tokens),
        "cached": func.sum(run.cache_read_tokens),
    }
    numbers = (cast(number, BigInteger).label(name) for name, number in counts.items())
    cost = case((func.count(run.cost_usd) == func.count(), func.sum(run.cost_usd))).label("cost_usd")
    query = select(run.node, *numbers, cost).where(run.batch_id == batch_id).group_by(run.node).order_by(run.node)
    return tuple(db.rows(query))
