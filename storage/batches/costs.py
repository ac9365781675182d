"""What the agents cost, day by day."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import BigInteger, case, func, select, type_coerce

from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.database import Database
from storage.schema import node_runs

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCost:
    """One UTC day. ``cost_usd`` sums what is known; ``unpriced_calls`` had no known price and are not in it."""

    day: date
    calls: int
    tokens: int
    cost_usd: float
    unpriced_calls: int


def daily_costs(db: Database, actor: Actor, now: datetime, days: int = 30) -> tuple[DayCost, ...]:
    """The last days with calls, the newest first; node runs count on the day they ended."""
    require(actor, Action.VIEW_BATCHES)
    run = node_runs.c
    day = (type_coerce(run.ended_at, BigInteger) // _DAY_US).label("day")
    columns = (
        day,
        func.sum(run.calls).label("calls"),
        func.sum(run.input_tokens + run.output_tokens).label("tokens"),
        func.coalesce(func.sum(run.cost_usd), 0.0).label("cost_usd"),
        func.sum(case((run.cost_usd.is_(None), run.calls), else_=0)).label("unpriced_calls"),
    )
    since = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days - 1)
    query = select(*columns).where(run.ended_at >= since).group_by(day).order_by(day.desc())
    with db.read() as conn:
        rows = conn.execute(query).all()
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
