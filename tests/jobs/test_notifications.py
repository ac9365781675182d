"""People are told of what waits: by mail over a real SMTP server, by signed webhook; once, with counts, in order."""

import hashlib
import hmac
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DatabaseError

from jobs.notifications import Notifier
from jobs.notifications_service import SERVICES, describe, send
from jobs.notifications_webhook import NotSent, is_public, permitted_address, post, target_of
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.review.rating_form import Disposition
from screening.review.triage import Tier
from screening.settings import Settings
from storage.batches.batch_state import CAP_REACHED
from storage.batches.batches import pause, progress
from storage.batches.intake import resume_intake, stop_intake
from storage.database import Database
from storage.review import claims, follow_ups, inbox
from storage.review.evidence import reveal_text
from storage.schema import audit_events, batches, case_errors, inbox_entries, notification_recipients, notifications
from storage.settings_store import SiteSettings, change
from storage.site import faults, notices, outbox, processes
from storage.site.recipients import Event, Kind, NewRecipient, Recipient, add_recipient, list_recipients, set_active
from tests.databases import write
from tests.free_port import free_port
from tests.receivers import Receiver, mail_server, receiving
from tests.storage.batch_of import batch
from tests.storage.inbox_cases import ANN, MINUTE, NOW, SENIOR, fill, register


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as kept:
        yield kept


class Clock:
    """The time, moved by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> Any:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The tests' time for every process; PostgreSQL's own clock is left out, as it cannot be moved. As this one stands
    still, a look that takes long on a busy machine must not put the next one off.
    """
    monkeypatch.setattr("jobs.notifications.LONG_S", 60.0)
    for module in ("storage.site.notices", "storage.site.processes", "storage.site.processes"):
        monkeypatch.setattr(f"{module}.shared_now", lambda _conn, now: now)
    return Clock()


def notifier(db: Database, clock: Clock, name: str = "one", *, private: bool = True) -> Notifier:
    settings = Settings(notify_private_addresses=private)
    return Notifier(db=db, settings=settings, name=name, kind="worker", clock=clock)


def webhook(db: Database, address: str, name: str = "ward", **more: Any) -> tuple[Recipient, str]:
    new = NewRecipient(name=name, kind=Kind.WEBHOOK, target=address, shown="ward", **more)
    made, secret = add_recipient(db, LOCAL_USER.at(NOW), new)
    assert secret is not None
    return made, secret


def look_often(db: Database, one: Notifier, clock: Clock, times: int, every: timedelta) -> list[int]:
    """So many rounds of a process that lives, one ``every`` so long; how many messages each of them sent."""
    sent = []
    for _ in range(times):
        processes.beat(db, "one", "worker", clock.now)
        sent.append(one.round())
        clock.now += every
    return sent


def test_nothing_is_told_before_somebody_was_added(db: Database, clock: Clock) -> None:
    processes.beat(db, "one", "worker", NOW)
    fill(db, (Tier.P0,))
    assert notifier(db, clock).round() == 0
    assert db.rows(select(notifications)) == []


def test_a_p0_case_is_told_signed_and_without_anything_of_it(db: Database, clock: Clock, receiver: Receiver) -> None:
    _made, secret = webhook(db, receiver.address)
    change(db, LOCAL_USER.at(NOW), SiteSettings(public_address="https://site.example"), 0)
    processes.beat(db, "one", "worker", NOW)
    (case_id,) = fill(db, (Tier.P0,))
    assert notifier(db, clock).round() == 1
    ((headers, body),) = receiver.received
    signed = f"{headers['X-Second-Look-Timestamp']}.".encode() + body
    expected = "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["X-Second-Look-Signature"] == expected
    told = json.loads(body)
    assert (told["tier"], told["count"], told["link"]) == ("P0", 1, "https://site.example/inbox")
    assert told["id"] == headers["Idempotency-Key"] and len(body) < 4_096
    for word in (case_id, "canary", "post-1", "ann", "safe"):
        assert word not in body.decode()
    logged = db.rows(select(audit_events.c.details).where(audit_events.c.action == "notification_sent"))
    assert len(logged) == 1 and '"tier":0' in logged[0].details


def test_a_fault_in_what_is_done_once_an_hour_keeps_nobody_from_being_told(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    processes.beat(db, "one", "worker", NOW)
    webhook(db, receiver.address)
    fill(db, (Tier.P0,))
    one = notifier(db, clock)
    write(db, text("ALTER TABLE rejected_rows RENAME TO hidden"))
    change(db, LOCAL_USER.at(NOW), SiteSettings(keep_rejected_days=7), 0)
    with pytest.raises(DatabaseError):
        one.round()
    assert one.round() == 1
    write(db, text("ALTER TABLE hidden RENAME TO rejected_rows"))


def test_a_flood_is_one_message_an_interval_with_counts(db: Database, clock: Clock, receiver: Receiver) -> None:
    webhook(db, receiver.address)
    processes.beat(db, "one", "worker", NOW)
    one = notifier(db, clock)
    fill(db, (Tier.P0,) * 3)
    assert one.round() == 1
    for _ in range(3):
        clock.now += timedelta(seconds=15)
        processes.beat(db, "one", "worker", clock.now)
        fill(db, (Tier.P0,) * 100)
        assert one.round() == 0, "the minute is not over"
    clock.now += timedelta(seconds=20)
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 1
    assert [body["count"] for body in receiver.bodies] == [3, 300]
    assert one.round() == 0


def test_the_next_in_the_order_is_told_of_what_nobody_opens(db: Database, clock: Clock, receiver: Receiver) -> None:
    register(db, SENIOR)
    webhook(db, receiver.address + "/first", step=1, events=frozenset({Event.ARRIVED_P0}))
    webhook(db, receiver.address + "/last", step=3, events=frozenset({Event.ARRIVED_P0}))
    one = notifier(db, clock)
    (case_id,) = fill(db, (Tier.P0,))
    assert look_often(db, one, clock, 4, 3 * MINUTE) == [1, 0, 1, 0], "at once the first; after five minutes the last"
    claimed = claims.claim(db, SENIOR.at(clock.now), case_id)
    clock.now += 3 * MINUTE
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 1, "claimed is not opened: the last responder is told again"
    reveal_text(db, SENIOR.at(clock.now), case_id, claimed.token)
    clock.now += 20 * MINUTE
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 0, "opened: nobody is told again"


def test_a_case_that_becomes_urgent_is_told_again(db: Database, clock: Clock, receiver: Receiver) -> None:
    webhook(db, receiver.address)
    processes.beat(db, "one", "worker", NOW)
    (case_id,) = fill(db, (Tier.P1,))
    one = notifier(db, clock)
    assert one.round() == 1
    write(db, inbox_entries.update().where(inbox_entries.c.case_id == case_id).values(tier=0))
    assert one.round() == 1
    assert [body["tier"] for body in receiver.bodies] == ["P1", "P0"]


def test_overdue_cases_are_told_once_and_wait_for_quiet_hours_to_end(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    webhook(db, receiver.address, events=frozenset({Event.OVERDUE}), quiet=(8 * 60, 14 * 60))
    fill(db, (Tier.P2, Tier.P2), entered_at=[NOW - timedelta(hours=5)] * 2)  # due at 8:00; it is 9:00
    one = notifier(db, clock)
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 0
    clock.now += timedelta(hours=5, minutes=1)
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 1
    assert [(body["event"], body["count"]) for body in receiver.bodies] == [("overdue", 2)]
    clock.now += timedelta(hours=2)
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 0


def open_and_give_back(db: Database, one: Notifier, clock: Clock, case_id: str, after: timedelta) -> None:
    """A senior has the case open for so long, of which nobody is told, and gives it back unread."""
    claimed = claims.claim(db, SENIOR.at(clock.now), case_id)
    reveal_text(db, SENIOR.at(clock.now), case_id, claimed.token)
    clock.now += after
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 0, "somebody has it open"
    inbox.release(db, SENIOR.at(clock.now), case_id, claimed.token, "called away")


def test_an_urgent_case_that_was_opened_and_given_back_is_told_as_overdue(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    register(db, SENIOR)
    webhook(db, receiver.address, events=frozenset({Event.OVERDUE}))
    one = notifier(db, clock)
    (case_id,) = fill(db, (Tier.P0,))
    open_and_give_back(db, one, clock, case_id, 8 * MINUTE)
    assert one.round() == 1 and [body["event"] for body in receiver.bodies] == ["overdue"]
    assert one.round() == 0, "told once"


def test_an_urgent_case_that_is_opened_after_it_was_told_as_overdue_and_given_back_is_told_again(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    register(db, SENIOR)
    webhook(db, receiver.address, events=frozenset({Event.OVERDUE}))
    one = notifier(db, clock)
    urgent, other = fill(db, (Tier.P0, Tier.P2), entered_at=[NOW - timedelta(hours=5)] * 2)
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 2, "each tier by itself"
    for case_id in (urgent, other):
        clock.now += 2 * MINUTE
        open_and_give_back(db, one, clock, case_id, 2 * MINUTE)
        clock.now += 20 * MINUTE
        processes.beat(db, "one", "worker", clock.now)
        assert one.round() == 1 and one.round() == 0, "once for each time"
    assert [body["tier"] for body in receiver.bodies[2:]] == ["P0", "P0"], "what is less urgent is told once"


def test_an_urgent_case_that_stays_overdue_goes_to_the_next_in_the_order_until_somebody_has_it_open(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    register(db, SENIOR)
    for step in (1, 3):
        webhook(db, receiver.address, name=f"place {step}", step=step, events=frozenset({Event.OVERDUE}))
    one = notifier(db, clock)
    (urgent,) = fill(db, (Tier.P1,), entered_at=[NOW - timedelta(hours=5)])
    open_and_give_back(db, one, clock, urgent, timedelta())
    fill(db, (Tier.P2,), entered_at=[NOW - timedelta(hours=5)])
    assert look_often(db, one, clock, 4, 5 * MINUTE) == [2, 1, 1, 1], "both at once; then the urgent one each time"
    assert told_of(db, Tier.P1) == ["place 1", "place 3", "place 3", "place 3"]
    open_and_give_back(db, one, clock, urgent, 8 * MINUTE)
    assert one.round() == 1 and told_of(db, Tier.P1)[4:] == ["place 1"], "given back: from the first place again"


def told_of(db: Database, tier: Tier) -> list[str]:
    """The recipients of what was sent of this tier, the first message first."""
    query = select(notification_recipients.c.name).join(notifications).where(notifications.c.tier == tier)
    return db.values(query.order_by(notifications.c.sent_at))


def test_a_follow_up_that_is_overdue_goes_down_the_order_once_and_from_its_first_place_when_another_is(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    for step in (1, 3):
        webhook(db, receiver.address, name=f"place {step}", step=step, events=frozenset({Event.OVERDUE}))
    webhook(db, receiver.address, name="arrivals", events=frozenset({Event.ARRIVED_P0, Event.FAULT}))
    one, cases = notifier(db, clock), fill(db, (Tier.P3,) * 2)
    for case_id in cases:
        _follow_up(db, case_id, Disposition.CONTACT_NOW)
    _follow_up(db, cases[0], Disposition.PROTECTIVE_SERVICES)
    clock.now += 59 * MINUTE
    assert look_often(db, one, clock, 2, MINUTE) == [0, 1], "a minute before it is due, and then"
    assert receiver.bodies[0]["text"] == "2 cases have a follow-up that is overdue and not closed."
    assert look_often(db, one, clock, 4, 5 * MINUTE) == [0, 1, 0, 0], "each place once: somebody may be acting"
    assert told_of(db, Tier.P0) == ["place 1", "place 3"]
    _close(db, cases[0], 0)
    clock.now = NOW + 1441 * MINUTE
    look_often(db, one, clock, 3, 5 * MINUTE)
    assert told_of(db, Tier.P1) == ["place 1", "place 3"], "what becomes overdue later is told from the first place"
    assert told_of(db, Tier.P0) == ["place 1", "place 3"]


def test_a_follow_up_that_a_clock_ran_ahead_of_is_told_again_once_the_clock_is_right(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    """What became overdue until then would be told nobody, and the next place in the order would wait that long."""
    for step in (1, 3):
        webhook(db, receiver.address, name=f"place {step}", step=step, events=frozenset({Event.OVERDUE}))
    one = notifier(db, clock)
    _follow_up(db, fill(db, entered=False)[0], Disposition.CONTACT_NOW)
    clock.now = NOW + timedelta(days=30)
    assert look_often(db, one, clock, 1, MINUTE) == [1]
    clock.now = NOW + 61 * MINUTE
    look_often(db, one, clock, 4, 5 * MINUTE)
    assert sorted(told_of(db, Tier.P0)) == ["place 1", "place 1", "place 3"]


def test_a_follow_up_that_was_closed_before_its_message_went_out_is_not_told(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    webhook(db, receiver.address, events=frozenset({Event.OVERDUE}))
    cases = fill(db, (Tier.P3,) * 2)
    for case_id in cases:
        _follow_up(db, case_id, Disposition.CONTACT_NOW)
    clock.now += 61 * MINUTE
    assert notices.collect(db, clock.now) > 0
    _close(db, cases[0], 0)
    one = notifier(db, clock)
    assert look_often(db, one, clock, 1, MINUTE) == [1] and receiver.bodies[-1]["count"] == 1
    _close(db, cases[1], 0)
    assert notices.still_so(db, outbox.Notice(event="follow_up", tier=Tier.P0), clock.now) is None


def _follow_up(db: Database, case_id: str, disposition: Disposition) -> None:
    with db.write() as conn:
        assert follow_ups.open_follow_up(conn, ANN.at(NOW), case_id, disposition)


def _close(db: Database, case_id: str, at: int) -> None:
    mine = [one for one in follow_ups.open_ones(db, ANN.at(NOW)).shown if one.case_id == case_id]
    follow_ups.close(db, ANN.at(NOW), mine[at].id, follow_ups.How.DONE, "called")


def test_a_failing_channel_is_tried_again_with_the_same_key_and_the_next_is_told(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    broken, _ = webhook(db, f"http://127.0.0.1:{free_port()}/none", step=1, events=frozenset({Event.ARRIVED_P0}))
    webhook(db, receiver.address, step=2, events=frozenset({Event.ARRIVED_P0}))
    receiver.answers = [500]
    one = notifier(db, clock)
    fill(db, (Tier.P0,))
    look_often(db, one, clock, 7, timedelta(seconds=25))
    keys = {headers["Idempotency-Key"] for headers, _body in receiver.received}
    assert len(receiver.received) == 2 and len(keys) == 1, "told after three failed tries, repeated after its 500"
    (first,) = [one for one in list_recipients(db, LOCAL_USER) if one.id == broken.id]
    assert first.problem is not None and "no answer" in first.problem
    set_active(db, LOCAL_USER.at(clock.now), broken.id, False)
    left = db.values(select(notifications.c.given_up_at).where(notifications.c.sent_at.is_(None)))
    assert all(left)


def test_dead_workers_and_a_silent_model_are_told_and_their_end_too(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    webhook(db, receiver.address)
    one = notifier(db, clock)
    processes.beat(db, "two", "worker", clock.now)
    (case_id,) = fill(db, (Tier.P3,))
    assert one.round() == 0
    clock.now += 2 * MINUTE
    assert one.round() == 1
    processes.beat(db, "two", "worker", clock.now)
    with db.write() as conn:
        errors = [{"case_id": case_id, "kind": "connection", "message": "", "calls": 0, "at": clock.now}] * 3
        conn.execute(case_errors.insert(), errors)
    assert one.round() == 2
    assert [body["fault"] for body in receiver.bodies[:1]] == ["workers"]
    assert {body["fault"] for body in receiver.bodies[1:]} == {"workers_over", "model"}


def test_a_worker_alone_ends_the_fault_that_none_runs(db: Database, clock: Clock) -> None:
    processes.beat(db, "two", "worker", clock.now)
    clock.now += 2 * MINUTE
    one = notifier(db, clock)
    one.round()
    clock.now += timedelta(days=8)
    processes.beat(db, "an app", "app", clock.now)  # with it the dead worker's last sign of life is forgotten
    one.round()
    assert [lasting.fault for lasting in faults.open_faults(db)] == [faults.Fault.WORKERS]
    processes.beat(db, "three", "worker", clock.now)
    clock.now += MINUTE / 3
    one.round()
    assert faults.open_faults(db) == ()


@pytest.mark.parametrize("why", sorted(CAP_REACHED))
def test_a_batch_that_stops_at_its_cap_is_no_fault_of_the_model(db: Database, clock: Clock, why: str) -> None:
    """An overnight one pauses at it (`jobs.overnight`)."""
    fill(db, entered=False)
    clock.now += MINUTE
    batch_id = db.value(select(batches.c.id))
    pause(db, SYSTEM.at(clock.now), batch_id, why)
    look_often(db, notifier(db, clock), clock, 2, MINUTE)
    assert faults.open_faults(db) == ()


def test_a_fault_that_is_over_before_it_could_be_told_is_told_as_over_alone(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    webhook(db, receiver.address, events=frozenset({Event.FAULT}))
    one = notifier(db, clock)
    processes.beat(db, "two", "worker", clock.now)
    receiver.answers = [500] * 3
    for _ in range(3):  # no worker lives, and the channel is down
        clock.now += 2 * MINUTE
        assert one.round() == 0
    look_often(db, one, clock, 4, 2 * MINUTE)
    assert [body["fault"] for body in receiver.bodies[3:]] == ["workers_over"]
    receiver.answers = [500]
    clock.now += 10 * MINUTE
    assert one.round() == 0
    processes.beat(db, "two", "worker", clock.now)
    receiver.answers = [500]
    assert one.round() == 0, "over, and not told"
    clock.now += 10 * MINUTE
    one.round()
    assert [body["fault"] for body in receiver.bodies[6:]] == ["workers"], "here again"


def test_a_file_that_nobody_takes_in_is_told_and_its_end_too(db: Database, clock: Clock, receiver: Receiver) -> None:
    webhook(db, receiver.address)
    one = notifier(db, clock)
    processes.beat(db, "two", "worker", clock.now)
    batch_id = batch(db, closed=False)
    stop_intake(db, LOCAL_USER.at(clock.now), batch_id, "file_refused")
    assert [one.round(), one.round()] == [1, 0]
    clock.now += MINUTE
    processes.beat(db, "two", "worker", clock.now)
    assert one.round() == 0, "told once"
    resume_intake(db, LOCAL_USER.at(clock.now), batch_id)
    clock.now += MINUTE
    processes.beat(db, "two", "worker", clock.now)
    assert one.round() == 1
    assert [body["fault"] for body in receiver.bodies] == ["files", "files_over"]


def test_a_file_whose_process_is_gone_is_told_after_a_quarter_of_an_hour(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    webhook(db, receiver.address)
    one, batch_id = notifier(db, clock), batch(db, closed=False)
    sent = []
    for _ in range(34):
        processes.beat(db, "two", "worker", clock.now)
        sent.append(one.round())
        clock.now += MINUTE / 2
    assert (sum(sent[:30]), sum(sent)) == (0, 1)
    assert [body["fault"] for body in receiver.bodies] == ["files"]
    assert progress(db, batch_id).rows_missing == "nobody_takes_in"


def test_one_process_at_a_time_sends_and_another_follows_when_it_dies(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    webhook(db, receiver.address)
    first, second = notifier(db, clock, "one"), notifier(db, clock, "two")
    processes.beat(db, "one", "worker", clock.now)
    assert (first.round(), second.round()) == (0, 0)
    fill(db, (Tier.P0,))
    assert second.round() == 0, "the other has the duty"
    clock.now += 2 * MINUTE
    processes.beat(db, "two", "worker", clock.now)
    assert second.round() == 1


def test_after_a_clock_that_ran_ahead_was_set_right_people_are_told_at_once(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    """Neither the duty of a process that is gone, nor a message, nor its own pauses wait for what the clock named."""
    webhook(db, receiver.address, events=frozenset({Event.ARRIVED_P0}))
    clock.now += 60 * MINUTE
    processes.beat(db, "gone", "worker", clock.now)
    gone, stays = notifier(db, clock, "gone"), notifier(db, clock, "one")
    fill(db, (Tier.P0,))
    assert (gone.round(), stays.round()) == (1, 0)
    fill(db, (Tier.P0,))  # within the interval
    assert gone.round() == 0
    clock.now = NOW + MINUTE
    processes.beat(db, "one", "worker", clock.now)
    assert stays.round() == 1
    fill(db, (Tier.P0,))
    clock.now += 2 * MINUTE
    processes.beat(db, "one", "worker", clock.now)
    assert stays.round() == 1
    assert [json.loads(body)["count"] for _, body in receiver.received] == [1, 2, 1], "the first still waits"


def test_the_next_in_the_order_is_told_in_time_though_a_clock_had_run_ahead(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    for step in (1, 2):
        webhook(db, receiver.address, f"place {step}", step=step, events=frozenset({Event.ARRIVED_P1}))
    clock.now += 60 * MINUTE
    one = notifier(db, clock)
    fill(db, (Tier.P1,))
    assert look_often(db, one, clock, 1, MINUTE) == [1]
    clock.now = NOW + MINUTE
    assert sum(look_often(db, one, clock, 2, MINUTE)) == 1


def test_a_dead_worker_s_sign_of_life_from_the_future_is_none(db: Database, clock: Clock) -> None:
    processes.beat(db, "gone", "worker", NOW + 60 * MINUTE)
    assert not processes.worker_lives(db, NOW) and processes.workers_silence(db, NOW) is not None
    with db.read() as conn:
        assert [one.alive for one in processes.processes(conn, NOW)] == [False]
        assert faults.changes(conn, NOW)[0] == {faults.Fault.WORKERS}


def test_a_message_that_failed_under_a_clock_that_ran_ahead_keeps_its_pauses(db: Database, clock: Clock) -> None:
    webhook(db, f"http://127.0.0.1:{free_port()}/", events=frozenset({Event.ARRIVED_P0}))
    clock.now += 60 * MINUTE
    one = notifier(db, clock)
    fill(db, (Tier.P0,))
    look_often(db, one, clock, 1, MINUTE)
    clock.now = NOW
    look_often(db, one, clock, 20, timedelta(seconds=3))
    with db.read() as conn:
        tries = conn.execute(select(notifications.c.attempts)).scalar_one()
    assert 3 <= tries <= 5


def test_a_message_whose_sender_was_killed_over_it_is_sent_by_the_next(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    """Killed after it took the message, and after the other side had it: the repetition has the same key."""
    webhook(db, receiver.address)
    fill(db, (Tier.P0,))
    notices.collect(db, clock.now)
    (message,) = outbox.take_due(db, clock.now)
    processes.beat(db, "two", "worker", clock.now)
    body = {"id": message.id}
    post(message.target, message.secret, message.id, body, int(clock.now.timestamp()), private=True)
    second = notifier(db, clock, "two")
    assert second.round() == 0, "it may be on its way"
    clock.now += MINUTE
    processes.beat(db, "two", "worker", clock.now)
    assert (second.round(), second.round()) == (1, 0)
    assert [headers["Idempotency-Key"] for headers, _body in receiver.received] == [message.id] * 2


def test_where_looking_takes_long_it_is_done_less_often(
    db: Database, clock: Clock, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook(db, receiver.address)
    monkeypatch.setattr("jobs.notifications.LONG_S", 0.0)
    monkeypatch.setattr("jobs.notifications.RESTS", 1_000)
    one = notifier(db, clock)
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 0
    fill(db, (Tier.P0,))
    assert one.round() == 0, "it has just looked"
    clock.now += 20 * MINUTE
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() > 0


def test_a_monitor_hears_every_minute_and_not_without_a_worker(db: Database, clock: Clock, receiver: Receiver) -> None:
    new = NewRecipient(name="outside", kind=Kind.MONITOR, target=receiver.address, shown="outside")
    add_recipient(db, LOCAL_USER.at(NOW), new)
    one = notifier(db, clock)
    one.round()
    assert receiver.received == []
    for seconds in (61, 30, 31):
        clock.now += timedelta(seconds=seconds)
        processes.beat(db, "one", "worker", clock.now)
        one.round()
    assert receiver.bodies == [{"status": "ok"}] * 2


def test_the_test_button_sends_one_message(db: Database, clock: Clock, receiver: Receiver) -> None:
    made, _ = webhook(db, receiver.address)
    processes.beat(db, "one", "worker", NOW)
    outbox.send_test(db, LOCAL_USER.at(NOW), made.id)
    assert notifier(db, clock).round() == 1
    assert receiver.bodies[0]["event"] == "test" and receiver.bodies[0]["tier"] is None


def test_a_mail_goes_out_over_a_real_smtp_server(db: Database, clock: Clock) -> None:
    with mail_server() as mailbox:
        shown = describe(mailbox.address, private=True)
        assert shown.startswith("mailto://127.0.0.1")
        new = NewRecipient(name="ward", kind=Kind.SERVICE, target=mailbox.address, shown=shown)
        add_recipient(db, LOCAL_USER.at(NOW), new)
        processes.beat(db, "one", "worker", NOW)
        (case_id,) = fill(db, (Tier.P0,))
        assert notifier(db, clock).round() == 1
        (mail,) = mailbox.mails
        assert "1 case of tier P0 waits" in mail and case_id not in mail and "canary" not in mail
        with pytest.raises(NotSent, match="not public"):
            send(mailbox.address, "t", "b", private=False)
        assert len(mailbox.mails) == 1


def test_the_kinds_of_services_are_those_of_the_document() -> None:
    document = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text(encoding="utf-8")
    named = document.partition("may be named:")[2].partition("Each message")[0]
    assert set(re.findall(r"`(\w+)`", named)) == SERVICES


def test_a_description_hides_passwords() -> None:
    shown = describe("mailtos://look:hunter2@smtp.example.com?to=ward@site.example", private=False)
    assert "hunter2" not in shown and "smtp.example.com" in shown


@pytest.mark.parametrize("address", ["json://127.0.0.1", "file:///etc/passwd", "exec://x", "mailto://u:p@host.example"])
def test_only_known_kinds_of_services_may_be_named(address: str) -> None:
    with pytest.raises(ValueError, match="not known here"):
        describe(address, private=False)


@pytest.mark.parametrize(
    "address", ["http://site.example/x", "ftp://site.example", "https://u:p@site.example", "https://", "https://a/#b"]
)
def test_a_webhook_is_https_with_nothing_hidden_in_its_address(address: str) -> None:
    with pytest.raises(ValueError, match=r"address|host"):
        target_of(address, private=False)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "fe80::1",
                "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "224.0.0.1", "no address",
                "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b:1::a00:1", "fec0::1", "240.0.0.1"]
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "017700000001", "127.1"])
def test_loopback_in_other_writings_is_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str, port: int, **_: object) -> list[Any]:
        """As the system's own reads them; the tests' guard takes them for names of other machines."""
        return [(0, 0, 0, "", (socket.inet_ntoa(socket.inet_aton(name)), port))]

    monkeypatch.setattr("jobs.notifications_webhook.socket.getaddrinfo", look_up)
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

    def connect(address: tuple[str, int], *_: object) -> None:
        connected.append(address[0])
        raise OSError("no network here")

    monkeypatch.setattr("jobs.notifications_webhook.socket.getaddrinfo", look_up)
    monkeypatch.setattr("jobs.notifications_webhook.socket.create_connection", connect)
    with pytest.raises(NotSent, match="no answer"):
        post(f"https://rebinding.example:{port}/", "key", "id", {}, 1, private=False)
    assert (asked, connected, receiver.received) == (["rebinding.example"], ["8.8.8.8"], [])


def test_a_name_of_which_one_address_is_private_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(0, 0, 0, "", ("8.8.8.8", 443)), (0, 0, 0, "", ("10.0.0.1", 443))]
    monkeypatch.setattr("jobs.notifications_webhook.socket.getaddrinfo", lambda *_, **__: both)
    with pytest.raises(NotSent, match="private, loopback"):
        permitted_address("two.example", 443, private=False)


def test_a_name_that_leads_to_loopback_is_refused_before_anything_is_sent(receiver: Receiver) -> None:
    with pytest.raises(NotSent, match="private, loopback"):
        permitted_address("localhost", 443, private=False)
    with pytest.raises(NotSent, match="private, loopback"):
        post("https://localhost/x", "key", "id", {}, 1, private=False)
    assert receiver.received == []


def test_a_redirect_is_not_followed_and_a_long_body_is_refused(receiver: Receiver) -> None:
    receiver.answers, receiver.location = [302], receiver.address
    with pytest.raises(NotSent, match="answered 302: redirects are not followed"):
        post(receiver.address, "key", "id", {}, 1, private=True)
    assert len(receiver.received) == 1
    with pytest.raises(ValueError, match="4 kB"):
        post(receiver.address, "key", "id", {"text": "x" * 4_100}, 1, private=True)


@pytest.mark.parametrize("connects_in_s", [0.0, 0.7])
def test_a_server_that_drips_is_cut_off_after_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, connects_in_s: float
) -> None:
    """Also where connecting alone takes the whole time: else one receiver could hold up all other messages."""
    monkeypatch.setattr("jobs.notifications_webhook.TIMEOUT_S", 0.5)
    connect = socket.create_connection

    def connect_late(*where: Any) -> socket.socket:
        time.sleep(connects_in_s)
        return connect(*where)

    monkeypatch.setattr("jobs.notifications_webhook.socket.create_connection", connect_late)
    ended = threading.Event()

    class Dripping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(40):
                if ended.wait(0.2):
                    return
                try:
                    self.wfile.write(b"X-Slow: 1\r\n")
                except OSError:
                    return

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    begun = time.monotonic()
    with pytest.raises(NotSent):
        post(f"http://127.0.0.1:{server.server_port}/", None, "id", {}, 1, private=True)
    assert time.monotonic() - begun < 4
    ended.set()
    server.shutdown()
    server.server_close()


def test_a_mail_server_that_says_nothing_is_given_up_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.notifications_service.TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NotSent, match="took too long"):
        send(f"mailto://127.0.0.1:{silent.getsockname()[1]}?from=a@b.example&to=c@d.example", "t", "b", private=True)


def test_a_long_message_is_not_sent_to_a_service() -> None:
    with pytest.raises(ValueError, match="4 kB"):
        send("mailto://127.0.0.1", "t", "x" * 4_100, private=True)


def test_what_somebody_opened_before_it_was_sent_is_not_told(db: Database, clock: Clock, receiver: Receiver) -> None:
    """In quiet hours, and while a channel is down, people go on reading."""
    register(db, SENIOR)
    webhook(db, receiver.address, events=frozenset({Event.ARRIVED_P0, Event.ARRIVED_P1}), quiet=(8 * 60, 14 * 60))
    one = notifier(db, clock)
    first, second = fill(db, (Tier.P1, Tier.P1))
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 0, "quiet hours"
    _open(db, first, clock)
    clock.now += timedelta(hours=6)
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 1 and receiver.bodies[-1]["count"] == 1
    clock.now += timedelta(hours=18)  # quiet again; a third comes in
    (third,) = fill(db, (Tier.P1,), entered_at=[clock.now])
    processes.beat(db, "one", "worker", clock.now)
    one.round()
    for opened in (second, third):
        _open(db, opened, clock)
    clock.now += timedelta(hours=8)
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 0 and len(receiver.bodies) == 1, "nothing is left to tell of"
    (urgent,) = fill(db, (Tier.P0,), entered_at=[clock.now])
    assert one.round() == 1 and receiver.bodies[-1]["tier"] == "P0"
    _open(db, urgent, clock)
    needless = audit_events.c.action == "notification_needless"
    assert db.rows(select(audit_events.c.seq).where(needless))


def _open(db: Database, case_id: str, clock: Clock) -> None:
    claimed = claims.claim(db, SENIOR.at(clock.now), case_id)
    reveal_text(db, SENIOR.at(clock.now), case_id, claimed.token)


def test_what_is_urgent_is_tried_again_every_minute_and_the_rest_not_in_quiet_hours(db: Database, clock: Clock) -> None:
    arrivals = frozenset({Event.ARRIVED_P0, Event.ARRIVED_P1})
    webhook(db, f"http://127.0.0.1:{free_port()}/none", quiet=(9 * 60 + 30, 14 * 60), events=arrivals)  # it is 9:00
    one = notifier(db, clock)
    fill(db, (Tier.P0, Tier.P1))
    for _ in range(12):
        processes.beat(db, "one", "worker", clock.now)
        one.round()
        waits = select(notifications.c.tier, notifications.c.not_before).where(notifications.c.given_up_at.is_(None))
        again = {row.tier: row.not_before for row in db.rows(waits)}
        assert again[0] <= clock.now + MINUTE
        clock.now += 5 * MINUTE
    assert again[1] == NOW.replace(hour=14)


def test_a_channel_that_was_down_for_hours_brings_one_message_and_keeps_no_other_waiting(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    arrivals = frozenset({Event.ARRIVED_P0})
    webhook(db, receiver.address + "/down", step=2, events=arrivals)
    receiver.answers = [500] * 12
    one = notifier(db, clock)
    fill(db, (Tier.P0,) * 10)
    for _ in range(12):
        processes.beat(db, "one", "worker", clock.now)
        assert one.round() == 0
        clock.now += 5 * MINUTE
    webhook(db, receiver.address + "/well", events=frozenset({Event.ARRIVED_P1}))
    fill(db, (Tier.P1,), entered_at=[clock.now])
    processes.beat(db, "one", "worker", clock.now)
    assert one.round() == 2
    assert sorted((body["tier"], body["count"]) for body in receiver.bodies[12:]) == [("P0", 10), ("P1", 1)]


def test_those_tried_least_are_sent_first(db: Database, clock: Clock, receiver: Receiver) -> None:
    """So many channels fail that a round cannot try them all: whoever can be reached is told first."""
    for at in range(12):
        webhook(db, f"{receiver.address}/{at}", events=frozenset({Event.ARRIVED_P0}))
    webhook(db, f"{receiver.address}/well", events=frozenset({Event.ARRIVED_P1}))
    receiver.answers = [500] * 16
    one = notifier(db, clock)
    fill(db, (Tier.P0,))
    for _ in range(2):
        one.round()
    clock.now += MINUTE
    fill(db, (Tier.P1,), entered_at=[clock.now])
    processes.beat(db, "one", "worker", clock.now)
    one.round()
    assert "P1" in {body["tier"] for body in receiver.bodies[12:]}


def test_a_message_that_fails_goes_to_those_alone_who_are_told_of_such_things(
    db: Database, clock: Clock, receiver: Receiver
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}/none"
    webhook(db, nowhere, step=1, events=frozenset({Event.ARRIVED_P1}))
    webhook(db, receiver.address + "/faults", step=2, events=frozenset({Event.FAULT}))
    webhook(db, receiver.address + "/third", step=3, events=frozenset({Event.ARRIVED_P1}))
    one = notifier(db, clock)
    fill(db, (Tier.P1,))
    look_often(db, one, clock, 6, timedelta(seconds=25))
    assert [(body["tier"], body["event"]) for body in receiver.bodies] == [("P1", "arrived")]
    told = db.values(select(notifications.c.recipient_id).distinct())
    steps = {each.id: each.step for each in list_recipients(db, LOCAL_USER)}
    assert sorted(steps[each] for each in told) == [1, 3]


def test_twelve_hundred_rows_are_two_messages_at_most(db: Database, clock: Clock, receiver: Receiver) -> None:
    webhook(db, receiver.address)
    one = notifier(db, clock)
    fill(db, (Tier.P0,) * 1_200)
    look_often(db, one, clock, 40, timedelta(seconds=3))
    assert [body["count"] for body in receiver.bodies] == [1_000, 200]


def test_people_without_the_right_set_nothing(db: Database) -> None:
    with pytest.raises(Exception, match="may not change settings"):
        add_recipient(db, ANN.at(NOW), NewRecipient(name="x", kind=Kind.WEBHOOK, target="https://x", shown="x"))
