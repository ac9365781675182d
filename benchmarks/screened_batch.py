"""One settled batch of any size in a database: draws as agents in two minds give them, labels, an inbox, readings."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import Table, insert

from benchmarks.inbox import analyse
from screening.engine.pipeline import preset
from screening.labels import LABELS
from screening.research.replay import OUTCOMES, NodeRecord, Record, Replay, replay
from screening.statistics.rules.runs import ENDS, NONE
from screening.statistics.verification import audit_coin
from storage.batches.configurations import Configuration, save_configuration
from storage.database import Database
from storage.kinds import Kind
from storage.schema import (
    adjudications,
    batch_events,
    batch_tallies,
    batches,
    cases,
    inbox_entries,
    kind_tallies,
    node_runs,
    ratings,
    screenings,
)

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
PIPELINE = preset("certified")
AUDITED = 0.05
CHUNK = 5_000
CODES = {"safe": "S", "unsafe": "U", "escalate": "E"}
Rows = dict[str, list[dict[str, object]]]
TABLES: tuple[Table, ...] = (cases, screenings, node_runs, inbox_entries, ratings, adjudications)


def fill(db: Database, number: int, batch_id: str = "bench") -> None:
    """So many cases of which a fifth are truly unsafe; a label in twenty is wrong; the audited are read, a third of
    them by two. One text in ten is hard: its agents give their usual answer in six of ten draws or fewer.
    """
    configuration = Configuration(pipeline=PIPELINE, sampler={"sampler": "bench"})
    version = save_configuration(db, configuration, NOW)
    batch = {"id": batch_id, "name": f"{batch_id}.csv", "kind": "batch", "configuration": version, "seed": 0,
             "intake": {}, "audit_rate": AUDITED, "reach": "count", "created_by": "local",
             "created_at": NOW}  # fmt: skip
    closed = {"batch_id": batch_id, "event": "intake_closed", "detail": {}, "actor": "system", "at": NOW}
    random, kinds, outcomes, calls = np.random.default_rng(1), Counter[str](), Counter[str](), 0
    with db.write() as conn:
        conn.execute(insert(batches), batch)
        conn.execute(insert(batch_events), closed)
    for start in range(0, number, CHUNK):
        made = _chunk(range(start, min(start + CHUNK, number)), batch_id, version, random)
        with db.write() as conn:
            for table in TABLES:
                if made[table.name]:
                    conn.execute(insert(table), made[table.name])
        kinds += Counter(str(row["kind"]) for row in made["screenings"])
        outcomes += Counter(str(row["outcome"]) for row in made["screenings"])
        calls += sum(int(str(row["calls"])) for row in made["screenings"])
    tally = {"batch_id": batch_id, "shard": 0, "accepted": number, "calls": calls, "last_completed_at": NOW}
    with db.write() as conn:
        conn.execute(insert(batch_tallies), tally | outcomes)
        counted = [{"batch_id": batch_id, "shard": 0, "kind": kind, "cases": n} for kind, n in kinds.items()]
        conn.execute(insert(kind_tallies), counted)
    analyse(db)


def _chunk(rows: range, batch_id: str, version: str, random: np.random.Generator) -> Rows:
    """The rows of these cases, by table."""
    truth = random.random(len(rows)) < 0.2
    drawn = _draw_record(truth, random)
    ran = replay(PIPELINE, drawn)
    wrong, chances = random.random(len(rows)) < 0.05, random.random((len(rows), 3))
    made: Rows = {table.name: [] for table in TABLES}
    for place, row in enumerate(rows):
        case = _Case(
            place=place, row=row, batch_id=batch_id, version=version,
            reference="unsafe" if truth[place] ^ wrong[place] else "safe", chances=chances[place],
        )  # fmt: skip
        for name, one in case.rows(drawn, ran):
            made[name].append(one)
    return made


def _draw_record(truth: np.ndarray, random: np.random.Generator) -> Record:
    """A budget of draws at each node: what a text's agents usually answer, how often, and what they answer else."""
    number, nodes = len(truth), {}
    hard = random.random(number) < 0.1
    usual = np.where(hard, random.uniform(0.4, 0.6, number), 1 - random.beta(1, 12, number))
    modes = np.where(hard & (random.random(number) < 0.5), random.integers(0, 3, number), truth.astype(np.int64))
    for node in PIPELINE.nodes:
        budget = node.rule.rule().budget
        other = (modes[:, None] + random.integers(1, len(LABELS), (number, budget))) % len(LABELS)
        draws = np.where(random.random((number, budget)) < usual[:, None], modes[:, None], other)
        sizes = np.full(number, budget, dtype=np.int64)
        nodes[node.name] = NodeRecord(draws=draws.astype(np.uint8), sizes=sizes, of=np.arange(number))
    return Record(cases=number, nodes=nodes)


class _Case:
    """One case, by its place in the chunk and its row in the file."""

    def __init__(
        self, *, place: int, row: int, batch_id: str, version: str, reference: str, chances: np.ndarray
    ) -> None:
        self.place, self.row, self.batch_id, self.version = place, row, batch_id, version
        self.reference, self.chances = reference, chances
        self.id = f"{batch_id[:1]}{row:031d}"
        self.at = NOW + timedelta(seconds=row)
        self.audited = audit_coin("0", self.id) < AUDITED

    def rows(self, drawn: Record, ran: Replay) -> Iterator[tuple[str, dict[str, object]]]:
        """Its rows with their tables' names."""
        runs = list(self._runs(drawn, ran))
        outcome = OUTCOMES[ran.outcome[self.place]].value
        screening = self._screening(outcome, runs)
        yield "cases", {
            "id": self.id, "batch_id": self.batch_id, "row": self.row + 1, "external_id": f"p{self.row}",
            "text": "A text.", "text_sha256": "0" * 64, "flags": {"text": [], "reply": []}, "priority": 1,
            "created_at": NOW, "reference": self.reference, "audit_probability": AUDITED, "audited": self.audited,
        }  # fmt: skip
        yield "screenings", screening
        yield from (("node_runs", run) for run in runs)
        yield from self._reading(screening)

    def _runs(self, drawn: Record, ran: Replay) -> Iterator[dict[str, Any]]:
        for position, node in enumerate(PIPELINE.nodes):
            end = ENDS[ran.ended[position, self.place]] if ran.ended[position, self.place] > NONE else None
            calls = int(ran.calls[position, self.place])
            if not calls or end is None:
                continue
            draws = "".join(CODES[LABELS[each].value] for each in drawn.nodes[node.name].draws[self.place, :calls])
            counts = Counter(draws)
            label = max(LABELS, key=lambda one: counts[CODES[one.value]]).value if end.value == "identified" else None
            tokens = 200 + self.row % 90
            yield {
                "case_id": self.id, "position": position, "node": node.name, "variant": "main", "draws": draws,
                "unusable": {}, "label": label, "ended": end.value, "calls": calls, "input_tokens": calls * tokens,
                "output_tokens": calls, "cache_read_tokens": 0, "cache_write_tokens": 0,
                "cost_usd": calls * tokens * 1e-6, "started_at": self.at, "ended_at": self.at,
                "batch_id": self.batch_id, "row": self.row + 1,
            }  # fmt: skip

    def _screening(self, outcome: str, runs: list[dict[str, Any]]) -> dict[str, object]:
        last = runs[-1]
        kind = Kind(outcome=outcome, reference=self.reference, node=last["node"], reason=last["ended"])
        return {
            "case_id": self.id, "batch_id": self.batch_id, "configuration": self.version, "outcome": outcome,
            "node": last["node"], "reason": last["ended"], "calls": sum(run["calls"] for run in runs),
            "cost_usd": 0.0, "delta": 0.05, "first_end": runs[0]["label"] or runs[0]["ended"],
            "doubt": "none" if outcome == "safe" else None, "audited": self.audited, "audit_probability": AUDITED,
            "completed_at": self.at, "kind": kind.key, "row": self.row + 1, "gap": 0.5,
        }  # fmt: skip

    def _reading(self, screening: Mapping[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
        if not self.audited and screening["outcome"] != "human_review":
            return
        closed = self.at + timedelta(hours=2) if self.audited else None
        yield "inbox_entries", {
            "case_id": self.id, "tier": 2, "why": "unsettled", "entered_at": self.at, "due_at": self.at,
            "reading": "first", "closed_at": closed,
            **{name: screening[name] for name in ("batch_id", "kind", "calls", "cost_usd")},
        }  # fmt: skip
        if not self.audited:
            return
        label = self.reference if self.chances[0] < 0.9 else "unsafe" if self.reference == "safe" else "safe"
        given = [("first", label)] + ([("second", self.reference)] if self.chances[1] < 1 / 3 else [])
        for number, (reading, said) in enumerate(given):
            yield "ratings", self._rating(number, reading, said, closed)
        yield "adjudications", {
            "case_id": self.id, "version": 1, "label": given[-1][1], "method": "single", "by": f"r{self.row % 7}",
            "rating_ids": [], "at": closed,
        }  # fmt: skip

    def _rating(self, number: int, reading: str, label: str, at: datetime | None) -> Mapping[str, object]:
        return {
            "case_id": self.id, "reviewer": f"r{(self.row + number) % 7}", "version": 1, "reading": reading,
            "blind": True, "label": label, "certainty": 4, "fields": {"ideation": 3 if label == "unsafe" else 0},
            "id": f"{number}{self.id[1:]}", "at": at, "tier": 2,
        }  # fmt: skip
