"""What the worker takes and keeps of comparisons: the next cases, what came of them, which calls were lost."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, exists, select, update

from screening.pipeline.draws import Usage
from screening.pipeline.engine import Screening
from storage.batches.batch_state import Caps
from storage.batches.configurations import UnreadableConfiguration, load_configuration
from storage.batches.counts import Totals
from storage.batches.screenings import CaseForScreening, case_of
from storage.database import Database, insert_once
from storage.research.comparisons import spendings
from storage.schema import batches, cases, comparison_outcomes, comparisons, screenings
from storage.visibility import was_erased


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The next cases of one comparison, its caps, and what it has cost so far."""

    comparison_id: str
    cases: tuple[CaseForScreening, ...]
    caps: Caps
    totals: Totals


class UnreadableComparison(Exception):
    """This version of the program can't read the second pipeline of the comparison of this id."""

    def __init__(self, comparison_id: str) -> None:
        super().__init__(comparison_id)
        self.comparison_id = comparison_id


def next_due(db: Database, limit: int, put_off: Collection[str] = ()) -> Due | None:
    """The next cases of the oldest comparison that has any, without those that are ``put_off``; None without any.
    Raises UnreadableComparison, also while others have cases: it has to end first.
    """
    with db.read() as conn:
        spent = spendings(conn)
        running = select(comparisons).where(comparisons.c.ended_at.is_(None)).order_by(comparisons.c.created_at)
        for one in conn.execute(running).all():
            left = min(limit, one.most_cases - spent[one.id].accepted)
            if left > 0 and (rows := conn.execute(_cases_to_screen(one, put_off).limit(left)).all()):
                break
        else:
            return None
    try:
        configuration = load_configuration(db, one.configuration)
    except UnreadableConfiguration:
        raise UnreadableComparison(one.id) from None
    found = tuple(case_of(row, configuration) for row in rows)
    caps = Caps(max_calls=one.max_calls, max_cost_usd=one.max_cost_usd)
    return Due(comparison_id=one.id, cases=found, caps=caps, totals=spent[one.id])


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What the second pipeline made of a case, at what cost (None: unknown) and in how many seconds."""

    comparison_id: str
    case_id: str
    found: Screening
    cost_usd: float | None
    seconds: float


def keep_compared(db: Database, one: Compared, now: datetime) -> bool:
    """Store the result once; returns whether it was the first. The cost of a second result is counted as lost."""
    found, usage = one.found, sum((run.usage for run in one.found.runs), Usage())
    row = {
        "comparison_id": one.comparison_id,
        "case_id": one.case_id,
        "outcome": found.outcome.value,
        "node": found.node,
        "reason": found.reason.value,
        "calls": found.calls,
        "tokens": usage.input_tokens + usage.output_tokens,
        "cost_usd": one.cost_usd,
        "seconds": one.seconds,
        "draws": {f"{run.node}/{run.variant}": run.codes for run in found.runs},
        "at": now,
    }
    with db.write() as conn:
        if kept := insert_once(conn, comparison_outcomes, row):
            return kept
        _lose(conn, one.comparison_id, found.calls)
    return False


def lose_calls(db: Database, comparison_id: str, calls: int) -> None:
    """Count calls that were paid for but led to no outcome: they count towards the caps."""
    with db.write() as conn:
        _lose(conn, comparison_id, calls)


def _lose(conn: Connection, comparison_id: str, calls: int) -> None:
    more = update(comparisons).where(comparisons.c.id == comparison_id)
    conn.execute(more.values(lost_calls=comparisons.c.lost_calls + calls))


def _cases_to_screen(one: Row[Any], put_off: Collection[str]) -> Select[Any]:
    """Settled cases that the comparison has not screened yet: in the file's order. What was erased is not asked of
    anybody.
    """
    compared = comparison_outcomes.c
    kept = exists().where(compared.comparison_id == one.id, compared.case_id == cases.c.id)
    query = select(cases, batches.c.seed, batches.c.kind).join(batches, batches.c.id == cases.c.batch_id)
    left = ~kept, ~was_erased(cases.c.id), cases.c.id.not_in(put_off)
    settled = query.join(screenings, screenings.c.case_id == cases.c.id).where(*left)
    return settled.where(cases.c.batch_id == one.batch_id).order_by(cases.c.row)
