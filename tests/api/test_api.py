"""`/api/v1`: tokens, idempotency, what a program is told and what it is not, on both databases."""

import asyncio
import json
import threading
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
from sqlalchemy import func, make_url, select, text
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient

from api.app import create_app
from api.door import LARGEST_HEAD, Door, ImpatientProtocol, Limits, Refused
from api.intake import Intake, tell_settled
from jobs import channels
from jobs.agents import accepted_names
from jobs.channels import signature
from jobs.intake import Upload, receiver
from screening.datasets.mapping import ColumnMapping, FileMapping
from screening.datasets.reader import read_table
from screening.labels import Label, Outcome
from screening.pipeline.config import preset
from screening.review.policy import LOCAL_USER, Forbidden
from screening.review.triage import Reach
from screening.settings import Settings
from storage.batches.batches import cancel
from storage.batches.configurations import activate, keep_version, load_configuration, save_configuration
from storage.batches.intake import add_rows, close_past_days
from storage.database import Database
from storage.review import program_texts
from storage.review.erasure import By, Selection, erase, erase_rows
from storage.review.follow_ups import request_second_looks
from storage.schema import audit_events, batches, cases, metadata, programs
from storage.settings_store import SiteSettings, accept_model_name, change
from storage.site.accounts import Made, Program, Scope, UnknownToken, list_programs, make_program, revoke_program
from tests.databases import put_away, write
from tests.jobs.processes import wait_for
from tests.processes import free_port
from tests.receivers import Receiver, receiving
from tests.storage.batch_of import CONFIGURATION, decide
from tests.storage.inbox_cases import form, read, register
from tests.storage.people import ADMIN, ANN, RESEARCHER

NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
TEXT = "We walked along the river and talked."
_PENDING = ("pending", None, None)
TABLES = tomllib.loads(Path(__file__).with_name("api.toml").read_text("utf-8"))


class Site:
    """The application on a database, a clock that a test moves, and a token."""

    def __init__(self, db: Database, folder: Path, **settings: Any) -> None:
        self.db, self.now, self.known = db, NOW, cast(Program, None)
        save_configuration(db, CONFIGURATION, NOW)
        self.settings = Settings(**{"sampler": "simulated", "data_directory": folder, "audit_rate": 0.0, **settings})
        self.app = create_app(db, self.settings, lambda: self.now, Limits(clock=lambda: 0.0))
        self.client = TestClient(self.app, raise_server_exceptions=False)

    @property
    def intake(self) -> Intake:
        """That of another process."""
        made = Intake(db=self.db, settings=self.settings, clock=lambda: self.now)
        made.runs.folder.mkdir(parents=True, exist_ok=True)
        return made

    def made(self, *scopes: Scope, per_minute: int = 100, webhook: str | None = None) -> Made:
        return make_program(self.db, LOCAL_USER.at(NOW), "chat", scopes or set(Scope), per_minute, webhook)

    def post(self, made: Made, key: str, path: str = "texts", *, kind: str = "application/json", **sent: Any) -> Any:
        headers = {"Authorization": f"Bearer {made.token}", "Idempotency-Key": key, "Content-Type": kind}
        return self.client.post(f"/api/v1/{path}", headers=headers, **sent)

    def submit(self, made: Made, key: str, **body: Any) -> tuple[int, dict[str, Any]]:
        answer = self.post(made, key, json=body or {"text": TEXT})
        return answer.status_code, answer.json()

    def taken(self, made: Made, key: str, **body: Any) -> str:
        status, told = self.submit(made, key, **body)
        assert status == 202, told
        return str(told["id"])

    def get(self, made: Made, path: str) -> tuple[int, Any]:
        answer = self.client.get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {made.token}"})
        return answer.status_code, answer.json()

    def found(self, made: Made, case_id: str) -> Any:
        return self.get(made, f"texts/{case_id}")[1]

    def file(self, made: Made, key: str, content: bytes, **options: str) -> Any:
        return self.post(made, key, "batches", kind="application/octet-stream", params=options, content=content)

    def ended(self, made: Made, batch_id: str) -> Any:
        wait_for(lambda: self.get(made, f"batches/{batch_id}")[1]["state"] != "taking_in", 30)
        return self.get(made, f"batches/{batch_id}")[1]

    def results(self, made: Made, batch_id: str, query: str = "") -> list[tuple[str | None, ...]]:
        headers = {"Authorization": f"Bearer {made.token}"}
        lines = self.client.get(f"/api/v1/batches/{batch_id}/results{query}", headers=headers).text.splitlines()
        return [(row["outcome"], row["label"], row["decided_by"]) for row in map(json.loads, lines)]

    def tell(self, **later: int) -> int:
        return tell_settled(self.db, self.now + timedelta(**later), private=True)

    def close(self) -> None:
        """Once every file that was handed in is taken in, and removed."""
        wait_for(lambda: not list(self.settings.data_directory.glob("programs/*")), 30)
        self.client.close()

    def count(self, table: Any) -> int:
        return self.db.value(select(func.count()).select_from(table))

    def read_by_one(self) -> None:
        """One reviewer's word is enough here."""
        register(self.db, ANN, RESEARCHER)
        change(self.db, LOCAL_USER.at(NOW), SiteSettings(second_review_rate=0.0), 0)


@pytest.fixture
def site(db: Database, tmp_path: Path) -> Iterator[Site]:
    made = Site(db, tmp_path)
    yield made
    made.close()


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiving() as kept:
        yield kept


def test_a_text_is_taken_once_under_its_key_and_another_text_under_it_is_refused(site: Site) -> None:
    made, other = site.made(), site.made()
    status, first = site.submit(made, "k1", text=TEXT, id="msg 7", where_to_act="ticket 7")
    assert status == 202
    assert site.submit(made, "k1", text=TEXT, id="msg 7", where_to_act="ticket 7") == (200, first)
    status, problem = site.submit(made, "k1", text="Another text.")
    assert status == 409 and TEXT not in str(problem) and site.count(cases) == 1
    assert site.submit(other, "k1")[0] == 202, "keys are each program's own"
    assert site.get(other, f"texts/{first['id']}")[0] == 404
    found = site.found(made, first["id"])
    assert (found["state"], found["external_id"], found["label"]) == ("pending", "msg 7", None)
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    site.taken(made, "talk", messages=[*turns, {"role": "user", "content": "I cannot go on."}])
    (talk,) = site.db.values(select(cases.c.turns).where(cases.c.turns.is_not(None)))
    assert [turn["judged"] for turn in talk["turns"]] == [False, False, True]


def test_an_erased_text_leaves_no_key_and_is_still_the_same_text_under_it(site: Site) -> None:
    made, key = site.made(), "patient-Jane-Doe-1987"
    case_id = site.taken(made, key)
    decide(site.db, case_id)
    site.now += timedelta(days=1)
    site.submit(made, "next")  # closes the batch of the day before
    erase(site.db, LOCAL_USER.at(site.now), Selection(by=By.CASE, value=case_id), "letter")
    held = [str(row) for table in metadata.sorted_tables for row in site.db.rows(select(table))]
    assert not [row for row in held if key in row]
    assert site.submit(made, key) == (200, {"id": case_id, "state": "pending"})
    assert site.submit(made, key, text="Another text.")[0] == 409 and site.count(cases) == 2


WRONG = [(one["body"].encode(), one["words"]) for one in TABLES["wrong"]]


@pytest.mark.parametrize(("body", "words"), [*WRONG, (b"[" * 100_000, "There was an error parsing the body")])
def test_what_is_wrong_is_said_and_nothing_stored(site: Site, body: bytes, words: str) -> None:
    answer = site.post(site.made(), "k", content=body)
    assert 400 <= answer.status_code <= 422 and words in answer.json()["error"]
    assert site.count(cases) == 0


def test_tokens_are_hashed_scoped_revocable_limited_and_logged(site: Site) -> None:
    made, other = site.made(Scope.SUBMIT, per_minute=3), site.made()
    assert made.token not in str(site.db.rows(select(programs)))
    assert site.submit(made, "bad key!")[0] == 400
    assert site.get(made, f"batches/{site.taken(made, 'k')}")[0] == 403
    status, problem = site.submit(made, "k2")
    assert status == 429 and "3 requests a minute" in problem["error"]
    assert {one.id for one in list_programs(site.db, LOCAL_USER)} == {made.program.id, other.program.id}
    with pytest.raises(Forbidden):
        list_programs(site.db, ANN)
    revoke_program(site.db, LOCAL_USER.at(NOW), other.program.id)
    assert site.submit(other, "k")[0] == 401 and site.client.get("/api/v1/texts").status_code == 401
    refused = select(audit_events.c.actor, audit_events.c.details).where(audit_events.c.action == "refused")
    assert site.db.rows(refused) == [(made.program.actor.id, '{"asked":"batches"}')]
    logged = set(site.db.values(select(audit_events.c.action)))
    assert {"program_made", "program_revoked", "batch_created"} <= logged


def test_a_token_that_is_revoked_mid_request_stores_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made, hand_in = site.made(), program_texts.hand_in

    def revoked_just_before(*given: Any) -> tuple[str, bool]:
        revoke_program(site.db, LOCAL_USER.at(NOW), made.program.id)
        return hand_in(*given)

    monkeypatch.setattr(program_texts, "hand_in", revoked_just_before)
    assert site.submit(made, "k")[0] == 401 and site.count(cases) == 0
    file = sent(site.intake, made, b"id,text\n1,a quiet day\n")
    with pytest.raises(UnknownToken):
        site.intake.begin(made.program, "f", file, FileMapping(), Reach.READ)
    assert not file.path.exists()


def test_nothing_is_told_of_a_case_that_waits_for_a_review(site: Site) -> None:
    made, blind = site.made(), site.made(Scope.SUBMIT)
    settled, waits, theirs = site.taken(made, "safe"), site.taken(made, "waits"), site.taken(blind, "safe")
    for case_id, outcome in ((settled, Outcome.SAFE), (theirs, Outcome.SAFE), (waits, Outcome.HUMAN_REVIEW)):
        decide(site.db, case_id, outcome)
    told = [site.found(made, settled), site.found(made, waits), site.found(blind, theirs)]
    assert [(one["state"], one["label"], one["decided_by"]) for one in told] == [
        ("settled", "safe", "agents"),
        ("in_review", None, None),
        ("settled", None, None),  # without the scope the state alone
    ]
    listed = site.get(made, "texts?limit=1")[1]
    assert listed["after"] == settled and [(one["id"], one["label"]) for one in listed["texts"]] == [(settled, None)]
    assert [one["id"] for one in site.get(made, f"texts?after={settled}")[1]["texts"]] == [waits]


def test_a_day_is_a_batch_and_the_day_before_is_closed(site: Site) -> None:
    made = site.made()
    for number in range(3):
        site.submit(made, f"k{number}")
    site.now += timedelta(days=1)
    site.taken(made, "next-day")
    names = site.db.values(select(batches.c.name).order_by(batches.c.name))
    rows = site.db.values(select(cases.c.row).order_by(cases.c.created_at, cases.c.row))
    assert names == ["chat, 2026-11-22", "chat, 2026-11-23"] and rows == [1, 2, 3, 1]
    assert len(program_texts.open_batches(site.db, made.program, site.now + timedelta(days=1))) == 1
    close_past_days(site.db, site.now + timedelta(days=2.1))
    assert not program_texts.open_batches(site.db, made.program, site.now + timedelta(days=9))


def test_what_is_in_force_counts_from_then_on_and_has_one_batch_a_day(db: Database, tmp_path: Path) -> None:
    """A pipeline that comes into force again takes texts again; so does the name of a model that was accepted."""
    site = Site(db, tmp_path, sampler="anthropic", anthropic_api_key="k")
    for number, budget in enumerate((100, 50)):
        ours = preset("recommended", budget=budget).model_copy(update={"name": "ours"})
        keep_version(db, RESEARCHER.at(site.now), ours, "", number)
    made = site.made()
    for key, version in enumerate((1, 2, 1, 2)):
        activate(db, ADMIN.at(site.now), "ours", version, "tried")
        site.taken(made, f"k{key}")
        site.now += timedelta(minutes=10)
    assert site.count(batches) == 2, "one a day and configuration"
    accept_model_name(db, ADMIN.at(site.now), "another-1")
    site.taken(made, "after")
    assert site.file(made, "file", b"id,text\n1,a day by the lake\n").status_code == 202
    begun = db.values(select(batches.c.configuration).order_by(batches.c.id))
    names = [accepted_names(load_configuration(db, version)) for version in begun]
    assert names == [(), (), ("another-1",), ("another-1",)]
    site.close()


def test_the_webhook_says_settled_and_the_id_signed_and_again_after_a_failure(site: Site, hook: Receiver) -> None:
    hook.answers = [500]
    made = site.made(webhook=hook.address)
    case_id = site.taken(made, "k")
    assert site.tell() == 0, "it is pending"
    decide(site.db, case_id)
    assert site.tell(minutes=1) == 0 and len(hook.received) == 1
    assert [site.tell(seconds=65), site.tell(minutes=2), site.tell(hours=9)] == [0, 1, 0], "told once"
    headers, body = hook.received[-1]
    assert json.loads(body) == {"event": "settled", "id": case_id}
    signed = signature(str(made.webhook_secret), int(headers["X-Second-Look-Timestamp"]), body)
    assert headers["X-Second-Look-Signature"] == signed
    assert hook.received[0][0]["Idempotency-Key"] == headers["Idempotency-Key"]


@pytest.mark.parametrize("how", ["cancelled", "erased"])
def test_of_a_text_that_nobody_settles_its_program_is_told_once(site: Site, hook: Receiver, how: str) -> None:
    made = site.made(webhook=hook.address)
    one, other = (site.taken(made, key) for key in ("a", "b"))
    decide(site.db, other)
    if how == "erased":
        with site.db.write() as conn:
            erase_rows(conn, [one], None, site.now)
    else:
        cancel(site.db, LOCAL_USER.at(site.now), site.db.value(select(cases.c.batch_id).where(cases.c.id == one)))
    assert [site.found(made, case_id)["state"] for case_id in (one, other)] == ["abandoned", "settled"]
    assert [site.tell(minutes=1), site.tell(hours=9)] == [2, 0]
    heard = {(said["event"], said["id"]) for said in hook.bodies}
    assert heard == {("abandoned", one), ("settled", other)}


def test_a_silent_program_holds_up_no_other(site: Site, hook: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    silent, heard = site.made(webhook=f"http://127.0.0.1:{free_port()}/hook"), site.made(webhook=hook.address)
    ids = [site.taken(made, f"k{number}") for number, made in enumerate([silent] * 5 + [heard])]
    for case_id in ids:
        decide(site.db, case_id)
    asked, post = list[str](), channels.post
    monkeypatch.setattr(channels, "post", lambda to, *a, **k: (asked.append(to), post(to, *a, **k)))
    assert site.tell(minutes=1) == 1
    assert len(asked) == 2 and [body["id"] for body in hook.bodies] == ids[-1:]


def test_a_label_that_people_change_is_told_again_and_is_no_repetition(site: Site, hook: Receiver) -> None:
    site.read_by_one()
    made, later = site.made(webhook=hook.address), site.now + timedelta(minutes=1)
    case_id = site.taken(made, "k")
    decide(site.db, case_id)
    assert site.tell(minutes=1) == 1 and site.found(made, case_id)["label"] == "safe"
    request_second_looks(site.db, RESEARCHER.at(later), [case_id])
    assert site.tell(hours=2) == 0, "people read it"
    read(site.db, ANN, form("unsafe"), "a", later + timedelta(hours=1))
    assert [site.tell(hours=2), site.tell(hours=9)] == [1, 0], "told once"
    told = site.found(made, case_id)
    assert (told["label"], told["decided_by"]) == ("unsafe", "people")
    assert len({headers["Idempotency-Key"] for headers, _ in hook.received}) == 2


def test_a_file_is_a_batch_with_the_counts_of_the_page(site: Site) -> None:
    made, content = site.made(), b"id,text\n1,a day by the lake\n2,\n3,I want to die\n"
    first, again = (site.file(made, "file-1", content, name="a.csv") for _ in range(2))
    assert first.status_code == again.status_code == 202
    batch_id = first.json()["id"]
    found = site.ended(made, batch_id)
    assert (found["rows_in"], found["accepted"], found["rejected"], site.count(batches)) == (3, 2, 1, 1)
    assert site.get(site.made(), f"batches/{batch_id}")[0] == 404
    as_label = json.dumps({"second_look_mapping": 1, "labels": {"1": "unsafe"}})
    for sent, options in (
        (content + b"4,more\n", {}),
        (content, {"unsafe": "count"}),
        (content, {"mapping": as_label}),
    ):
        assert site.file(made, "file-1", sent, **options).status_code == 409, options
    refused = site.file(made, "2", b"%PDF-1.4")
    assert refused.status_code == 422 and "PDF" in refused.json()["error"]
    assert site.results(made, batch_id) == [_PENDING] * 2


@pytest.mark.parametrize(
    ("asked", "labels", "reach"),
    [("", "9B", Reach.READ), ("", "safe", Reach.READ), ("count", "", Reach.COUNT), ("list", "safe", Reach.LIST)],
)
def test_a_request_says_what_becomes_of_unsafe_texts(site: Site, labels: str, asked: str, reach: Reach) -> None:
    made, content = site.made(), f"id,text,class\n1,a day by the lake,{labels}\n".encode()
    answer = site.file(made, "f", content, name="../../a\x1b[31m\n\x00b.csv", **({"unsafe": asked} if asked else {}))
    assert (answer.status_code, answer.json()["unsafe"]) == (202, asked or "review")
    assert site.db.rows(select(batches.c.reach, batches.c.name)) == [(reach, "a[31mb.csv")]
    assert site.file(made, "f", content, unsafe="nobody").status_code == 422


async def _ask(site: Site, path: str, receive: Callable[[], Any], token: str = "", length: int = 100) -> int | None:
    """Status of the answer to a POST whose body comes by ``receive``, where it hangs up after it."""
    headers = {"content-length": str(length), "idempotency-key": "k", "authorization": f"Bearer {token}"}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": raw, "http_version": "1.1"}
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    door = Door(site.app, lambda _: site.known, (timedelta(milliseconds=50),) * 2) if token else site.app
    await door(scope, receive, send)
    return told[0]["status"] if (b"connection", b"close") in told[0]["headers"] else None


@pytest.mark.parametrize("path", ["/api/v1/texts", "/api/v1/batches", "/api/v1/nothing"])
async def test_who_asks_is_known_before_a_byte_of_a_body_is_read(site: Site, path: str) -> None:
    async def unread() -> Any:
        raise AssertionError("the body was read")

    assert [await _ask(site, path, unread, length=length) for length in (100, 10**12)] == [401, 401]


@pytest.mark.parametrize("path", ["/api/v1/texts", "/api/v1/batches"])
async def test_a_body_that_does_not_arrive_in_time_is_hung_up_on_and_nothing_stays(site: Site, path: str) -> None:
    made, parts = site.made(), iter([{"type": "http.request", "body": b"{", "more_body": True}])
    site.known = made.program

    async def half_sent() -> Any:
        return next(parts, None) or await asyncio.sleep(60)

    assert await _ask(site, path, half_sent, made.token) == 408
    assert not list(site.settings.data_directory.glob("programs/*")) and site.count(cases) == 0


def test_the_results_of_a_file_tell_what_people_accepted_as_those_of_a_text_do(site: Site) -> None:
    site.read_by_one()
    db, made = site.db, site.made()
    content = b"id,text\n1,a day by the lake\n2,a walk in the hills\n3,a night at home\n"
    batch_id = site.file(made, "file", content).json()["id"]
    site.ended(made, batch_id)
    first, second, _ = db.values(select(cases.c.id).order_by(cases.c.row))
    by_agents = ("safe", "safe", "agents")
    for case_id in (first, second):
        decide(db, case_id, Outcome.SAFE)
    assert site.results(made, batch_id) == [by_agents, by_agents, _PENDING]
    request_second_looks(db, RESEARCHER.at(NOW), [first])
    assert site.results(made, batch_id)[0] == ("safe", None, None)
    assert site.results(made, batch_id, "?hide_in_review=true")[0] == ("in review", None, None)
    read(db, ANN, form("unsafe"), "a", NOW)
    assert site.results(made, batch_id) == [("safe", "unsafe", "people"), by_agents, _PENDING]


def test_what_there_is_not_and_what_cannot_be_read_is_an_error_in_json(site: Site) -> None:
    made, answer = site.made(), site.client.get("/api/v1/openapi.json")
    assert "/api/v1/batches/{batch_id}/results" in answer.json()["paths"]
    assert answer.headers["cache-control"] == "no-store"
    headers = {"Authorization": f"Bearer {made.token}"}
    for way, path, status in (("GET", "nothing", 404), ("DELETE", "texts", 405)):
        unknown = site.client.request(way, f"/api/v1/{path}", headers=headers)
        assert (unknown.status_code, list(unknown.json())) == (status, ["error"])
    assert site.submit(made, "k", text="x" * 2_100_000)[0] == 413
    assert site.post(made, "k", content=iter([b"{}"])).status_code == 413, "of unknown length"
    write(site.db, text("ALTER TABLE program_texts RENAME TO program_texts_away"))
    status, said = site.submit(made, "k1")
    assert status == 500 and said["error"].startswith("a fault of the program")


def test_while_the_database_is_away_a_text_is_refused_for_now_and_taken_once_it_is_back(
    postgresql_server: str, postgresql_db: Database, tmp_path: Path
) -> None:
    site = Site(postgresql_db, tmp_path)
    made = site.made()
    with put_away(postgresql_server, str(make_url(postgresql_db.conninfo).database)):
        status, said = site.submit(made, "k1")
        assert status == 503 and "try again" in said["error"]
    assert [site.submit(made, "k1")[0] for _ in range(2)] == [202, 200], "the second finds it there"
    assert site.count(cases) == 1
    site.close()


def sent(intake: Intake, made: Made, content: bytes) -> Upload:
    """A file of this program, received whole."""

    async def body() -> AsyncIterator[bytes]:
        yield content

    return asyncio.run(intake.receive(body(), made.program, "a.csv"))


def occupied(intake: Intake) -> threading.Event:
    """Another file is being taken in until this is set."""
    done = threading.Event()
    intake.runs._last = threading.Thread(target=done.wait, daemon=True)
    intake.runs._last.start()
    return done


def test_a_file_that_cannot_be_read_to_its_end_is_said_and_goes_on_under_its_key(site: Site) -> None:
    made, intake = site.made(), site.intake
    rows = b"id,text\n" + b"".join(b"%d,a quiet day by the river\n" % row for row in range(300))
    first, again = (sent(intake, made, rows) for _ in range(2))
    done = occupied(intake)
    batch_id = intake.begin(made.program, "f1", first, FileMapping(), Reach.READ)
    first.path.write_bytes(rows + b'300,"a quote that is never closed\n')
    done.set()
    assert site.ended(made, batch_id)["state"] == "rows_missing" and first.path.exists()
    assert intake.begin(made.program, "f1", again, FileMapping(), Reach.READ) == batch_id
    wait_for(lambda: not again.path.exists(), 30)
    found = site.ended(made, batch_id)
    assert (found["state"], found["rows_in"]) == ("running", 300)
    intake.runs.resume()  # as the next start does: what is left of the first is put away


def test_a_file_goes_on_in_the_next_process(site: Site) -> None:
    """The one before was killed over it."""
    made, killed = site.made(), site.intake
    lines = (f"p{row},a quiet day by the river,{('quiet', 'grave')[row % 2]}" for row in range(300))
    file = sent(killed, made, "\n".join(("id,text,label", *lines)).encode())
    labels = {"quiet": Label.SAFE, "grave": Label.UNSAFE}
    mapping = FileMapping(columns=ColumnMapping(text="text", id="id", label="label"), labels=labels)
    occupied(killed)
    batch_id = killed.begin(made.program, "f1", file, mapping, Reach.READ)
    rows = read_table(file.path, "a.csv", mapping=mapping.columns).with_labels(labels).rows(receiver(site.settings))
    add_rows(site.db, batch_id, islice(rows, 120), NOW)
    site.intake.runs.resume()
    wait_for(lambda: not file.path.exists(), 30)
    found = dict(map(tuple, site.db.rows(select(cases.c.reference, func.count()).group_by(cases.c.reference))))
    assert found == {"safe": 150, "unsafe": 150} and site.ended(made, batch_id)["rows_in"] == 300


@pytest.mark.parametrize("broken", [ClientDisconnect(), asyncio.CancelledError(), None])
async def test_of_a_file_that_breaks_off_nothing_stays(site: Site, broken: BaseException | None) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"id,text\n1,a quiet day\n"
        if broken:
            raise broken
        yield b"2,more than is taken\n" * 10

    with pytest.raises(type(broken) if broken else Refused):
        await site.intake.receive(body(), site.made().program, "a.csv", 100)
    assert list(site.intake.runs.folder.iterdir()) == []


# Connections.


class Hurried(ImpatientProtocol):
    """Half-sent requests of strangers hold no place for long, and never all of them."""

    most_open = 20
    head_within_s = 0.3


async def answer(scope, receive, send):
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def port():
    options = {"http": Hurried, "h11_max_incomplete_event_size": LARGEST_HEAD, "lifespan": "off", "log_level": "error"}
    server = uvicorn.Server(uvicorn.Config(answer, port=0, **options))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await running
    assert Hurried.open_now == 0


async def say(port: int, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    line = await asyncio.open_connection("127.0.0.1", port)
    line[1].write(sent)
    return line


async def rest_of(line: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
    """All that is answered until the other side hangs up."""
    found = b""
    with suppress(ConnectionError):
        found = await asyncio.wait_for(line[0].read(), 3.0)
    line[1].close()
    return found


WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nA: b", WHOLE + b"GET / HT"])
async def test_a_request_that_is_never_whole_is_hung_up_on(port, sent):
    assert (await rest_of(await say(port, sent))).count(b"200 OK") == sent.count(b"\r\n\r\n")
    assert b"400" in await rest_of(await say(port, b"GET / HTTP/1.1\r\nA: " + b"b" * 2 * LARGEST_HEAD))


async def test_a_slow_body_and_later_requests_on_one_line_are_served(port):
    line = await say(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
    await asyncio.sleep(0.6)
    line[1].write(b"b" + LAST)
    assert (await rest_of(line)).count(b"200 OK") == 2


async def test_while_strangers_fill_all_places_the_next_is_closed_and_places_are_free_again_soon(port):
    held = [await say(port, b"POST / HTTP/1.1\r\nHo") for _ in range(60)]
    await asyncio.sleep(0.1)
    assert Hurried.open_now <= Hurried.most_open
    assert [await rest_of(one) for one in held] == [b""] * 60
    assert b"200 OK" in await rest_of(await say(port, LAST))
