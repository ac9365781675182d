"""With masking on, agents are shown the masked copy of a text, and the configuration says so."""

import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from jobs.agents import Agents
from jobs.intake import BatchRequest, configuration, open_batch
from jobs.local import LocalRunner
from jobs.port import system_clock
from jobs.screening_job import ScreeningJob
from screening.datasets.rows import NewCase
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage.batches.batches import progress
from storage.batches.case_texts import text_to_send
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from storage.schema import cases
from tests.stub_server import StubPlan, StubServer


class Row:
    """A row as the storage has it."""

    text, model_text = "Write to ann@example.org. I want to die.", None
    reply, model_reply = "Call +44 7700 900123.", None
    turns = None


def test_what_is_sent_is_masked_where_the_configuration_says_so() -> None:
    plain, shown = text_to_send(Row, {}), text_to_send(Row, {"masking": 1})
    assert plain.text == Row.text
    assert (shown.text, shown.reply) == ("Write to [mail]. I want to die.", "Call [phone].")
    with pytest.raises(ValueError, match="another version"):
        text_to_send(Row, {"masking": 99})


def test_the_configuration_tells_masked_from_unmasked() -> None:
    off, on = (Settings(mask_before_sending=one, sampler="simulated") for one in (False, True))
    versions = [configuration(one, Agents(one), preset("recommended")) for one in (off, on)]
    assert "masking" not in versions[0].texts and versions[1].texts["masking"] == 1
    assert versions[0].version != versions[1].version
    assert json.dumps(dict(versions[1].texts))


@pytest.mark.parametrize("sampler", ["anthropic", "chat"])
async def test_the_server_receives_the_masked_copy_and_the_table_keeps_the_text(sqlite_url: str, sampler: str) -> None:
    """Seen from the other side: everything that arrived there, of every call."""
    db = Database(sqlite_url)
    async with StubServer(StubPlan()) as stub:
        settings = Settings(
            sampler=sampler, anthropic_base_url=stub.url, anthropic_api_key="k", mask_before_sending=True
        )  # type: ignore[arg-type]
        agents = Agents(settings)
        request, now = BatchRequest(name="posts", pipeline=preset("recommended")), datetime.now(UTC)
        batch_id = open_batch(db, LOCAL_USER, request, settings, agents, system_clock)
        row = NewCase(row=1, external_id="1", text=receive(str(Row.text)), reply=receive(str(Row.reply)))
        add_rows(db, batch_id, [row], now)
        close_intake(db, LOCAL_USER.at(now), batch_id)
        job = ScreeningJob(db=db, agents=agents, clock=system_clock, worker="w")
        await LocalRunner(job, 4, until_done=True).run()
        await agents.aclose()
        received = [json.dumps(body) for body in stub.counters.bodies]
    assert progress(db, batch_id).pending == 0 and len(received) >= 5
    assert all("Write to [mail]. I want to die." in one and "Call [phone]." in one for one in received)
    assert not any("example.org" in one or "900123" in one for one in received)
    assert db.row(select(cases.c.text, cases.c.reply)) == (Row.text, Row.reply)
    db.close()
