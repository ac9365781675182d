"""People are told of what waits: by mail over a real SMTP server, by signed webhook; once, with counts, in order."""

import asyncio
import hashlib
import hmac
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from sqlalchemy import select, text
from sqlalchemy.exc import DatabaseError

from jobs.channels import SERVICES, NotSent, describe, is_public, post, send, target_of
from jobs.notify import Notifier
from screening.review.policy import LOCAL_USER, SYSTEM
from screening.review.review_form import Disposition
from screening.review.triage import Priority
from screening.settings import Settings
from storage.batches.batches import pause
from storage.batches.intake import resume_intake, stop_intake
from storage.database import Database
from storage.review import claims, follow_ups, inbox
from storage.review.evidence import reveal_text
from storage.schema import audit_events, batches, case_errors, inbox_entries, notification_recipients, notifications
from storage.settings_store import SiteSettings, change
from storage.site import health, outbox
from storage.site.outbox import Event, Kind, add_recipient, list_recipients, set_active
from tests.databases import write
from tests.processes import free_port
from tests.receivers import Receiver, mail_server, receiving
from tests.storage.batch_of import batch
from tests.storage.inbox_cases import fill, register
from tests.storage.people import ANN, MINUTE, NOW, SENIOR

SECOND = timedelta(seconds=1)
SCENARIOS = tomllib.loads((Path(__file__).parent / "notifications.toml").read_text(encoding="utf-8"))["scenario"]


class Site:
    """A site with a time moved by hand. What a scenario says before its arrow is a method here, or a priority."""

    def __init__(self, db: Database, receiver: Receiver) -> None:
        self.db, self.receiver, self.now, self.secret = db, receiver, NOW, ""
        self.cases: list[str] = []
        self.notifiers: dict[str, Notifier] = {}

    def add(self, step: str, *words: str) -> str:
        """Somebody at this place of the order is told of the events among the words; the recipient's id."""
        known = [word for word in words if word in {each.value for each in Event}]
        quiet = words[words.index("quiet") + 1 :] if "quiet" in words else ()
        made, secret = add_recipient(
            self.db,
            LOCAL_USER.at(NOW),
            name=step,
            kind=Kind.WEBHOOK,
            target=f"http://127.0.0.1:{free_port()}/none" if "away" in words else self.receiver.address,
            shown="ward",
            step=int(step),
            events=frozenset(map(Event, known)),
            quiet=(int(60 * float(quiet[0])), int(60 * float(quiet[1]))) if quiet else None,
        )
        self.secret = str(secret)
        return made

    def round(self, after: timedelta = timedelta(), by: str = "one", *, dead: bool = False) -> int:
        """So much later a process tells, and is alive; how many messages go out."""
        self.now += after
        if by not in self.notifiers:
            settings = Settings(notify_private_addresses=True)
            self.notifiers[by] = Notifier(db=self.db, settings=settings, name=by, kind="worker", clock=lambda: self.now)
        if not dead:
            health.beat(self.db, by, "worker", self.now)
        return self.notifiers[by].round()

    def sent(self) -> dict[str, str]:
        """What went out, by its id: who was told, of what, and how many."""
        counts = {body["id"]: body["count"] for body in self.receiver.bodies}
        query = select(notifications, notification_recipients.c.name).join(notification_recipients)
        found = {}
        for row in self.db.rows(query.where(notifications.c.sent_at.is_not(None))):
            what = "" if row.event == "arrived" else f"{row.event}-"
            what = row.what or (f"{what}P{row.priority}" if row.priority is not None else row.event)
            many = f"*{counts[row.id]}" if row.priority is not None and counts[row.id] > 1 else ""
            found[row.id] = f"{row.name}:{what}{many}"
        return found

    def play(self, rounds: str) -> None:
        for line in rounds.strip().splitlines():
            doing, _, expected = line.partition("->")
            when, _, happens = doing.strip().partition(" ")
            first, _, last = when.partition("..")
            before, self._by, self._dead = self.sent(), "one", False
            self.now = NOW + float(first) * MINUTE
            for word, *about in (one.split() for one in happens.split(",") if one.strip()):
                self.arrive(word, *about) if word in Priority.__members__ else getattr(self, word)(*about)
            while True:
                self.round(by=self._by, dead=self._dead)
                if self.now >= NOW + float(last or first) * MINUTE:
                    break
                self.now += MINUTE / 2
            told = sorted(what for sent, what in self.sent().items() if sent not in before)
            assert told == sorted(expected.split()), line

    def arrive(self, priority: str, many: str = "1", ago: timedelta = timedelta()) -> None:
        entered_at = [self.now - ago] * int(many)
        self.cases += fill(self.db, [Priority[priority]] * int(many), entered_at=entered_at)

    def late(self, priority: str, many: str = "1") -> None:
        self.arrive(priority, many, timedelta(hours=5))

    def settled(self, many: str = "1") -> None:
        """Cases that are in no inbox."""
        self.cases += fill(self.db, [Priority.P3] * int(many), entered=False)

    def case(self, name: str) -> str:
        return self.cases[int(name[1:]) - 1]

    def claim(self, case: str) -> str:
        return claims.claim(self.db, SENIOR.at(self.now), self.case(case)).token

    def open(self, case: str) -> None:
        self.token = self.claim(case)
        reveal_text(self.db, SENIOR.at(self.now), self.case(case), self.token)

    def release(self, case: str) -> None:
        inbox.release(self.db, SENIOR.at(self.now), self.case(case), self.token, "called away")

    def rise(self, case: str) -> None:
        one = inbox_entries.c.case_id == self.case(case)
        write(self.db, inbox_entries.update().where(one).values(priority=0))

    def follow(self, case: str, disposition: str) -> None:
        with self.db.write() as conn:
            assert follow_ups.open_follow_up(conn, ANN.at(NOW), self.case(case), Disposition(disposition))

    def close(self, case: str) -> None:
        shown = follow_ups.open_ones(self.db, ANN.at(NOW))
        mine = next(each for each in shown if each.case_id == self.case(case))
        follow_ups.close(self.db, ANN.at(NOW), mine.id, follow_ups.How.DONE, "called")

    def errors(self, case: str) -> None:
        error = {"case_id": self.case(case), "kind": "connection", "message": "", "calls": 0, "at": self.now}
        write(self.db, case_errors.insert(), [error] * 3)

    def answer(self, status: str, many: str = "0") -> None:
        self.receiver.answers = [int(status)] * int(many)

    def collect(self) -> None:
        assert outbox.collect(self.db, self.now) > 0

    def app(self) -> None:
        """An app lives; with its sign of life long dead workers are forgotten."""
        health.beat(self.db, f"app {self.now}", "app", self.now)

    def by(self, name: str) -> None:
        self._by = name

    def dead(self) -> None:
        self._dead = True

    def file(self) -> None:
        self.batch_id = batch(self.db, closed=False)

    def stop(self) -> None:
        stop_intake(self.db, LOCAL_USER.at(self.now), self.batch_id, "file_refused")

    def resume(self) -> None:
        resume_intake(self.db, LOCAL_USER.at(self.now), self.batch_id)

    def pause(self, why: str) -> None:
        """All batches stop for this reason, as overnight ones do."""
        for batch_id in self.db.values(select(batches.c.id)):
            pause(self.db, SYSTEM.at(self.now), batch_id, why)

    def test(self, step: str) -> None:
        found = next(each for each in list_recipients(self.db, LOCAL_USER) if each.name == step)
        outbox.send_test(self.db, LOCAL_USER.at(self.now), found.id)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as kept:
        yield kept


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's own clock is left out; a look that takes long on a busy machine must not put the next one off."""
    monkeypatch.setattr("jobs.notify.LONG_S", 60.0)
    for module in ("storage.site.outbox", "storage.site.health"):
        monkeypatch.setattr(f"{module}.shared_now", lambda _conn, now: now)


@pytest.fixture
def site(db: Database, receiver: Receiver) -> Site:
    register(db, SENIOR)
    return Site(db, receiver)


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        pytest.param(each, kind, id=f"{each['name']} on {kind}", marks=[pytest.mark.postgresql] * (kind != "sqlite"))
        for each in SCENARIOS
        for kind in ("sqlite", *["postgresql"] * each.get("server", False))
    ],
)
def test_who_is_told_of_what_and_when(
    request: pytest.FixtureRequest, receiver: Receiver, scenario: dict[str, Any], kind: str
) -> None:
    with closing(Database(request.getfixturevalue(f"{kind}_url"))) as db:
        register(db, SENIOR)
        site = Site(db, receiver)
        for step, words in scenario["people"].items():
            site.add(step, *words.split())
        site.play(scenario["rounds"])


def test_a_p0_case_is_told_signed_and_without_anything_of_it(db: Database, site: Site) -> None:
    change(db, LOCAL_USER.at(NOW), SiteSettings(public_address="https://site.example"), 0)
    site.arrive("P0")
    assert site.round() == 0 and db.rows(select(notifications)) == [], "nobody was added yet"
    site.add("1", "arrived_p0")
    assert site.round() == 1
    ((headers, body),) = site.receiver.received
    signed = f"{headers['X-Second-Look-Timestamp']}.".encode() + body
    expected = "v1=" + hmac.new(site.secret.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["X-Second-Look-Signature"] == expected
    told = json.loads(body)
    assert (told["priority"], told["count"], told["link"]) == ("P0", 1, "https://site.example/inbox")
    assert told["id"] == headers["Idempotency-Key"] and len(body) < 4_096
    for word in (*site.cases, "canary", "post-1", "ann", "safe"):
        assert word not in body.decode()
    logged = db.rows(select(audit_events.c.details).where(audit_events.c.action == "notification_sent"))
    assert len(logged) == 1 and '"priority":0' in logged[0].details


def test_a_fault_in_what_is_done_once_an_hour_keeps_nobody_from_being_told(db: Database, site: Site) -> None:
    site.add("1", "arrived_p0")
    site.arrive("P0")
    write(db, text("ALTER TABLE rejected_rows RENAME TO hidden"))
    change(db, LOCAL_USER.at(NOW), SiteSettings(keep_rejected_days=7), 0)
    with pytest.raises(DatabaseError):
        site.round()
    assert site.round() == 1
    write(db, text("ALTER TABLE hidden RENAME TO rejected_rows"))


def test_a_failing_channel_is_tried_again_with_the_same_key_and_the_next_is_told(db: Database, site: Site) -> None:
    broken = site.add("1", "arrived_p0", "away")
    site.add("2", "arrived_p0")
    site.receiver.answers = [500]
    site.arrive("P0")
    for _ in range(7):
        site.round(25 * SECOND)
    keys = {headers["Idempotency-Key"] for headers, _body in site.receiver.received}
    assert len(site.receiver.received) == 2 and len(keys) == 1, "told after three failed tries, repeated after its 500"
    (first,) = [each for each in list_recipients(db, LOCAL_USER) if each.id == broken]
    assert first.problem is not None and "no answer" in first.problem
    set_active(db, LOCAL_USER.at(site.now), broken, False)
    assert all(db.values(select(notifications.c.given_up_at).where(notifications.c.sent_at.is_(None))))


def test_a_message_whose_sender_was_killed_over_it_is_sent_by_the_next(db: Database, site: Site) -> None:
    """Killed after it took the message, and after the other side had it: the repetition has the same key."""
    site.add("1", "arrived_p0")
    site.arrive("P0")
    outbox.collect(db, site.now)
    (message,) = outbox.take_due(db, site.now)
    body = {"id": message.id}
    post(message.target, message.secret, message.id, body, int(site.now.timestamp()), private=True)
    assert site.round() == 0, "it may be on its way"
    assert (site.round(MINUTE), site.round()) == (1, 0)
    assert [headers["Idempotency-Key"] for headers, _body in site.receiver.received] == [message.id] * 2


def test_a_monitor_hears_every_minute_and_not_without_a_worker(db: Database, site: Site) -> None:
    address = site.receiver.address
    add_recipient(db, LOCAL_USER.at(NOW), name="outside", kind=Kind.MONITOR, target=address, shown="outside")
    site.round(dead=True)
    assert site.receiver.received == []
    for seconds in (61, 30, 31):
        site.round(seconds * SECOND)
    assert site.receiver.bodies == [{"status": "ok"}] * 2


def test_a_mail_goes_out_over_a_real_smtp_server(db: Database, site: Site) -> None:
    with mail_server() as mailbox:
        shown = describe(mailbox.address, private=True)
        assert shown.startswith("mailto://127.0.0.1")
        add_recipient(db, LOCAL_USER.at(NOW), name="ward", kind=Kind.SERVICE, target=mailbox.address, shown=shown)
        site.arrive("P0")
        assert site.round() == 1
        (mail,) = mailbox.mails
        assert "1 case of priority P0" in mail and site.cases[0] not in mail and "canary" not in mail
        with pytest.raises(NotSent, match="not public"):
            send(mailbox.address, "t", "b", private=False)
        assert len(mailbox.mails) == 1


def test_addresses_that_are_refused_as_they_are_set(db: Database) -> None:
    document = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text(encoding="utf-8")
    told = document.partition("may be named:")[2].partition("Each message")[0]
    assert set(re.findall(r"`(\w+)`", told)) == SERVICES
    for address in ("json://127.0.0.1", "file:///etc/passwd", "exec://x", "mailto://u:p@host.example"):
        with pytest.raises(ValueError, match="not known here"):
            describe(address, private=False)
    shown = describe("mailtos://look:hunter2@smtp.example.com?to=ward@site.example", private=False)
    assert "hunter2" not in shown and "smtp.example.com" in shown
    for hook in ("http://site.example/x", "ftp://site.example", "https://u:p@site.example", "https://", "https://a/#b"):
        with pytest.raises(ValueError, match=r"address|host"):
            target_of(hook, private=False)
    with pytest.raises(Exception, match="may not change settings"):
        add_recipient(db, ANN.at(NOW), name="x", kind=Kind.WEBHOOK, target="https://x", shown="x")


def test_addresses_that_are_not_public() -> None:
    addresses = (
        "127.0.0.1 10.1.2.3 192.168.0.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 240.0.0.1 ::1 fe80::1 fec0::1 "
        "::127.0.0.1 ::ffff:10.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::a00:1 64:ff9b:1::a00:1 2002:7f00:1:: no-address"
    )
    assert [address for address in addresses.split() if is_public(address)] == []


@pytest.mark.parametrize(
    ("host", "found"),
    [(host, ["127.0.0.1"]) for host in ("2130706433", "0x7f000001", "017700000001", "127.1", "localhost")]
    + [("two.example", ["8.8.8.8", "10.0.0.1"])],
)
def test_a_host_that_may_lead_to_a_private_address_is_refused_before_anything_is_sent(
    host: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if host[0].isdigit():
        assert socket.inet_ntoa(socket.inet_aton(host)) == found[0]  # as the system reads it
    answers = [(0, 0, 0, "", (address, 443)) for address in found]
    monkeypatch.setattr("jobs.channels.socket.getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(NotSent, match="private, loopback"):
        post(f"https://{host}/x", "key", "id", {}, 1, private=False)


def test_a_name_is_looked_up_once_and_connected_to_at_what_was_found(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads elsewhere at a second look-up gains nothing by it."""
    asked, connected = [], []
    port = urlsplit(receiver.address).port

    def look_up(host: str, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        return [(0, 0, 0, "", ("8.8.8.8" if len(asked) == 1 else "127.0.0.1", port))]

    async def connect(_loop: object, _socket: object, address: tuple[str, int]) -> None:
        connected.append(address[0])
        raise OSError("no network here")

    monkeypatch.setattr("jobs.channels.socket.getaddrinfo", look_up)
    monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", connect)
    with pytest.raises(NotSent, match="no answer"):
        post(f"https://rebinding.example:{port}/", "key", "id", {}, 1, private=False)
    assert (asked, connected, receiver.received) == (["rebinding.example"], ["8.8.8.8"], [])


def test_a_host_of_another_alphabet_is_well_named(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    port = urlsplit(receiver.address).port
    monkeypatch.setattr("jobs.channels.socket.getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("127.0.0.1", port))])
    post(f"http://münchen.example:{port}/x", "key", "id", {}, 1, private=True)
    assert receiver.received[0][0]["Host"] == f"xn--mnchen-3ya.example:{port}"


_POSTS = """
import sys
from jobs.channels import NotSent, post
for address in sys.argv[1:]:
    try:
        print(post(address, None, "id", {}, 1, private=True))
    except NotSent as problem:
        print(problem)
"""


def test_a_webhooks_certificate_must_be_the_hosts_and_one_that_the_system_trusts(tmp_path: Path) -> None:
    """The name is the host's, though the connection goes to the address that was looked at."""
    valid = datetime(2026, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)
    key, name = generate_private_key(SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, *valid)
    signed = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False).sign(key, SHA256())
    whole = tmp_path / "whole.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    whole.write_bytes(private + signed.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(whole)
    with receiving(context) as receiver:
        command = [sys.executable, "-c", _POSTS, receiver.address.replace("127.0.0.1", "localhost"), receiver.address]
        for trusted, expected in ((whole, [True, False]), (tmp_path / "none", [False, False])):
            environment = os.environ | {"SSL_CERT_FILE": str(trusted)}
            told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            assert [line == "None" for line in told.splitlines()] == expected, told
            assert told.count("the certificate is not the host's") == expected.count(False)
        assert len(receiver.received) == 1


def test_a_redirect_is_not_followed_and_a_long_body_is_refused(receiver: Receiver) -> None:
    receiver.answers, receiver.location = [302], receiver.address
    with pytest.raises(NotSent, match="answered 302: redirects are not followed"):
        post(receiver.address, "key", "id", {}, 1, private=True)
    assert len(receiver.received) == 1
    with pytest.raises(ValueError, match="4 kB"):
        post(receiver.address, "key", "id", {"text": "x" * 4_100}, 1, private=True)
    with pytest.raises(ValueError, match="4 kB"):
        send("mailto://127.0.0.1", "t", "x" * 4_100, private=True)


def test_a_server_that_drips_is_cut_off_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where connecting alone takes the whole time: else one receiver could hold up all other messages."""
    monkeypatch.setattr("jobs.channels.TIMEOUT_S", 0.3)
    connect = BaseSelectorEventLoop.sock_connect
    late = iter((0.0, 9.0))

    async def connect_late(*where: Any) -> None:
        await asyncio.sleep(next(late))
        await connect(*where)

    def drip() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not ended.wait(0.1):
                connection.sendall(b"X-Slow: 1\r\n")

    monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", connect_late)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        for _ in range(2):
            begun = time.monotonic()
            with pytest.raises(NotSent, match="took too long"):
                post(f"http://127.0.0.1:{server.getsockname()[1]}/", None, "id", {}, 1, private=True)
            assert time.monotonic() - begun < 4
        ended.set()
        dripping.join(5)


def test_a_mail_server_that_says_nothing_is_given_up_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.channels.TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NotSent, match="took too long"):
        send(f"mailto://127.0.0.1:{silent.getsockname()[1]}?from=a@b.example&to=c@d.example", "t", "b", private=True)
