"""What a machine asks (/healthz, /readyz, /metrics), and what a stranger gets; the first page; the audit log."""

import json
import logging
import re
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from sqlalchemy import update
from starlette.applications import Starlette
from starlette.testclient import TestClient

from jobs.notify import anchor_if_due
from jobs.process import JsonLines
from pages.batches import progress
from pages.research.reports import MISSED, agreement_words, first_look_words
from pages.site import health
from pages.ui import context
from screening.evaluation.agreement import Coefficient
from screening.evaluation.metrics import Proportion
from screening.labels import Outcome
from screening.review.policy import LOCAL_USER, Role
from screening.review.triage import Priority
from storage.audit_log import anchor
from storage.database import Database
from storage.review.queue import counts
from storage.review.reports import PriorityShift
from storage.schema import audit_events
from storage.settings_store import SiteSettings, change, stop
from storage.site.accounts import set_roles
from storage.site.health import Fault, beat, keep
from storage.site.outbox import Event, Kind, add_recipient, record_state
from tests import databases, test_fault_matrix
from tests.pages.conftest import Opener, words_on
from tests.processes import free_port
from tests.storage import batch_of, inbox_cases
from tests.storage.people import ADMIN, ANN, MINUTE, NOW, person


@pytest.fixture
def client(page_database: Database) -> TestClient:
    return TestClient(Starlette(routes=health.ROUTES))


def _with(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
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
    with test_fault_matrix.refused(f"sqlite:///{page_database.file}", "PRAGMA max_page_count = 2", "53100"):
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
    (case_id, *_rest) = inbox_cases.fill(page_database, (Priority.P0, Priority.P0, Priority.P2))
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


def test_it_says_so_no_longer_once_somebody_is_told_of_p0(open_page: Opener, page_database: Database) -> None:
    where = {"target": "json://127.0.0.1:9", "shown": "json://…"}
    for kind, events in ((Kind.MONITOR, frozenset(Event)), (Kind.SERVICE, frozenset({Event.FAULT}))):
        add_recipient(page_database, LOCAL_USER.at(NOW), name=kind.value, kind=kind, events=events, **where)
    assert open_page().error, "a monitor is told of nothing, and a fault is no case"
    urgent = frozenset({Event.ARRIVED_P0})
    told, _ = add_recipient(page_database, LOCAL_USER.at(NOW), name="Ann", kind=Kind.SERVICE, events=urgent, **where)
    assert not open_page().error
    with page_database.write() as conn:
        record_state(conn, told, "refused", NOW)
    assert "have failed" in open_page().error[0].value


def test_it_shows_what_is_urgent(open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases came in a year ago: all are overdue."""
    batch_of.batch(page_database, ["a quiet day", "a long walk", "I will kill myself tonight"])
    for case_id in batch_of.waiting(page_database):
        batch_of.decide(page_database, case_id, Outcome.HUMAN_REVIEW)
    found = counts(page_database, LOCAL_USER.at(NOW)).open_by_priority
    assert sum(found.values()) == 3 and found[Priority.P0] == 1
    page = open_page()
    numbers = [one.value for one in page.markdown if one.value.startswith("### :")]
    assert [re.findall(r"\[([\d,]+)\]", one) for one in numbers] == [["1"], [str(found[Priority.P1])], ["2"]]
    assert len([one for one in page.markdown if one.value.startswith(":red[**") and ", oldest by " in one.value]) == 2
    assert [well for well, _ in progress.status_lines(page_database, NOW)] == [False, False], "none ever ran"
    beat(page_database, "w1", "worker", NOW)
    for after, well in ((5, True), (20, False), (60, False)):
        lines = progress.status_lines(page_database, NOW + timedelta(seconds=after))
        assert [good for good, _ in lines] == [well, well]
    with page_database.write() as conn:
        keep(conn, Fault.MODEL, NOW, down=True)
    assert [well for well, _ in progress.status_lines(page_database, NOW + timedelta(seconds=5))] == [True, False]
    told = dict[Role, str]()
    for role in (Role.RESEARCHER, Role.REVIEWER):
        monkeypatch.setattr(context, "actor", lambda role=role: person("x", role))
        told[role] = words_on(open_page())
    assert [MISSED in words for words in told.values()] == [True, False]
    assert "Median time until opened, P0" in told[Role.REVIEWER]


def test_a_claim_has_its_interval_and_its_n() -> None:
    wait = PriorityShift(
        priority=Priority.P0, arrived=4, looked_at=3, overdue=1, read=3, handed_over=0, median=3 * MINUTE, p90=None,
        within_target=Proportion(3, 4),
    )  # fmt: skip
    assert first_look_words(wait)[1:] == ("3 min", "median of 3 · on time: 3 of 4 (95% CI 30-95%)")
    agreed = Coefficient(name="α", value=0.81, cases=120, low=0.72, high=0.88)
    _, value, rests = agreement_words((agreed, 1))
    assert value == "0.81" and all(words in rests for words in ("0.72 to 0.88", "120 with a second", "until 1 more"))


def test_an_account_is_named_in_the_log_and_found_by_its_name(open_page: Opener, page_database: Database) -> None:
    inbox_cases.register(page_database, ADMIN, ANN)
    set_roles(page_database, LOCAL_USER.at(NOW), ANN.id, frozenset({Role.SENIOR}))
    stop(page_database, LOCAL_USER.at(NOW))
    page = open_page("audit")
    assert list(page.dataframe[0].value["Case, upload or account"]) == ["settings/1", ANN.name]
    page.text_input[1].set_value(ANN.name).run()
    assert list(page.dataframe[0].value["Action"]) == ["roles set"]


def test_events_come_newest_first_and_a_change_or_a_cut_is_found(open_page: Opener, page_database: Database) -> None:
    for version in range(59):
        change(page_database, LOCAL_USER.at(NOW), SiteSettings(lease_minutes=version + 1), version)
    stop(page_database, LOCAL_USER.at(NOW))
    page = open_page("audit")
    table = page.dataframe[0].value
    assert list(table["Event"]) == list(range(60, 10, -1)) and set(table["Who"]) == {"Local user"}
    assert list(table["Action"])[:2] == ["stopped", "settings changed"]
    page.selectbox[1].set_value("stopped").run()
    assert list(page.dataframe[0].value["Event"]) == [60]
    page.button[0].click().run()
    assert "Not proven." in page.warning[0].value and not page.success
    kept = anchor(page_database).as_json()
    anchor_if_due(page_database, context.settings(), NOW)
    page.button[0].click().run()
    assert "up to event 60" in page.success[0].value and not page.warning
    databases.write(page_database, update(audit_events).where(audit_events.c.seq == 2).values(actor="somebody"))
    page.button[0].click().run()
    assert page.error[-1].value == "Changed: event 2: was changed." and not page.success
    page.text_input(key="anchor").set_value("{}").run()
    assert page.error[-1].value == "This is not a checkpoint."
    databases.write(page_database, audit_events.delete())
    page.text_input(key="anchor").set_value(kept).run()
    page.button[0].click().run()
    assert "cut off" in page.error[-1].value
