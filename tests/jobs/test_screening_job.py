"""One case's job goes on where an earlier start ended, with the pipeline and the masking it began with; a stopped site
decides nothing, and a case that cannot be begun keeps nobody waiting.
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from sqlalchemy import delete, insert, select, update

from jobs.agents import Agents
from jobs.intake import BatchRequest, configuration, open_batch
from jobs.process import system_clock
from jobs.runner import LocalRunner
from jobs.screening_job import MOST_STARTS
from screening.datasets.rows import NewCase
from screening.labels import Label
from screening.pipeline.config import preset
from screening.pipeline.cost import cost_usd
from screening.pipeline.draws import Draw, DrawRequest, DrawSource
from screening.pipeline.files import shipped_pipelines
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage import settings_store
from storage.batches.batch_state import BatchState
from storage.batches.batches import progress, retry_failed
from storage.batches.configurations import Configuration, activate, active_version, keep_version
from storage.batches.intake import add_rows, close_intake, text_to_send
from storage.database import Database
from storage.schema import (
    batches,
    case_errors,
    cases,
    configurations,
    node_runs,
    pending_cases,
    pipeline_activations,
    pipeline_versions,
    screenings,
)
from tests.jobs.running import PLACES, MakeAgents, agents, batch, job_of, running, until
from tests.storage.batch_of import commit_run, record_start, run
from tests.storage.people import ADMIN
from tests.stub_server import StubPlan, StubServer


class Noting(Agents):
    """The simulated agents, with a note of every node asked; they fall silent at the nodes in ``silent``."""

    def __init__(self, silent: frozenset[str] = frozenset()) -> None:
        super().__init__(Settings(_env_file=None, sampler="simulated"))
        self.asked: list[str] = []
        self.silent = silent

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        self.inner = super().sampler(configuration, seed)
        return self

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        self.asked.append(request.node)
        if request.node in self.silent:
            await asyncio.Event().wait()
        return await self.inner.draw(request)


def _column(db: Database, column) -> list[str]:  # type: ignore[no-untyped-def]
    return db.values(select(column))


async def test_a_committed_node_is_not_asked_again(db: Database) -> None:
    batch(db, ["My friend says she wants to disappear"])  # its first node escalates it
    (case_id,) = _column(db, cases.c.id)
    first = Noting(silent=frozenset({"risk"}))
    task = asyncio.create_task(job_of(db, first).screen_case(case_id))
    await until(lambda: "risk" in first.asked)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert _column(db, node_runs.c.node) == ["worker"] and not _column(db, screenings.c.case_id)
    second = Noting()
    await job_of(db, second).screen_case(case_id)
    assert "risk" in second.asked and "worker" not in second.asked
    await job_of(db, third := Noting()).screen_case(case_id)
    assert third.asked == [] and _column(db, screenings.c.case_id) == [case_id], "a decided case is not asked at all"


@pytest.mark.parametrize("moved_on", [False, True])
async def test_the_last_start_allowed_is_still_made_and_a_committed_node_forgives_those_before_it(
    db: Database, moved_on: bool
) -> None:
    """Workers died four times beside this case, but it moved on in between: it is not to blame."""
    batch(db, 1)
    (case_id,), agents = _column(db, cases.c.id), Noting()
    for times in range(1 + moved_on):
        assert not times or commit_run(db, case_id, 0, run("EEEEEE", Label.ESCALATE))
        for _ in range(MOST_STARTS - 1):
            record_start(db, case_id)
    await job_of(db, agents).screen_case(case_id)
    assert agents.asked and _column(db, screenings.c.reason) != ["repeated_failure"]


@pytest.mark.parametrize("reason", ["stopped", "repeated_failure"])
async def test_a_case_given_to_a_human_keeps_the_calls_and_the_cost_of_its_committed_runs(
    db: Database, reason: str
) -> None:
    """Priced as at the service itself; nothing is asked of it."""
    priced = Agents(Settings(_env_file=None, sampler="anthropic", anthropic_api_key="k"))
    batch_id = batch(db, 1, made_of=priced)
    (case_id,), made = _column(db, cases.c.id), run("EEEEEE", Label.ESCALATE, tokens=1_000)
    expected = cost_usd("claude-sonnet-4-6", made.usage)
    assert commit_run(db, case_id, 0, made, float(expected or 0)) and expected
    if reason == "stopped":
        settings_store.stop(db, LOCAL_USER.at(system_clock()))
    for _ in range(MOST_STARTS if reason == "repeated_failure" else 0):
        record_start(db, case_id)
    await job_of(db, priced).screen_case(case_id)
    await priced.aclose()
    row = db.row(select(screenings))
    assert (row.outcome, row.reason, row.node, row.calls) == ("human_review", reason, "worker", 6)
    assert row.cost_usd == pytest.approx(float(expected)) and row.cost_usd > 0
    found = progress(db, batch_id)
    assert (found.calls, found.cost_usd) == (6, pytest.approx(float(expected)))


THROUGH_ALL = "Our dog died and the house is so quiet now. I miss him at the door."


async def test_cases_end_with_the_pipeline_they_began_with(db: Database) -> None:
    four = shipped_pipelines()["four_agents"].model_copy(update={"name": "ours"})
    keep_version(db, ADMIN.at(system_clock()), four, "", 0)
    activate(db, ADMIN.at(system_clock()), "ours", 1, "tried")
    settings = Settings(_env_file=None, sampler="simulated")
    made = configuration(settings, Agents(settings), four)
    batch(db, [THROUGH_ALL] * 3, configured=made)
    with db.write() as conn:  # no service deletes a version; whoever has the database could
        conn.execute(delete(pipeline_activations))
        conn.execute(delete(pipeline_versions))
    assert active_version(db) is None
    await LocalRunner(job_of(db, agents()), PLACES, until_done=True).run()
    ended = db.values(select(screenings.c.configuration))
    asked = set(db.values(select(node_runs.c.node)))
    assert ended == [made.version] * 3 and asked == {node.name for node in four.nodes}


def _written_by_a_later_version(db: Database, rows: int) -> tuple[str, str]:
    """A batch whose configuration has a field that this version does not know; and the one it had."""
    batch_id = batch(db, rows)
    with db.write() as conn:
        known = conn.execute(select(configurations).join(batches).where(batches.c.id == batch_id)).one()
        body = json.loads(json.dumps(known.body))
        body["pipeline"]["a_field_of_a_later_version"] = 1
        later = {"version": "later", "body": body, "created_at": known.created_at}
        conn.execute(insert(configurations), later)
        conn.execute(update(batches).where(batches.c.id == batch_id).values(configuration="later"))
    return batch_id, known.version


async def test_it_waits_for_a_retry_with_its_error_and_others_go_on(db: Database) -> None:
    bad, known = _written_by_a_later_version(db, 3)
    good = batch(db, 6)
    async with running(db, agents()):
        await until(lambda: progress(db, bad).state is BatchState.NEEDS_RETRY)
        await until(lambda: progress(db, good).finished_at is not None)
        with db.write() as conn:
            errors = conn.execute(select(case_errors.c.kind, case_errors.c.message)).all()
            begun = select(pending_cases.c.worker, pending_cases.c.starts).where(pending_cases.c.batch_id == bad)
            starts = [tuple(row) for row in conn.execute(begun)]
            conn.execute(update(batches).where(batches.c.id == bad).values(configuration=known))
        assert errors == [("internal_error", "UnreadableConfiguration")] * 3
        assert starts == [("w1", 0)] * 3
        retry_failed(db, LOCAL_USER.at(system_clock()), bad)
        await until(lambda: progress(db, bad).finished_at is not None)


class Row:
    """A row as the storage has it."""

    text, model_text = "Write to ann@example.org. I want to die.", None
    reply, model_reply = "Call +44 7700 900123.", None
    turns = None


def test_what_is_sent_is_masked_where_the_configuration_says_so() -> None:
    off, on = (Settings(mask_before_sending=one, sampler="simulated") for one in (False, True))
    plain, masked = (configuration(one, Agents(one), preset("recommended")) for one in (off, on))
    assert plain.version != masked.version and "masking" not in plain.texts
    assert text_to_send(Row, plain.texts).text == Row.text
    shown = text_to_send(Row, masked.texts)
    assert (shown.text, shown.reply) == ("Write to [mail]. I want to die.", "Call [phone].")
    with pytest.raises(ValueError, match="another version"):
        text_to_send(Row, {"masking": 99})


@pytest.mark.parametrize("sampler", ["anthropic", "chat"])
async def test_the_server_receives_the_masked_copy_and_the_table_keeps_the_text(
    db: Database, agents_of: MakeAgents, sampler: str
) -> None:
    """Seen from the other side: everything that arrived there, of every call."""
    async with StubServer(StubPlan()) as stub:
        settings = Settings(
            sampler=sampler, anthropic_base_url=stub.url, anthropic_api_key="k", mask_before_sending=True
        )  # type: ignore[arg-type]
        agents = agents_of(settings)
        request, now = BatchRequest(name="posts", pipeline=preset("recommended")), datetime.now(UTC)
        batch_id = open_batch(db, LOCAL_USER, request, settings, agents, system_clock)
        row = NewCase(row=1, external_id="1", text=receive(str(Row.text)), reply=receive(str(Row.reply)))
        add_rows(db, batch_id, [row], now)
        close_intake(db, LOCAL_USER.at(now), batch_id)
        await LocalRunner(job_of(db, agents), 4, until_done=True).run()
        received = [json.dumps(body) for body in stub.counters.bodies]
    assert progress(db, batch_id).pending == 0 and len(received) >= 5
    assert all("Write to [mail]. I want to die." in one and "Call [phone]." in one for one in received)
    assert not any("example.org" in one or "900123" in one for one in received)
    assert db.row(select(cases.c.text, cases.c.reply)) == (Row.text, Row.reply)
