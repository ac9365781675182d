"""A node's run as a row and back: every draw as one character, the text of unusable answers beside them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, select

from screening.labels import Label
from screening.pipeline.draws import Answer, Draw, Usage, decode_draws, encode_draws, read_distribution, unusable
from screening.pipeline.engine import NodeRun
from screening.stopping.rules import Ended, Verdict
from storage.batches.counts import Totals
from storage.database import record
from storage.schema import node_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A node's run that is to be kept at its position; ``lost_calls`` were paid for beside it and brought no draw."""

    position: int
    run: NodeRun
    cost_usd: float | None
    started_at: datetime
    ended_at: datetime
    lost_calls: int = 0

    @property
    def totals(self) -> Totals:
        """What it adds to its batch's sums."""
        calls = self.run.verdict.calls
        unpriced, cost_usd = calls if self.cost_usd is None else 0, self.cost_usd or 0.0
        return Totals(calls=calls, lost_calls=self.lost_calls, unpriced_calls=unpriced, cost_usd=cost_usd)


def run_row(case: Row[Any], ended: EndedRun) -> dict[str, Any]:
    """The row of a node's run of this case, of which ``id``, ``batch_id`` and ``row`` are known."""
    run = ended.run
    usage, verdict = run.usage, run.verdict
    return {
        "case_id": case.id,
        "batch_id": case.batch_id,
        "row": case.row,
        "position": ended.position,
        "node": run.node,
        "variant": run.variant,
        "draws": encode_draws(run.draws),
        "unusable": {str(at): draw.raw for at, draw in enumerate(run.draws) if draw.answer is not Answer.LABEL},
        "label": None if verdict.label is None else verdict.label.value,
        "ended": verdict.ended.value,
        "calls": run.calls,
        "lost_calls": ended.lost_calls,
        "distribution": run.distribution and run.distribution.code,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost_usd": ended.cost_usd,
        "started_at": ended.started_at,
        "ended_at": ended.ended_at,
    }


def run_of(row: Row[Any]) -> NodeRun:
    """The run that `run_row` wrote: equal in node, variant, labels, answers, raw text and verdict.

    Tokens are kept for the run as a whole; they stand on its first call, so that their sum is right.
    """
    verdict = Verdict(label=None if row.label is None else Label(row.label), ended=Ended(row.ended), calls=row.calls)
    usage, distribution = _usage(row), None if row.distribution is None else read_distribution(row.distribution)
    if distribution is not None:
        distribution, usage = replace(distribution, usage=usage), Usage()
    return NodeRun(
        node=row.node, variant=row.variant, draws=_draws(row, usage), verdict=verdict, distribution=distribution
    )


def runs_of(conn: Connection, case_id: str) -> tuple[NodeRun, ...]:
    """The committed runs of a case, in order."""
    return tuple(run_of(row) for row in conn.execute(_runs_of_one(), {"one": case_id}))


@cache
def _runs_of_one() -> Select[Any]:
    """The query, written once: every watching page asks it twice a second."""
    return select(node_runs).where(node_runs.c.case_id == bindparam("one")).order_by(node_runs.c.position)


def same_run(one: NodeRun, other: NodeRun) -> bool:
    """Whether both say the same: node, variant, draws and verdict; tokens are left out."""
    return (one.node, one.variant, one.codes, one.calls, one.verdict) == (
        other.node,
        other.variant,
        other.codes,
        other.calls,
        other.verdict,
    )


def gap_of(run: NodeRun) -> float | None:
    """(most frequent − second) / draws, where what is neither safe nor unsafe counts as escalate; without draws the
    gap of the distribution that was read off, None without either.
    """
    if not run.draws:
        return None if run.distribution is None else run.distribution.gap
    codes = encode_draws(run.draws)
    safe, unsafe = codes.count("S"), codes.count("U")
    _, second, most = sorted((safe, unsafe, len(codes) - safe - unsafe))
    return (most - second) / len(codes)


def _usage(row: Row[Any]) -> Usage:
    return record(Usage, row)


def _draws(row: Row[Any], total: Usage) -> tuple[Draw, ...]:
    raw: Mapping[str, str] = row.unusable
    return tuple(
        restore_draw(draw, raw.get(str(at), ""), total if at == 0 else Usage())
        for at, draw in enumerate(decode_draws(row.draws))
    )


def restore_draw(draw: Draw, raw: str, usage: Usage) -> Draw:
    """The draw that was decoded, with the text of an unusable answer."""
    if draw.answer is Answer.LABEL:
        return Draw(label=draw.label, usage=usage)
    return unusable(draw.answer, raw, usage)
