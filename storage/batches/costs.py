"""What the agents cost, day by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, timedelta, tzinfo
from math import sqrt
from typing import Any

from sqlalchemy import BigInteger, Connection, Float, Row, case, cast, func, select, type_coerce, union_all

from screening.pipeline.config import version_of
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from storage.database import Database
from storage.schema import batches, comparison_outcomes, configurations, node_runs, screenings

_DAY_US = 86_400_000_000


def daily_costs(db: Database, by: Acting, days: int = 30, zone: tzinfo = UTC) -> dict[date, Row[Any]]:
    """The last days with calls, the newest first: their ``calls``, ``tokens``, known ``cost_usd``, and
    ``unpriced_calls`` whose price is not known. Calls that decide, on the day their node ended, and those of
    comparisons, on the day their case was done; days are those of a zone, as far ahead of UTC as it is now. Raises
    Forbidden.
    """
    require(by.actor, Action.VIEW_BATCHES)
    since = by.now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days - 1)
    ahead = by.now.astimezone(zone).utcoffset() or timedelta()
    run, tried = node_runs.c, comparison_outcomes.c
    paid = union_all(
        select(run.ended_at.label("at"), run.calls, (run.input_tokens + run.output_tokens).label("tokens"),
               run.cost_usd).where(run.ended_at >= since),
        select(tried.at, tried.calls, tried.tokens, tried.cost_usd).where(tried.at >= since),
    ).subquery().c  # fmt: skip
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
    """Of ``texts`` settled texts that agents were asked about: calls a text, their standard deviation, and dollars a
    call (None: not known).
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
    """Over the last batches with this version of a pipeline; None where none of them has settled a text.
    Raises Forbidden.
    """
    require(actor, Action.VIEW_BATCHES)
    with db.read() as conn:
        ids = _last_batches(conn, pipeline)
        of_these = screenings.c.batch_id.in_(ids) & _ASKED
        calls = cast(screenings.c.calls, Float)
        sums = select(func.count(), func.sum(calls), func.sum(calls * calls)).where(of_these)
        texts, total, squares = conn.execute(sums).one()
        if not texts:
            return None
        run = node_runs.c
        paid = select(func.sum(run.calls), func.sum(run.cost_usd), func.count(run.cost_usd) < func.count())
        made, cost, unknown = conn.execute(paid.where(run.batch_id.in_(ids))).one()
    price = None if not made or unknown else float(cost) / int(made)
    mean = total / texts
    spread = sqrt(max(0.0, squares - texts * mean**2) / (texts - 1)) if texts > 1 else mean
    return Spent(batches=len(ids), texts=texts, calls=mean, spread=spread, usd_a_call=price)


def _last_batches(conn: Connection, pipeline: str) -> Sequence[str]:
    """The newest batches of files that were screened with it."""
    table = batches.c
    recent = select(table.id, table.configuration).where(table.kind == "batch").order_by(table.created_at.desc())
    found = conn.execute(recent.limit(200)).all()
    versions = {row.configuration for row in found}
    bodies = conn.execute(select(configurations).where(configurations.c.version.in_(versions)))
    same = {row.version for row in bodies if version_of(row.body["pipeline"]) == pipeline}
    with_it = (row.id for row in found if row.configuration in same)
    settled = select(screenings.c.batch_id).distinct().where(screenings.c.batch_id.in_(list(with_it)), _ASKED)
    known = set(conn.execute(settled).scalars())
    return [row.id for row in found if row.id in known][:LAST]


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
