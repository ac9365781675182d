"""Batches for tests: begun, filled and decided in one line each."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import select

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.pipeline.config import preset
from screening.pipeline.draws import Answer, Draw, Usage, unusable
from screening.pipeline.engine import MAIN, NodeRun, Reason, Screening
from screening.review.policy import LOCAL_USER
from screening.review.triage import Reach
from screening.stopping.rules import Ended, Verdict
from screening.text.received import receive
from storage.batches import pending, screenings
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import Configuration, save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.batches.results import export_results
from storage.batches.screenings import EndedRun
from storage.batches.single_texts import submit
from storage.database import Database
from storage.schema import cases

NOW = datetime(2026, 11, 20, 12, 0, 0, 123_456, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
results = partial(export_results, again=True)
CONFIGURATION = Configuration(
    pipeline=preset("recommended"), sampler={"sampler": "simulated", "seed": 7}, texts={"limit": 100_000}
)
KINDS = {
    "S": Draw(label=Label.SAFE),
    "U": Draw(label=Label.UNSAFE),
    "E": Draw(label=Label.ESCALATE),
    "?": unusable(Answer.UNPARSABLE, "perhaps"),
    "!": unusable(Answer.REFUSAL, "I cannot help"),
}


def batch(
    db: Database,
    texts: Iterable[str] = (),
    *,
    reach: Reach = Reach.COUNT,
    closed: bool = True,
    references: str = "",
    audit_rate: float = 0.0,
    **options: Any,
) -> str:
    """A batch with one case a text, by the local user; ``references`` has an S, a U or a dash for each."""
    version = save_configuration(db, CONFIGURATION, NOW)
    new = NewBatch(name="posts.csv", reach=reach, **options)
    batch_id = create_batch(db, LOCAL_USER.at(NOW), new, version, seed=7, audit_rate=audit_rate)
    labels = [{"S": Label.SAFE, "U": Label.UNSAFE}.get(one) for one in references]
    rows = [
        NewCase(row=row, external_id=f"p{row}", text=receive(text), reference=labels[row - 1] if labels else None)
        for row, text in enumerate(texts, start=1)
    ]
    add_rows(db, batch_id, rows, NOW)
    if closed:
        close_intake(db, LOCAL_USER.at(NOW), batch_id)
    return batch_id


def hand_in(db: Database, submission: str | None, text: str = "Some words to screen.") -> str:
    """The case of a text that the local user hands in by itself."""
    version = save_configuration(db, CONFIGURATION, NOW)
    new = NewBatch(name="one", kind="interactive", submission=submission)
    batch_id = create_batch(db, LOCAL_USER.at(NOW), new, version, seed=1)
    return submit(db, LOCAL_USER.at(NOW), batch_id, NewCase(row=1, external_id="text", text=receive(text)))


def ids_of(db: Database, batch_id: str) -> list[str]:
    """The batch's cases, in the file's order."""
    return db.values(select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row))


def waiting(db: Database, limit: int = 1_000) -> list[str]:
    """What may be started now."""
    return pending.pending_cases(db, limit)


def run(codes: str, label: Label | None = Label.SAFE, node: str = "worker", tokens: int = 100) -> NodeRun:
    """A node's run with these draws, identified as ``label``, or exhausted."""
    draws = tuple(
        Draw(label=one.label, answer=one.answer, raw=one.raw, usage=Usage(input_tokens=tokens, output_tokens=2))
        for one in (KINDS[code] for code in codes)
    )
    ended = Ended.EXHAUSTED if label is None else Ended.IDENTIFIED
    return NodeRun(node=node, variant=MAIN, draws=draws, verdict=Verdict(label=label, ended=ended, calls=len(codes)))


def screening(
    outcome: Outcome, *runs: NodeRun, reason: Reason = Reason.IDENTIFIED, node: str | None = "worker"
) -> Screening:
    """An outcome that rests on these runs."""
    return Screening(outcome=outcome, node=node, reason=reason, runs=runs, delta=0.05)


def commit_run(
    db: Database, case_id: str, position: int, made: NodeRun, cost_usd: float | None = 0.01, began: datetime = NOW
) -> bool:
    """Commit a run that took a second."""
    times = {"started_at": began, "ended_at": began + timedelta(seconds=1)}
    return screenings.commit_run(db, case_id, EndedRun(position=position, run=made, cost_usd=cost_usd, **times))


def commit(db: Database, case_id: str, ended: Screening, cost_usd: float | None = 0.01) -> bool:
    """Commit an outcome."""
    return screenings.commit_end(db, case_id, ended, cost_usd, CONFIGURATION.version, LATER) is screenings.End.KEPT


def decide(db: Database, case_id: str, outcome: Outcome = Outcome.SAFE, cost_usd: float | None = 0.01) -> None:
    """Bring a case to this outcome in one run of six draws at the worker."""
    label = {Outcome.SAFE: Label.SAFE, Outcome.UNSAFE: Label.UNSAFE}.get(outcome)
    made = run({Label.SAFE: "SSSSSS", Label.UNSAFE: "UUUUUU", None: "SESESE"}[label], label)
    reason = Reason.IDENTIFIED if label else Reason.EXHAUSTED
    assert commit_run(db, case_id, 0, made, cost_usd)
    assert commit(db, case_id, screening(outcome, made, reason=reason), cost_usd)


def record_start(db: Database, case_id: str, worker: str = "worker") -> int | None:
    """Let a worker begin the case; how many starts, this one included, have not ended."""
    with db.write() as conn:
        return pending.begin_start(conn, case_id, worker)
