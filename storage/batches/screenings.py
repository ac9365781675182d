"""What a case's job reads and commits: its start, its text and configuration, its runs, its outcome; each once."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, bindparam, exists, select

from screening.evaluation.audit import audit_coin
from screening.labels import Label, Outcome
from screening.pipeline.config import PipelineConfig
from screening.pipeline.draws import (
    Answer,
    ScreenedText,
    Usage,
    decode_draws,
    encode_draws,
    read_distribution,
)
from screening.pipeline.engine import MAIN, NodeRun, Reason, Screening, to_a_human
from screening.review.policy import SYSTEM
from screening.review.triage import Reach, audit_placement, priority_for
from screening.stopping.rules import Ended, Verdict
from screening.text.flags import REFUSES_SAFE, Flag
from storage.audit_log import append
from storage.batches import counts
from storage.batches.configurations import Configuration, load_configuration
from storage.batches.counts import PENDING, Kind, Totals
from storage.batches.entries import settle
from storage.batches.intake import SHOWN_TO_AGENTS, text_to_send
from storage.batches.pending import TAKE_OUT, UnknownCase, begin_start, end_starts, keep_error
from storage.database import Database, Source, insert_once, reading, record
from storage.schema.engine import case_errors, node_runs, screenings
from storage.schema.intake import batches, cases, pending_cases
from storage.schema.review import inbox_entries
from storage.settings_store import LATEST_BODY, SiteSettings, settings_of


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
    run, verdict = ended.run, ended.run.verdict
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
        "cost_usd": ended.cost_usd,
        "started_at": ended.started_at,
        "ended_at": ended.ended_at,
        **asdict(run.usage),
    }


def run_of(row: Row[Any]) -> NodeRun:
    """The run that `run_row` wrote: equal in node, variant, labels, answers, raw text and verdict.

    Tokens are kept for the run as a whole; they stand on its first call, so that their sum is right.
    """
    verdict = Verdict(label=None if row.label is None else Label(row.label), ended=Ended(row.ended), calls=row.calls)
    usage, distribution = record(Usage, row), None if row.distribution is None else read_distribution(row.distribution)
    if distribution is not None:
        distribution, usage = replace(distribution, usage=usage), Usage()
    draws = tuple(
        replace(draw, raw=row.unusable.get(str(at), ""), usage=Usage() if at else usage)
        for at, draw in enumerate(decode_draws(row.draws))
    )
    return NodeRun(node=row.node, variant=row.variant, draws=draws, verdict=verdict, distribution=distribution)


def committed_runs(db: Source, case_id: str) -> tuple[NodeRun, ...]:
    """The runs of a case that are kept, in order."""
    with reading(db) as conn:
        return tuple(map(run_of, conn.execute(_RUNS, {"one": case_id})))


_RUNS = select(node_runs).where(node_runs.c.case_id == bindparam("one")).order_by(node_runs.c.position)
"""Written once: every watching page asks it twice a second."""


def same_run(one: NodeRun, other: NodeRun) -> bool:
    """Whether both say the same: node, variant, draws and verdict; tokens are left out."""
    names = ("node", "variant", "codes", "calls", "verdict")
    return all(getattr(one, name) == getattr(other, name) for name in names)


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


class UnsafeCommit(ValueError):
    """An outcome that what is known of the case does not allow: the case stays pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseForScreening:
    """A case as its job needs it. ``flags`` were found in the text or the reply; ``seed`` is the batch's.

    Of a case that was begun: ``starts`` that have not ended, this one included; ``runs`` that are committed already;
    ``stopped`` where the site's stop button is pressed. ``decided``: it has its outcome, as `case_for_screening` alone
    tells.
    """

    case_id: str
    batch_id: str
    row: int
    text: ScreenedText
    flags: frozenset[str]
    configuration: Configuration
    seed: int
    interactive: bool
    starts: int = 0
    runs: tuple[NodeRun, ...] = ()
    stopped: bool = False
    decided: bool = False

    @property
    def pipeline(self) -> PipelineConfig:
        """The configuration's pipeline as it decides this case."""
        return self.configuration.pipeline


def case_for_screening(db: Database, case_id: str) -> CaseForScreening:
    """The case, also where it has its outcome. Raises UnknownCase."""
    with db.read() as conn:
        row = case_row(conn, case_id)
    return case_of(row, load_configuration(db, row.configuration), decided=row.outcome is not None)


def case_row(conn: Connection, case_id: str) -> Row[Any]:
    """The case with what its job and its commits need of its batch, its outcome if it has one, and the settings in
    force. Raises UnknownCase.
    """
    if (row := conn.execute(_CASE, {"wanted": case_id}).first()) is None:
        raise UnknownCase(case_id)
    return row


_NAMES = ("id", "batch_id", "row", "flags", "reference", "audit_probability", *SHOWN_TO_AGENTS)
_CASE = (
    select(*(cases.c[name] for name in _NAMES))
    .add_columns(*(batches.c[name] for name in ("seed", "kind", "configuration", "reach", "research_order")))
    .add_columns(
        screenings.c.outcome,
        pending_cases.c.starts.label("unended"),
        exists().where(node_runs.c.case_id == cases.c.id).label("begun"),
        LATEST_BODY.label("settings"),
    )
    .join(batches, batches.c.id == cases.c.batch_id)
    .outerjoin(screenings, screenings.c.case_id == cases.c.id)
    .outerjoin(pending_cases, pending_cases.c.case_id == cases.c.id)
    .where(cases.c.id == bindparam("wanted"))
)


def case_of(row: Row[Any], configuration: Configuration, **more: Any) -> CaseForScreening:
    """What `case_row` found, as its job takes it, with ``more`` that is known of it."""
    return CaseForScreening(
        case_id=row.id,
        batch_id=row.batch_id,
        row=row.row,
        text=text_to_send(row, configuration.texts),
        flags=frozenset(row.flags["text"] + row.flags["reply"]),
        configuration=configuration,
        seed=row.seed,
        interactive=row.kind == "interactive",
        **more,
    )


class End(StrEnum):
    """What became of an attempt to keep a case's outcome."""

    KEPT = "kept"
    RUN_LOST = "run_lost"  # another start committed a different last run first
    NOT_OURS = "not_ours"  # the case had an outcome, or its committed runs are another start's


def commit_run(db: Database, case_id: str, ended: EndedRun) -> bool:
    """Keep a node's run at its position. True when the run that stands there now is this one.

    False when another start committed a different run first: this one's calls are noted as lost, and whoever
    made them must go on from `committed_runs`, not from its own.
    """
    with db.write() as conn:
        case = case_row(conn, case_id)
        if not insert_once(conn, node_runs, run_row(case, ended)):
            return _stands(conn, case_id, ended)
        counts.add(conn, case.batch_id, case.row, {_waiting(case): 0}, ended.totals)
        _vouch_for_late_run(conn, case_id, ended.ended_at)
        end_starts(conn, case_id)  # it moves on: no start so far killed its worker by what comes next
        return True


def _vouch_for_late_run(conn: Connection, case_id: str, now: datetime) -> None:
    """A run that came after the outcome, of a start that another one overtook, is in an event of its own. Ask after the
    batch's counts were added to: whoever stores the outcome of this case at the same moment has then done so.
    """
    if conn.execute(select(screenings.c.case_id).where(screenings.c.case_id == case_id)).first() is not None:
        append(conn, SYSTEM.at(now), "run_after_outcome", case_id, {}, node_runs)


def _stands(conn: Connection, case_id: str, ended: EndedRun) -> bool:
    """Whether the run that another start committed there says the same; if not, this one's calls are lost."""
    stands = conn.execute(select(node_runs).filter_by(case_id=case_id, position=ended.position)).one()
    if stands.started_at != ended.started_at:
        calls = ended.run.verdict.calls + ended.lost_calls
        keep_error(conn, case_id, "run_lost", "another start was first", calls, ended.ended_at)
    return same_run(run_of(stands), ended.run)


def commit_end(
    db: Database,
    case_id: str,
    screening: Screening,
    cost_usd: float | None,
    configuration_version: str,
    now: datetime,
    last: EndedRun | None = None,
) -> End:
    """Keep a case's outcome once, and in the same transaction its ``last`` run where that is not committed yet, and its
    inbox entry where a person must look. While the stop button is pressed the outcome is that a person must.

    Raises UnsafeCommit for a ``safe`` that the last node did not identify or that the text's flags forbid; then
    nothing is kept.
    """
    with db.write() as conn:
        case = case_row(conn, case_id)
        settings = settings_of(case.settings)
        if settings.stopped and screening.outcome is not Outcome.HUMAN_REVIEW:
            screening = to_a_human(Reason.STOPPED, screening.runs)
        _require_allowed(screening, case)
        run = None if last is None else run_row(case, last)
        inserted = run is not None and insert_once(conn, node_runs, run)
        if last is not None and not inserted and not _stands(conn, case_id, last):
            return End.RUN_LOST
        spent = last.totals if last is not None and inserted else counts.NOTHING
        # Runs come in order: where the first was inserted just now, there is no other.
        only = run if inserted and last is not None and last.position == 0 else None
        committed = screening.runs[:1] if only else committed_runs(conn, case_id)
        row = _outcome_row(case, screening, cost_usd, configuration_version, now)
        if _follows_from(committed, screening) and insert_once(conn, screenings, row):
            entered = _end_case(conn, case, screening, row, spent, settings)
            inserted_rows = {screenings: [row]} | ({node_runs: [only]} if only else {})
            read = (*(() if only else (node_runs,)), *((inbox_entries,) if entered else ()))
            # last: nobody else writes from here on
            append(conn, SYSTEM.at(now), "decided", case_id, {}, *read, inserted=inserted_rows)
            return End.KEPT
        counts.add(conn, case.batch_id, case.row, {_waiting(case): 0}, spent)
        if inserted:
            _vouch_for_late_run(conn, case_id, now)
    return End.NOT_OURS  # its start stays without an end: a case on which this keeps happening goes to a human


def _end_case(
    conn: Connection,
    case: Row[Any],
    screening: Screening,
    row: Mapping[str, Any],
    spent: Totals,
    settings: SiteSettings,
) -> bool:
    """What follows from the outcome that was inserted just now; whether anything of it is in the inbox."""
    now = row["completed_at"]
    moved = {_waiting(case): -1, _kind(screening, case): 1}
    counts.add(conn, case.batch_id, case.row, moved, replace(spent, last_completed_at=now))
    conn.execute(TAKE_OUT, {"one": case.id})  # after the counts, in the order of all who write both
    found, placement = case.flags["text"] + case.flags["reply"], None
    read = case.reach == Reach.READ or Flag.STATED_IMMINENT in found  # whatever was chosen for the others
    if (read and screening.outcome is Outcome.UNSAFE) or screening.outcome is Outcome.HUMAN_REVIEW:
        placement = priority_for(screening, found)
    elif row["audited"]:
        placement = audit_placement(case.id, settings.audit_urgent_share, found)
    label = None if screening.outcome is Outcome.HUMAN_REVIEW else Label(screening.outcome.value)
    return settle(conn, case.id, placement, label, now, settings, research_order=case.research_order)


def _require_allowed(screening: Screening, case: Row[Any]) -> None:
    """The last barrier, independent of whatever computed the outcome: no ``safe`` without its grounds."""
    if screening.outcome is not Outcome.SAFE:
        return
    if not screening.runs or screening.runs[-1].verdict.label is not Label.SAFE:
        raise UnsafeCommit("safe, but the last node did not identify safe")
    if REFUSES_SAFE.intersection(case.flags["text"] + case.flags["reply"]):
        raise UnsafeCommit("safe, but what was found in the text forbids it")


def _follows_from(committed: Collection[NodeRun], screening: Screening) -> bool:
    """Whether the outcome rests on the very runs that are kept. Giving a case to a person needs no grounds."""
    if screening.outcome is Outcome.HUMAN_REVIEW:
        return True
    return len(committed) == len(screening.runs) and all(map(same_run, committed, screening.runs))


def _outcome_row(
    case: Row[Any], screening: Screening, cost_usd: float | None, configuration_version: str, now: datetime
) -> dict[str, Any]:
    """The outcome with by what lists find it, and the toss of the case's audit coin."""
    last = next((run for run in screening.runs if (run.node, run.variant) == (screening.node, MAIN)), None)
    first = screening.runs[0].verdict if screening.runs else None
    ended = first and (first.label if first.label and first.ended is Ended.IDENTIFIED else first.ended)
    return {
        "case_id": case.id,
        "batch_id": case.batch_id,
        "row": case.row,
        "configuration": configuration_version,
        "outcome": screening.outcome.value,
        "node": screening.node,
        "reason": screening.reason.value,
        "calls": screening.calls,
        "cost_usd": cost_usd,
        "delta": screening.delta,
        "completed_at": now,
        "kind": _kind(screening, case).key,
        "gap": last and gap_of(last),
        "first_end": ended and ended.value,
        "audit_probability": case.audit_probability,
        "audited": audit_coin(str(case.seed), case.id) < case.audit_probability,
    }


def _waiting(case: Row[Any]) -> Kind:
    return Kind(outcome=PENDING, reference=case.reference)


def _kind(screening: Screening, case: Row[Any]) -> Kind:
    reason, node = screening.reason.value, screening.node
    return Kind(outcome=screening.outcome.value, reference=case.reference, node=node, reason=reason)


class Suspect(Exception):
    """Workers died over this case: it was not begun, and may be only with ``alone``."""


def start_case(db: Database, case_id: str, worker: str, *, suspect_after: int | None = None) -> CaseForScreening | None:
    """Begin a case; None, and nothing noted, where it has its outcome.

    Raises UnknownCase, and Suspect instead of beginning a case that has ``suspect_after`` unended starts or more.
    """
    with db.write() as conn:
        row = case_row(conn, case_id)
        if row.outcome is not None:
            return None
        if suspect_after is not None and row.unended >= suspect_after:
            raise Suspect(case_id)
        if (starts := begin_start(conn, case_id, worker)) is None:
            return None
        runs = committed_runs(conn, case_id) if row.begun else ()
    stopped = settings_of(row.settings).stopped
    return case_of(row, load_configuration(db, row.configuration), starts=starts, runs=runs, stopped=stopped)


def give_back(db: Database, case: CaseForScreening, now: datetime, *, calls: int) -> None:
    """Note that the attempt ended in an orderly way without an outcome: capped, cancelled, shut down.

    ``calls`` were paid for draws of a node that did not end: they are lost, and count towards the batch's caps.
    """
    with db.write() as conn:
        if calls:
            # what it waits for a retry request with already stays its last error
            parked = (pending_cases.c.case_id == case.case_id, pending_cases.c.ready_at.is_(None))
            last = select(case_errors.c.kind).join(pending_cases, pending_cases.c.case_id == case_errors.c.case_id)
            known = conn.execute(last.where(*parked).order_by(case_errors.c.id.desc()).limit(1)).scalar()
            keep_error(conn, case.case_id, known or "withdrawn", "broken off in the middle of a node", calls, now)
        end_starts(conn, case.case_id)
