"""`/api/v1`: tokens, idempotency, what a program is told and what it is not, on both databases."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import func, make_url, select, text
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient

from api.app import create_app
from api.door import Door, Limits, Refused
from api.intake import Intake, tell_settled
from jobs import channels
from jobs.agents import accepted_names
from jobs.channels import signature
from screening.datasets.mapping import FileMapping
from screening.labels import Label, Outcome
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from screening.review.reach import Reach
from screening.settings import Settings
from storage.batches.batches import cancel
from storage.batches.configurations import activate, keep_version, load_configuration, save_configuration
from storage.database import Database
from storage.review import program_texts
from storage.review.erasure import By, Selection, erase, erase_rows
from storage.review.worklist import request_second_looks
from storage.schema import audit_events, batches, cases, metadata, programs
from storage.settings_store import SiteSettings, accept_model_name, change
from storage.site.accounts import Made, Program, Scope, list_programs, make_program, revoke_program
from tests.databases import put_away, write
from tests.free_port import free_port
from tests.jobs.processes import wait_for
from tests.receivers import Receiver, receiving
from tests.storage.batch_of import CONFIGURATION, decide
from tests.storage.inbox_cases import ADMIN, ANN, RESEARCHER, form, read, register

NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
TEXT = "We walked along the river and talked."


class Site:
    """The application on a database, a clock that a test moves, and a token."""

    def __init__(self, db: Database, folder: Path) -> None:
        self.db, self.now, self.known = db, NOW, cast(Program, None)
        save_configuration(db, CONFIGURATION, NOW)
        self.settings = Settings(sampler="simulated", data_directory=folder, audit_rate=0.0)
        self.client = TestClient(create_app(db, self.settings, lambda: self.now, Limits(clock=lambda: 0.0)))

    def made(self, *scopes: Scope, per_minute: int = 100, webhook: str | None = None) -> Made:
        return make_program(self.db, LOCAL_USER.at(NOW), "chat", scopes or set(Scope), per_minute, webhook)

    def submit(self, made: Made, key: str, **body: Any) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {made.token}", "Idempotency-Key": key}
        answer = self.client.post("/api/v1/texts", headers=headers, json=body or {"text": TEXT})
        return answer.status_code, answer.json()

    def get(self, made: Made, path: str) -> tuple[int, Any]:
        answer = self.client.get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {made.token}"})
        return answer.status_code, answer.json()

    def file(self, made: Made, key: str, content: bytes, **options: str) -> Any:
        """The answer to a file that is handed in."""
        headers = {"Authorization": f"Bearer {made.token}", "Idempotency-Key": key}
        return self.client.post("/api/v1/batches", params=options, headers=headers, content=content)

    def tell(self, **later: int) -> int:
        return tell_settled(self.db, self.now + timedelta(**later), private=True)

    def close(self) -> None:
        """Once every file that was handed in is taken in, and removed."""
        wait_for(lambda: not list(self.settings.data_directory.glob("programs/*")), 30)
        self.client.close()

    def count(self, table: Any) -> int:
        return self.db.value(select(func.count()).select_from(table))


@pytest.fixture
def site(db: Database, tmp_path: Path) -> Iterator[Site]:
    made = Site(db, tmp_path)
    yield made
    made.close()


def test_a_text_is_taken_once_under_its_key_and_another_text_under_it_is_refused(site: Site) -> None:
    made = site.made()
    status, first = site.submit(made, "k1", text=TEXT, id="msg 7", where_to_act="ticket 7")
    assert status == 202
    assert site.submit(made, "k1", text=TEXT, id="msg 7", where_to_act="ticket 7") == (200, first)
    status, problem = site.submit(made, "k1", text="Another text.")
    assert status == 409 and "nothing was stored" in problem["error"] and TEXT not in str(problem)
    assert site.count(cases) == 1
    other = site.made()
    assert site.submit(other, "k1")[0] == 202, "keys are each program's own"
    assert site.get(other, f"texts/{first['id']}")[0] == 404
    status, found = site.get(made, f"texts/{first['id']}")
    assert (status, found["state"], found["external_id"], found["label"]) == (200, "pending", "msg 7", None)


def test_an_erased_text_leaves_no_key_and_is_still_the_same_text_under_it(site: Site) -> None:
    made, key = site.made(), "patient-Jane-Doe-1987"
    _, first = site.submit(made, key)
    decide(site.db, first["id"])
    site.now += timedelta(days=1)
    site.submit(made, "next")  # closes the batch of the day before
    erase(site.db, LOCAL_USER.at(site.now), Selection(by=By.CASE, value=first["id"]), "letter")
    held = [str(row) for table in metadata.sorted_tables for row in site.db.rows(select(table))]
    assert not [row for row in held if key in row]
    assert site.submit(made, key) == (200, first)
    assert site.submit(made, key, text="Another text.")[0] == 409
    assert site.count(cases) == 2


def test_a_conversation_is_a_case_with_its_turns(site: Site) -> None:
    made = site.made()
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    assert site.submit(made, "k", messages=[*turns, {"role": "user", "content": "I cannot go on."}])[0] == 202
    row = site.db.row(select(cases))
    assert [turn["judged"] for turn in row.turns["turns"]] == [False, False, True]
    assert site.submit(made, "k2", messages=[{"content": "x"}]) == (422, {"error": "turn 1 has no role"})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"text": " "}, "the text is empty"),
        ({"text": "\u200b"}, "nothing but spaces"),
        ({"text": "a", "messages": []}, "send text, or messages"),
        ({"reply": "a"}, "send text, or messages"),
        ({"text": "a", "label": "safe"}, "label"),
        ({"messages": "a"}, "messages"),
        ({"text": "a", "id": " "}, "the id is blank or holds control characters"),
        ({"text": "a", "id": "x\x00"}, "the id is blank or holds control characters"),
        ({"text": "a", "id": "\u202ex"}, "the id is blank or holds control characters"),
    ],
)
def test_what_is_wrong_is_said_without_quoting_a_text(site: Site, body: dict[str, Any], words: str) -> None:
    status, problem = site.submit(site.made(), "k", **body)
    assert status == 422 and words in problem["error"]
    assert site.count(cases) == 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"text": "a', "the body is no JSON from its character 9 on"),
        (b'{"text": "a", "text": "b"}', "a key stands twice in the body, and nothing was stored"),
        (b'{"text": "a", "context": [{"by": "user", "by": "bot", "text": "b"}]}', "a key stands twice in the body"),
        (b"[" * 100_000, "There was an error parsing the body"),
    ],
)
def test_a_body_that_two_reviewers_may_read_differently_is_refused(site: Site, body: bytes, words: str) -> None:
    headers = {"Authorization": f"Bearer {site.made().token}", "Idempotency-Key": "k"}
    answer = site.client.post("/api/v1/texts", headers=headers | {"Content-Type": "application/json"}, content=body)
    assert 400 <= answer.status_code <= 422 and answer.json()["error"].startswith(words)
    assert site.count(cases) == 0


def test_tokens_are_hashed_scoped_revocable_limited_and_logged(site: Site) -> None:
    made = site.made(Scope.SUBMIT, per_minute=3)
    assert made.token not in str(site.db.rows(select(programs)))
    assert site.submit(made, "bad key!")[0] == 400
    status, first = site.submit(made, "k")
    assert status == 202 and site.get(made, f"batches/{first['id']}")[0] == 403
    status, problem = site.submit(made, "k2")
    assert status == 429 and "3 requests a minute" in problem["error"]
    assert [one.id for one in list_programs(site.db, LOCAL_USER)] == [made.program.id]
    with pytest.raises(Forbidden):
        list_programs(site.db, ANN)
    other = site.made()
    revoke_program(site.db, LOCAL_USER.at(NOW), other.program.id)
    assert site.submit(other, "k")[0] == 401 and site.client.get("/api/v1/texts").status_code == 401
    logged = set(site.db.values(select(audit_events.c.action)))
    refused = select(audit_events.c.actor, audit_events.c.details).where(audit_events.c.action == "refused")
    assert site.db.rows(refused) == [(made.program.actor.id, '{"asked":"batches"}')]
    assert {"program_made", "program_revoked", "batch_created"} <= logged


def test_a_token_that_is_revoked_mid_request_stores_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made = site.made()
    taken = program_texts.hand_in

    def revoked_just_before(*given: Any) -> tuple[str, bool]:
        revoke_program(site.db, LOCAL_USER.at(NOW), made.program.id)
        return taken(*given)

    monkeypatch.setattr(program_texts, "hand_in", revoked_just_before)
    assert site.submit(made, "k") == (401, {"error": "no such token, or it was revoked"})
    assert site.count(cases) == 0


def test_nothing_is_told_of_a_case_that_waits_for_a_review(site: Site) -> None:
    made, blind = site.made(), site.made(Scope.SUBMIT)
    _, settled = site.submit(made, "safe")
    _, waits = site.submit(made, "waits")
    _, theirs = site.submit(blind, "safe")
    for one in (settled, theirs):
        decide(site.db, one["id"])
    decide(site.db, waits["id"], Outcome.HUMAN_REVIEW)
    assert site.get(made, f"texts/{settled['id']}")[1] | {"submitted_at": ""} == {
        "id": settled["id"], "external_id": "safe", "submitted_at": "", "state": "settled", "label": "safe",
        "decided_by": "agents",
    }  # fmt: skip
    found = site.get(made, f"texts/{waits['id']}")[1]
    assert (found["state"], found["label"], found["decided_by"]) == ("in_review", None, None)
    assert site.get(blind, f"texts/{theirs['id']}")[1]["label"] is None, "without the scope the state alone"
    listed = site.get(made, "texts?limit=1")[1]
    assert [one["id"] for one in listed["texts"]] == [settled["id"]] and listed["after"] == settled["id"]
    assert [one["id"] for one in site.get(made, f"texts?after={listed['after']}")[1]["texts"]] == [waits["id"]]
    assert "safe" not in [one["label"] for one in listed["texts"]]


def test_a_day_is_a_batch_and_the_day_before_is_closed(site: Site) -> None:
    made = site.made()
    for number in range(3):
        site.submit(made, f"k{number}")
    site.now += timedelta(days=1)
    assert site.submit(made, "next-day")[0] == 202
    names = site.db.values(select(batches.c.name).order_by(batches.c.name))
    rows = site.db.values(select(cases.c.row).order_by(cases.c.created_at, cases.c.row))
    assert names == ["chat, 2026-11-22", "chat, 2026-11-23"] and rows == [1, 2, 3, 1]
    assert len(program_texts.open_batches(site.db, made.program, site.now + timedelta(days=1))) == 1


def test_a_pipeline_that_comes_into_force_again_on_the_same_day_takes_texts_again(site: Site) -> None:
    db, made = site.db, site.made()
    for number, budget in enumerate((100, 50)):
        ours = preset("recommended", budget=budget).model_copy(update={"name": "ours"})
        keep_version(db, RESEARCHER.at(site.now), ours, "", number)
    answers = []
    for key, version in enumerate((1, 2, 1, 2)):
        activate(db, ADMIN.at(site.now), "ours", version, "tried")
        answers.append(site.submit(made, f"k{key}")[0])
        site.now += timedelta(minutes=10)
    assert answers == [202] * 4
    assert len(db.rows(select(batches.c.id))) == 2, "one a day and configuration"


def test_a_model_name_that_an_administrator_accepted_counts_for_what_programs_hand_in(site: Site) -> None:
    site.settings = Settings(
        sampler="anthropic", anthropic_api_key="k", data_directory=site.settings.data_directory, audit_rate=0.0
    )
    site.client = TestClient(create_app(site.db, site.settings, lambda: site.now, Limits(clock=lambda: 0.0)))
    made = site.made()
    assert site.submit(made, "before")[0] == 202
    accept_model_name(site.db, ADMIN.at(NOW), "another-1")
    site.now += timedelta(minutes=1)
    assert site.submit(made, "after")[0] == 202
    assert site.file(made, "file", b"id,text\n1,a day by the lake\n").status_code == 202
    query = select(batches.c.configuration).where(batches.c.created_by == made.program.actor.id)
    begun = site.db.values(query.order_by(batches.c.id))
    names = [accepted_names(load_configuration(site.db, version)) for version in begun]
    assert names == [(), ("another-1",), ("another-1",)]


@pytest.fixture
def hook() -> Iterator[Receiver]:
    """A program's webhook."""
    with receiving() as kept:
        yield kept


def test_the_webhook_says_settled_and_the_id_signed_and_again_after_a_failure(site: Site, hook: Receiver) -> None:
    hook.answers = [500]
    made = site.made(webhook=hook.address)
    _, one = site.submit(made, "k")
    assert site.tell() == 0, "it is pending"
    decide(site.db, one["id"])
    assert site.tell(minutes=1) == 0 and len(hook.received) == 1
    assert [site.tell(seconds=65), site.tell(minutes=2), site.tell(hours=9)] == [0, 1, 0], "told once"
    headers, body = hook.received[-1]
    assert json.loads(body) == {"event": "settled", "id": one["id"]}
    signed = signature(str(made.webhook_secret), int(headers["X-Second-Look-Timestamp"]), body)
    assert headers["X-Second-Look-Signature"] == signed
    assert hook.received[0][0]["Idempotency-Key"] == headers["Idempotency-Key"]


@pytest.mark.parametrize("how", ["cancelled", "erased"])
def test_a_text_that_nobody_settles_any_more_is_abandoned_and_its_program_is_told_once(
    site: Site, hook: Receiver, how: str
) -> None:
    made = site.made(webhook=hook.address)
    one, other = (site.submit(made, key)[1]["id"] for key in ("a", "b"))
    decide(site.db, other)
    with site.db.write() as conn:
        (batch_id,) = conn.execute(select(cases.c.batch_id).where(cases.c.id == one)).scalars()
        if how == "erased":
            erase_rows(conn, [one], None, site.now)
    if how == "cancelled":
        cancel(site.db, LOCAL_USER.at(site.now), batch_id)
    assert site.get(made, f"texts/{one}")[1]["state"] == "abandoned"
    assert site.get(made, f"texts/{other}")[1]["state"] == "settled"
    assert site.tell(minutes=1) == 2
    assert site.tell(hours=9) == 0, "told once"
    heard = hook.bodies
    assert sorted(heard, key=lambda said: said["id"]) == [
        {"event": "abandoned", "id": one}, {"event": "settled", "id": other}
    ]  # fmt: skip


def test_a_program_that_does_not_answer_is_asked_once_a_round_and_holds_up_no_other(site: Site, hook: Receiver) -> None:
    silent = site.made(webhook=f"http://127.0.0.1:{free_port()}/hook")
    heard = site.made(webhook=hook.address)
    ids = [site.submit(made, f"k{number}")[1]["id"] for number, made in enumerate([silent] * 5 + [heard])]
    for case_id in ids:
        decide(site.db, case_id)
    asked: list[str] = []
    with pytest.MonkeyPatch.context() as watched:
        post = channels.post
        watched.setattr(channels, "post", lambda to, *a, **k: (asked.append(to), post(to, *a, **k)))
        assert site.tell(minutes=1) == 1
    assert len(asked) == 2 and [body["id"] for body in hook.bodies] == ids[-1:]


def test_a_label_that_people_change_is_told_again_and_is_no_repetition(site: Site, hook: Receiver) -> None:
    db, made = site.db, site.made(webhook=hook.address)
    register(db, ANN, RESEARCHER)
    change(db, LOCAL_USER.at(NOW), SiteSettings(second_review_rate=0.0), 0)
    case_id = site.submit(made, "k")[1]["id"]
    decide(db, case_id, Outcome.SAFE)
    later = site.now + timedelta(minutes=1)
    assert site.tell(minutes=1) == 1
    assert site.get(made, f"texts/{case_id}")[1]["label"] == "safe"
    request_second_looks(db, RESEARCHER.at(later), [case_id])
    assert site.tell(hours=2) == 0, "people read it"
    read(db, ANN, form("unsafe"), "a", later + timedelta(hours=1))
    assert site.tell(hours=2) == 1
    told = site.get(made, f"texts/{case_id}")[1]
    assert (told["label"], told["decided_by"]) == ("unsafe", "people")
    assert len({headers["Idempotency-Key"] for headers, _ in hook.received}) == 2
    assert site.tell(hours=9) == 0, "told once"


def test_a_label_that_comes_while_a_program_is_being_told_is_told_too(
    site: Site, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, later = site.made(webhook=hook.address), site.now + timedelta(minutes=1)
    case_id = site.submit(made, "k")[1]["id"]
    decide(site.db, case_id)

    def post(*_args: object, **_named: object) -> None:
        with site.db.write() as conn:
            program_texts.tell_again(conn, case_id, later)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("jobs.channels.post", post)
        assert site.tell(minutes=1) == 1 and not hook.received
    assert site.tell(minutes=1) == 1 and len(hook.received) == 1


def test_a_file_is_a_batch_with_the_counts_of_the_page(site: Site) -> None:
    made, content = site.made(), b"id,text\n1,a day by the lake\n2,\n3,I want to die\n"
    for _ in range(2):
        answer = site.file(made, "file-1", content, name="a.csv")
        assert answer.status_code == 202, answer.text
    batch_id = answer.json()["id"]
    wait_for(lambda: site.get(made, f"batches/{batch_id}")[1]["state"] != "taking_in", 30)
    found = site.get(made, f"batches/{batch_id}")[1]
    assert (found["rows_in"], found["accepted"], found["rejected"], site.count(batches)) == (3, 2, 1, 1)
    assert site.get(site.made(), f"batches/{batch_id}")[0] == 404
    as_label = json.dumps({"second_look_mapping": 1, "labels": {"1": "unsafe"}})
    for other, options in (
        (content + b"4,more\n", {}),
        (content, {"unsafe": "count"}),
        (content, {"mapping": as_label}),
    ):
        refused = site.file(made, "file-1", other, **options)
        assert refused.status_code == 409 and "another" in refused.json()["error"], options
    refused = site.file(made, "2", b"%PDF-1.4")
    assert refused.status_code == 422 and "PDF" in refused.json()["error"]
    assert _results(site, made, batch_id) == [_PENDING] * 2


@pytest.mark.parametrize(
    ("asked", "labels", "reach"),
    [("", "9B", Reach.READ), ("", "safe", Reach.READ), ("count", "", Reach.COUNT), ("list", "safe", Reach.LIST)],
)
def test_a_request_says_what_becomes_of_unsafe_texts_and_the_labels_of_its_file_do_not(
    site: Site, labels: str, asked: str, reach: Reach
) -> None:
    made, content = site.made(), f"id,text,class\n1,a day by the lake,{labels}\n".encode()
    answer = site.file(made, "f", content, name="../../a\x1b[31m\n\x00b.csv", **({"unsafe": asked} if asked else {}))
    assert (answer.status_code, answer.json()["unsafe"]) == (202, asked or "review")
    assert site.db.rows(select(batches.c.reach, batches.c.name)) == [(reach, "a[31mb.csv")]
    refused = site.file(made, "f", content, unsafe="nobody")
    assert refused.status_code == 422 and "unsafe" in refused.json()["error"]


async def _ask(
    site: Site, path: str, receive: Callable[[], Any], token: str = "", length: int = 100
) -> tuple[int, str]:
    """Status and body of the answer to a POST whose body comes by ``receive``."""
    headers = {"content-length": str(length), "idempotency-key": "k", "authorization": f"Bearer {token}"}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": raw, "http_version": "1.1"}
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    door = Door(site.client.app, lambda _: site.known, (timedelta(milliseconds=50),) * 2) if token else site.client.app
    await door(scope, receive, send)
    hangs_up = (b"connection", b"close") in told[0]["headers"]
    return told[0]["status"], "hung up" if hangs_up else ""


@pytest.mark.parametrize("path", ["/api/v1/texts", "/api/v1/batches", "/api/v1/nothing"])
async def test_who_asks_is_known_before_a_byte_of_a_body_is_read(site: Site, path: str) -> None:
    async def unread() -> Any:
        raise AssertionError("the body was read")

    assert await _ask(site, path, unread) == (401, "hung up")
    assert await _ask(site, path, unread, length=10**12) == (401, "hung up")


@pytest.mark.parametrize("path", ["/api/v1/texts", "/api/v1/batches"])
async def test_a_body_that_does_not_arrive_in_time_is_hung_up_on_and_nothing_stays(site: Site, path: str) -> None:
    made, parts = site.made(), iter([{"type": "http.request", "body": b"{", "more_body": True}])
    site.known = made.program

    async def half_sent() -> Any:
        return next(parts, None) or await asyncio.sleep(60)

    assert await _ask(site, path, half_sent, made.token) == (408, "hung up")
    assert not list(site.settings.data_directory.glob("programs/*")) and site.count(cases) == 0


def test_the_results_of_a_file_tell_what_people_accepted_as_those_of_a_text_do(site: Site) -> None:
    db, made = site.db, site.made()
    register(db, ANN, RESEARCHER)
    change(db, LOCAL_USER.at(NOW), SiteSettings(second_review_rate=0.0), 0)
    content = b"id,text\n1,a day by the lake\n2,a walk in the hills\n3,a night at home\n"
    batch_id = site.file(made, "file", content).json()["id"]
    wait_for(lambda: site.count(cases) == 3, 30)
    first, second, _ = db.values(select(cases.c.id).order_by(cases.c.row))
    for case_id in (first, second):
        decide(db, case_id, Outcome.SAFE)
    assert _results(site, made, batch_id) == [("safe", "safe", "agents"), ("safe", "safe", "agents"), _PENDING]
    request_second_looks(db, RESEARCHER.at(NOW), [first])
    assert _results(site, made, batch_id)[0] == ("safe", None, None)
    assert _results(site, made, batch_id, "?hide_in_review=true")[0] == ("in review", None, None)
    read(db, ANN, form("unsafe"), "a", NOW)
    assert _results(site, made, batch_id) == [("safe", "unsafe", "people"), ("safe", "safe", "agents"), _PENDING]


_PENDING = ("pending", None, None)


def _results(site: Site, made: Made, batch_id: str, query: str = "") -> list[tuple[str | None, ...]]:
    headers = {"Authorization": f"Bearer {made.token}"}
    lines = site.client.get(f"/api/v1/batches/{batch_id}/results{query}", headers=headers).text.splitlines()
    return [(row["outcome"], row["label"], row["decided_by"]) for row in map(json.loads, lines)]


def test_a_body_that_is_too_long_or_of_unknown_length_is_not_read(site: Site) -> None:
    made = site.made()
    assert site.submit(made, "k", text="x" * 2_100_000)[0] == 413
    headers = {"Authorization": f"Bearer {made.token}", "Idempotency-Key": "k"}
    assert site.client.post("/api/v1/texts", headers=headers, content=iter([b"{}"])).status_code == 413


def test_the_description_names_every_operation_and_what_it_does_not_name_is_an_error(site: Site) -> None:
    answer = site.client.get("/api/v1/openapi.json")
    assert {"/api/v1/texts", "/api/v1/batches/{batch_id}/results"} <= set(answer.json()["paths"])
    assert answer.headers["cache-control"] == "no-store"
    headers = {"Authorization": f"Bearer {site.made().token}"}
    for way, path, status in (("GET", "nothing", 404), ("DELETE", "texts", 405)):
        unknown = site.client.request(way, f"/api/v1/{path}", headers=headers)
        assert (unknown.status_code, list(unknown.json())) == (status, ["error"])


def test_while_the_database_is_away_a_text_is_refused_for_now_and_taken_once_it_is_back(
    postgresql_server: str, postgresql_db: Database, tmp_path: Path
) -> None:
    site = Site(postgresql_db, tmp_path)
    made, name = site.made(), str(make_url(postgresql_db.conninfo).database)
    with put_away(postgresql_server, name):
        status, said = site.submit(made, "k1")
        assert status == 503 and said["error"].startswith("the database can't be used at the moment: try again")
    assert [site.submit(made, "k1")[0] for _ in range(2)] == [202, 200], "the second finds it there"
    assert site.count(cases) == 1
    site.close()


def test_a_file_is_taken_in_whole_though_the_database_went_away_in_the_middle(
    postgresql_server: str, postgresql_db: Database, tmp_path: Path
) -> None:
    site = Site(postgresql_db, tmp_path)
    made, name = site.made(), str(make_url(postgresql_db.conninfo).database)
    content = "id,text\n" + "".join(f"{row},a quiet day by the river\n" for row in range(6_000))
    assert site.file(made, "f1", content.encode()).status_code == 202
    wait_for(lambda: site.count(cases) > 0, 30)
    with put_away(postgresql_server, name):
        time.sleep(0.3)
    before = site.count(cases)
    assert before < 6_000, "it went away in the middle"
    wait_for(lambda: site.count(cases) == 6_000, 30)
    site.close()


def test_a_file_that_cannot_be_read_to_its_end_is_said_and_goes_on_under_its_key(site: Site, tmp_path: Path) -> None:
    intake = Intake(db=site.db, settings=site.settings, clock=lambda: site.now)
    intake.folder.mkdir(parents=True)
    made, rows = site.made(), b"id,text\n" + b"".join(b"%d,a quiet day by the river\n" % row for row in range(300))
    first, again = (intake.folder / name for name in ("a" * 32, "b" * 32))
    for path in (first, again):
        path.write_bytes(rows)
    done = threading.Event()
    intake._last = threading.Thread(target=done.wait)  # another file is being taken in
    intake._last.start()
    batch_id = intake.begin(made.program, "f1", first, "a.csv", FileMapping(), Reach.READ)
    first.write_bytes(rows + b'300,"a quote that is never closed\n')
    done.set()
    wait_for(lambda: site.get(made, f"batches/{batch_id}")[1]["state"] == "rows_missing", 30)
    assert first.exists()
    assert intake.begin(made.program, "f1", again, "a.csv", FileMapping(), Reach.READ) == batch_id
    wait_for(lambda: not again.exists(), 30)
    found = site.get(made, f"batches/{batch_id}")[1]
    assert (found["state"], found["rows_in"]) == ("running", 300)
    intake.resume()  # as the next start does: what is left of the first is put away


@pytest.mark.parametrize("broken", [ClientDisconnect(), asyncio.CancelledError(), None])
async def test_of_a_file_that_breaks_off_nothing_stays(site: Site, broken: BaseException | None) -> None:
    intake = Intake(db=site.db, settings=site.settings, clock=lambda: site.now)

    async def body() -> AsyncIterator[bytes]:
        yield b"id,text\n1,a quiet day\n"
        if broken:
            raise broken
        yield b"2,more than is taken\n" * 10

    with pytest.raises(type(broken) if broken else Refused):
        await intake.receive(body(), 100)
    assert list(intake.folder.iterdir()) == []


def test_labels_that_stand_for_none_do_so_after_a_restart_too(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made, intake = site.made(), Intake(db=site.db, settings=site.settings, clock=lambda: site.now)
    intake.folder.mkdir(parents=True)
    path = intake.folder / ("a" * 32)
    path.write_bytes(b"id,text,label\n1,a quiet day,safe\n2,another day,bad\n")
    with monkeypatch.context() as stopped:  # the process ends before a row is in
        stopped.setattr(Intake, "_fill", lambda *_given: None)
        intake.begin(
            made.program, "f1", path, "a.csv", FileMapping(labels={"safe": None, "bad": Label.UNSAFE}), Reach.READ
        )
    intake.resume()
    wait_for(lambda: site.count(cases) == 2, 30)
    found = {row.external_id: row.reference for row in site.db.rows(select(cases))}
    assert found == {"1": None, "2": "unsafe"}


def test_a_fault_of_the_program_is_answered_in_json(db: Database, tmp_path: Path) -> None:
    site = Site(db, tmp_path)
    made = site.made()
    site.client = TestClient(site.client.app, raise_server_exceptions=False)
    write(db, text("ALTER TABLE program_texts RENAME TO program_texts_away"))
    status, said = site.submit(made, "k1")
    assert status == 500 and said["error"].startswith("a fault of the program")
    site.close()


def test_programs_are_told_again_after_a_round_that_failed(
    postgresql_server: str, postgresql_db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[bool] = []

    def look(*given: Any, **named: Any) -> int:
        try:
            told = tell_settled(*given, **named)
        except Exception:
            rounds.append(False)
            raise
        rounds.append(True)
        return told

    monkeypatch.setattr("api.app.TELL_EVERY_S", 0.05)
    monkeypatch.setattr("api.app.tell_settled", look)
    site, name = Site(postgresql_db, tmp_path), str(make_url(postgresql_db.conninfo).database)
    with site.client:
        wait_for(lambda: True in rounds, 30)
        with put_away(postgresql_server, name):
            wait_for(lambda: False in rounds, 30)
        rounds.clear()
        wait_for(lambda: True in rounds, 30)
