"""/healthz, /readyz and /metrics: what a machine asks, and what a stranger gets."""

import json
import logging
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.testclient import TestClient

from jobs.process import JsonLines
from pages.site import health
from pages.ui import context
from screening.review.triage import Priority
from storage.database import Database
from storage.site.health import beat
from tests.free_port import free_port
from tests.storage.inbox_cases import fill
from tests.storage.people import MINUTE, NOW
from tests.test_fault_matrix import refused


@pytest.fixture
def client(page_database: Database) -> TestClient:
    """The three addresses, over the database of this test."""
    return TestClient(Starlette(routes=health.ROUTES))


def _with(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Have these settings as well."""
    given = context.settings().model_copy(update=changes)
    monkeypatch.setattr(context, "settings", lambda: given)


def test_the_app_lives_and_is_ready_while_the_database_answers(
    client: TestClient, page_database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And while something can be written, in it and beside it."""
    monkeypatch.setattr(health, "LOOK_EVERY", timedelta())
    assert (client.get("/healthz").status_code, client.get("/readyz").status_code) == (200, 200)
    (tmp_path / "file").write_text("")
    with monkeypatch.context() as other:
        _with(other, data_directory=tmp_path / "file" / "in")
        assert client.get("/readyz").status_code == 503
    with refused(f"sqlite:///{page_database.file}", "PRAGMA max_page_count = 2", "53100"):
        assert client.get("/readyz").status_code == 503
    assert client.get("/readyz").status_code == 200
    monkeypatch.setattr(context, "database", lambda: Database("sqlite:////nowhere/at/all.db"))
    assert (client.get("/healthz").status_code, client.get("/readyz").status_code) == (200, 503)


def test_metrics_are_for_whoever_shows_the_token(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/metrics").status_code == 404, "without a token there is nothing here"
    _with(monkeypatch, metrics_token=SecretStr("token"))
    for headers in ({}, {"Authorization": "Bearer other"}):
        assert client.get("/metrics", headers=headers).status_code == 401
    answer = client.get("/metrics", headers={"Authorization": "Bearer token"})
    assert answer.status_code == 200 and "second_look_inbox_open" in answer.text


def test_the_numbers_are_those_of_the_database(page_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    (case_id, *_rest) = fill(page_database, (Priority.P0, Priority.P0, Priority.P2))
    beat(page_database, "one", "worker", NOW + 10 * MINUTE)
    monkeypatch.setattr(health, "system_clock", lambda: NOW + 10 * MINUTE)
    body = generate_latest(health.registry()).decode()
    families = text_string_to_metric_families(body)
    found = {(one.name, " ".join(one.labels.values())): one.value for family in families for one in family.samples}
    expected = {
        ("inbox_open", "P0"): 2, ("inbox_open", "P3"): 0, ("inbox_overdue", "P0"): 2, ("inbox_overdue", "P2"): 0,
        ("inbox_oldest_due_seconds", "P0"): 300, ("processes_alive", "worker"): 1, ("calls_total", ""): 0,
        ("fault", "model"): 0,
    }  # fmt: skip
    assert {(name, of): found[f"second_look_{name}", of] for name, of in expected} == expected
    assert case_id not in body and "canary" not in body and "post-1" not in body


def test_a_port_of_its_own_answers_on_loopback(page_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    _with(monkeypatch, metrics_port=free_port())
    server = health.serve_metrics()
    assert server is not None and server.server_address[0] == "127.0.0.1"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10) as answer:
            assert b"second_look_cases_waiting" in answer.read()
    finally:
        server.shutdown()
        server.server_close()


def test_a_json_line_tells_the_kind_of_an_exception_and_not_its_words() -> None:
    raised = (ValueError, ValueError("zanzibarquince"), None)
    record = logging.LogRecord("jobs", logging.ERROR, "x.py", 3, "case %s failed", ("abc",), raised)
    told = json.loads(JsonLines().format(record))
    assert (told["level"], told["message"], told["exception"]) == ("ERROR", "case abc failed", "ValueError")
    assert "zanzibarquince" not in json.dumps(told)
