"""A database as the first version left it, with work under way, is brought up to date in place and goes on."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, MetaData, func, insert, select, update

from screening.engine.pipeline import preset
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.text.received import receive
from storage.audit_log import append
from storage.batches.batches import list_batches, progress
from storage.batches.configurations import Configuration, save_configuration
from storage.batches.pending import pending_cases
from storage.batches.tallies import SHARDS
from storage.database import Database
from storage.kinds import kinds
from storage.migrations import upgrade
from storage.review import claims
from storage.schema import inbox_entries, node_runs, screenings
from tests.storage.batch_of import CONFIGURATION, NOW, decide
from tests.storage.inbox_cases import ANN, BO, register
from tests.storage.recount import recount_kinds

CASES = 40
IDS = [f"{number:032x}" for number in range(1, CASES + 1)]
BATCH = "b" * 32
GAPS = {"SSSUUE": 1 / 6, "SSSSSS": 1.0, "SSEEUU": 0.0, "?UUUEU": 2 / 6}
"""The draws of the first cases, and how far the most frequent answer leads."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def first_version(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """The tables of the first migration, with a running batch, half of it screened, and an open lease."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    if request.param == "postgresql":
        url = str(request.getfixturevalue("postgresql_url"))
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("DROP SCHEMA public CASCADE")
            admin.execute("CREATE SCHEMA public")
    old = Database(url)
    with old.write() as conn:
        upgrade(conn, "0001")
        _used(conn)
    yield old
    old.close()


def _used(conn: Connection) -> None:
    tables = MetaData()
    tables.reflect(conn)
    now = round(NOW.timestamp() * 1_000_000)

    def put(table: str, *rows: dict[str, Any]) -> None:
        known = tables.tables[table].columns.keys()
        conn.execute(insert(tables.tables[table]), [{k: v for k, v in row.items() if k in known} for row in rows])

    configuration = Configuration(pipeline=preset("recommended"), sampler={"sampler": "simulated"})
    body = configuration.model_dump(mode="json") if hasattr(configuration, "model_dump") else {}
    put("configurations", {"version": "v1", "body": body, "content": body, "created_at": now})
    put(
        "batches",
        {"id": BATCH, "name": "old", "kind": "batch", "configuration": "v1", "seed": 0, "audit_rate": 0.0,
         "intake": {}, "created_by": LOCAL_USER.id, "created_at": now},
    )  # fmt: skip
    put("batch_events", {"batch_id": BATCH, "event": "intake_closed", "detail": {}, "actor": "system", "at": now})
    text = receive("A quiet day by the lake.")
    case = {
        "batch_id": BATCH, "text": text.model_text, "model_text": text.model_text, "flags": {"text": [], "reply": []},
        "text_sha256": "0" * 64, "priority": 1, "audit_probability": 0.0, "audited": False, "created_at": now,
    }  # fmt: skip
    put("cases", *({**case, "id": id_, "row": row, "external_id": f"p{row}"} for row, id_ in enumerate(IDS, 1)))
    put("pending_cases", *({"case_id": id_, "batch_id": BATCH, "row": row, "ready_at": now}
                           for row, id_ in enumerate(IDS, 1) if row > CASES // 2))  # fmt: skip
    ended = {"batch_id": BATCH, "configuration": "v1", "outcome": "human_review", "reason": "escalated", "calls": 6,
             "node": "worker", "completed_at": now}  # fmt: skip
    put("screenings", *({**ended, "case_id": id_} for id_ in IDS[: CASES // 2]))
    run = {"position": 0, "node": "worker", "variant": "main", "unusable": {}, "ended": "exhausted", "calls": 6,
           "started_at": now, "ended_at": now}  # fmt: skip
    run |= dict.fromkeys(("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"), 0)
    put("node_runs", *({**run, "case_id": id_, "draws": draws} for id_, draws in zip(IDS, GAPS, strict=False)))
    tallies = {"accepted": CASES, "human_review": CASES // 2, "rejected": 0, "safe": 0, "unsafe": 0, "calls": 120,
               "unpriced_calls": 0, "lost_calls": 0, "cost_usd": 0.0}  # fmt: skip
    nothing = dict.fromkeys(tallies, 0)
    put("batch_tallies", *({"batch_id": BATCH, "shard": n, **(nothing if n else tallies)} for n in range(SHARDS)))
    entry = {"tier": 1, "why": "person_needed", "entered_at": now, "due_at": now, "reading": "first"}
    leased = {"holder": BO.id, "token": "t", "lease_expires_at": now + 3_600_000_000, "held_by": BO.id}
    put("inbox_entries", *({**entry, "case_id": id_} for id_ in IDS[1 : CASES // 2]))
    put("inbox_entries", {**entry, **leased, "case_id": IDS[0]})


def test_what_was_screened_before_is_counted_and_listed_as_what_is_screened_now(first_version: Database) -> None:
    first_version.prepare()
    with first_version.read() as conn:
        assert kinds(conn, BATCH) == recount_kinds(conn, BATCH) and len(kinds(conn, BATCH)) == 2
        columns = (screenings.c.row, screenings.c.kind, screenings.c.gap)
        rows = conn.execute(select(*columns).order_by(screenings.c.row)).all()
        runs = conn.execute(select(node_runs.c.batch_id, node_runs.c.row).order_by(node_runs.c.row)).all()
    assert [tuple(run) for run in runs] == [(BATCH, row) for row in range(1, len(GAPS) + 1)]
    assert [row.row for row in rows] == list(range(1, 21))
    assert {row.kind for row in rows} == {"human_review//worker/escalated"}
    assert [row.gap for row in rows[: len(GAPS)]] == pytest.approx(list(GAPS.values()))
    assert all(row.gap is None for row in rows[len(GAPS) :])


def test_work_under_way_goes_on(first_version: Database) -> None:
    first_version.prepare()
    (found,) = list_batches(first_version, LOCAL_USER)
    assert (found.progress.accepted, found.progress.human_review, found.progress.pending) == (CASES, 20, 20)
    assert len(pending_cases(first_version, 100, NOW)) == 20
    save_configuration(first_version, CONFIGURATION, NOW)
    for case_id in pending_cases(first_version, 100, NOW):
        decide(first_version, case_id, Outcome.UNSAFE)
    ended = progress(first_version, BATCH)
    assert (ended.pending, ended.unsafe) == (0, 20)
    entered = set(first_version.values(select(inbox_entries.c.case_id)))
    assert entered == set(IDS[:20]), "what an old batch calls unsafe is counted, as when it began"
    register(first_version, ANN, BO)
    claim = claims.claim_next(first_version, ANN.at(NOW + timedelta(minutes=1)))
    assert claim is not None and claim.case_id in entered - {IDS[0]}, "the open lease stands"


def test_what_was_sealed_by_a_span_of_time_names_no_seal_and_the_rest_waits_for_one(first_version: Database) -> None:
    with first_version.write() as conn:
        upgrade(conn, "0033")
        conn.execute(update(screenings).where(screenings.c.row > 15).values(completed_at=NOW + timedelta(minutes=9)))
        until = round((NOW + timedelta(minutes=5)).timestamp() * 1_000_000)
        append(conn, SYSTEM.at(NOW), "sealed", "screenings", {"from": 0, "until": until, "rows": 15, "digest": "x"})
    first_version.prepare()
    with first_version.read() as conn:
        query = select(screenings.c.sealed, func.count()).group_by(screenings.c.sealed).order_by(func.count())
        assert [tuple(row) for row in conn.execute(query)] == [(None, 5), (0, 15)]
