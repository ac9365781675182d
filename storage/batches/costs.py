"""What the agents cost, day by day."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from sqlalchemy import BigInteger, case, func, select, type_coerce, union_all

from screening.review.actors import Acting
from screening.review.policy import Action, require
from storage.database import Database
from storage.schema import comparison_outcomes, node_runs

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCost:
    """One UTC day. ``cost_usd`` sums what is known; ``unpriced_calls`` had no known price and are not in it."""

    day: date
    calls: int
    tokens: int
    cost_usd: float
    unpriced_calls: int


def daily_costs(db: Database, by: Acting, days: int = 30, zone: tzinfo = UTC) -> tuple[DayCost, ...]:
    """The last days with calls, the newest first: those that decide, on the day their node ended, and those of
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
        func.sum(paid.calls).label("calls"),
        func.sum(paid.tokens).label("tokens"),
        func.coalesce(func.sum(paid.cost_usd), 0.0).label("cost_usd"),
        func.sum(case((paid.cost_usd.is_(None), paid.calls), else_=0)).label("unpriced_calls"),
    )
    query = select(*columns).group_by(day).order_by(day.desc())
    rows = db.rows(query)
    return tuple(
        DayCost(
            day=(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=int(row.day))).date(),
            calls=int(row.calls),
            tokens=int(row.tokens),
            cost_usd=float(row.cost_usd),
            unpriced_calls=int(row.unpriced_calls),
        )
        for row in rows
    )
