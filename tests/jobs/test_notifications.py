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
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DatabaseError

from jobs.channels import SERVICES, NotSent, describe, is_public, permitted_address, post, send, target_of
from jobs.notify import Notifier
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.review.review_form import Disposition
from screening.review.triage import Priority
from screening.settings import Settings
from storage.batches.batch_state import CAP_REACHED
from storage.batches.batches import pause, progress
from storage.batches.intake import resume_intake, stop_intake
from storage.database import Database
from storage.review import claims, follow_ups, inbox
from storage.review.evidence import reveal_text
from storage.schema import audit_events, batches, case_errors, inbox_entries, notification_recipients, notifications
from storage.settings_store import SiteSettings, change
from storage.site import health, outbox
from storage.site.recipients import Event, Kind, Recipient, add_recipient, list_recipients, set_active
from tests.databases import write
from tests.free_port import free_port
from tests.receivers import Receiver, mail_server, receiving
from tests.storage.batch_of import batch
from tests.storage.inbox_cases import ANN, MINUTE, NOW, SENIOR, fill, register

SECOND = timedelta(seconds=1)
LONG_AGO = NOW - timedelta(hours=5)
"""Since then every case is overdue."""


class Site:
    """A site with a time moved by hand, somebody to tell, and a process that tells."""

    def __init__(self, db: Database, receiver: Receiver) -> None:
        self.db, self.receiver, self.now = db, receiver, NOW
        self.one = self.process("one")

    def process(self, name: str) -> Notifier:
        settings = Settings(notify_private_addresses=True)
        return Notifier(db=self.db, settings=settings, name=name, kind="worker", clock=lambda: self.now)

    def tell(self, *events: Event, at: str = "", step: int = 1, **more: Any) -> tuple[Recipient, str]:
        """Somebody is told, at the receiver where nothing else is said; of everything where no event is named."""
        made, secret = add_recipient(
            self.db,
            LOCAL_USER.at(NOW),
            name=f"place {step}",
            kind=Kind.WEBHOOK,
            target=at if "://" in at else self.receiver.address + at,
            shown="ward",
            step=step,
            events=frozenset(events or Event),
            **more,
        )
        assert secret is not None
        return made, secret

    def round(self, after: timedelta = timedelta(), alive: str = "one") -> int:
        """So much later, while a worker lives: how many messages go out."""
        self.now += after
        health.beat(self.db, alive, "worker", self.now)
        return self.one.round()

    def rounds(self, times: int, every: timedelta) -> list[int]:
        """So many of them, the first one now."""
        sent = []
        for _ in range(times):
            sent.append(self.round())
            self.now += every
        return sent

    def told(self, key: str) -> list[Any]:
        return [body[key] for body in self.receiver.bodies]

    def told_of(self, priority: Priority) -> list[str]:
        """The recipients of what was sent of this priority, the first message first."""
        query = select(notification_recipients.c.name).join(notifications).where(notifications.c.priority == priority)
        return self.db.values(query.order_by(notifications.c.sent_at))

    def open(self, case_id: str) -> str:
        token = claims.claim(self.db, SENIOR.at(self.now), case_id).token
        reveal_text(self.db, SENIOR.at(self.now), case_id, token)
        return token

    def open_and_give_back(self, case_id: str, after: timedelta = timedelta()) -> None:
        """A senior has the case open for so long, of which nobody is told, and gives it back unread."""
        token = self.open(case_id)
        assert self.round(after) == 0, "somebody has it open"
        inbox.release(self.db, SENIOR.at(self.now), case_id, token, "called away")

    def follow_up(self, case_id: str, disposition: Disposition = Disposition.CONTACT_NOW) -> None:
        with self.db.write() as conn:
            assert follow_ups.open_follow_up(conn, ANN.at(NOW), case_id, disposition)

    def close(self, case_id: str) -> None:
        mine = [each for each in follow_ups.open_ones(self.db, ANN.at(NOW)).shown if each.case_id == case_id]
        follow_ups.close(self.db, ANN.at(NOW), mine[0].id, follow_ups.How.DONE, "called")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as kept:
        yield kept


@pytest.fixture
def site(db: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Site:
    """PostgreSQL's own clock is left out, as it cannot be moved. As this one stands still, a look that takes long on a
    busy machine must not put the next one off.
    """
    monkeypatch.setattr("jobs.notify.LONG_S", 60.0)
    for module in ("storage.site.outbox", "storage.site.health"):
        monkeypatch.setattr(f"{module}.shared_now", lambda _conn, now: now)
    register(db, SENIOR)
    return Site(db, receiver)


def nowhere() -> str:
    return f"http://127.0.0.1:{free_port()}/none"


def test_a_p0_case_is_told_signed_and_without_anything_of_it(db: Database, site: Site) -> None:
    change(db, LOCAL_USER.at(NOW), SiteSettings(public_address="https://site.example"), 0)
    (case_id,) = fill(db, (Priority.P0,))
    assert site.round() == 0 and db.rows(select(notifications)) == [], "nobody was added yet"
    _made, secret = site.tell()
    assert site.round() == 1
    ((headers, body),) = site.receiver.received
    signed = f"{headers['X-Second-Look-Timestamp']}.".encode() + body
    expected = "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["X-Second-Look-Signature"] == expected
    told = json.loads(body)
    assert (told["priority"], told["count"], told["link"]) == ("P0", 1, "https://site.example/inbox")
    assert told["id"] == headers["Idempotency-Key"] and len(body) < 4_096
    for word in (case_id, "canary", "post-1", "ann", "safe"):
        assert word not in body.decode()
    logged = db.rows(select(audit_events.c.details).where(audit_events.c.action == "notification_sent"))
    assert len(logged) == 1 and '"priority":0' in logged[0].details


def test_a_fault_in_what_is_done_once_an_hour_keeps_nobody_from_being_told(db: Database, site: Site) -> None:
    site.tell()
    fill(db, (Priority.P0,))
    write(db, text("ALTER TABLE rejected_rows RENAME TO hidden"))
    change(db, LOCAL_USER.at(NOW), SiteSettings(keep_rejected_days=7), 0)
    with pytest.raises(DatabaseError):
        site.round()
    assert site.round() == 1
    write(db, text("ALTER TABLE hidden RENAME TO rejected_rows"))


def test_a_flood_is_one_message_an_interval_with_counts(db: Database, site: Site) -> None:
    site.tell()
    fill(db, (Priority.P0,) * 3)
    assert site.round() == 1
    for _ in range(3):
        fill(db, (Priority.P0,) * 100)
        assert site.round(15 * SECOND) == 0, "the minute is not over"
    assert [site.round(20 * SECOND), site.round()] == [1, 0]
    assert site.told("count") == [3, 300]


def test_twelve_hundred_at_once_are_two_messages(db: Database, site: Site) -> None:
    site.tell()
    fill(db, (Priority.P0,) * 1_200)
    site.rounds(40, 3 * SECOND)
    assert site.told("count") == [1_000, 200]


def test_the_next_in_the_order_is_told_of_what_nobody_opens(db: Database, site: Site) -> None:
    site.tell(Event.ARRIVED_P0, step=1)
    site.tell(Event.ARRIVED_P0, step=3)
    (case_id,) = fill(db, (Priority.P0,))
    assert site.rounds(4, 3 * MINUTE) == [1, 0, 1, 0], "at once the first; after five minutes the last"
    claimed = claims.claim(db, SENIOR.at(site.now), case_id)
    assert site.round(3 * MINUTE) == 1, "claimed is not opened: the last responder is told again"
    reveal_text(db, SENIOR.at(site.now), case_id, claimed.token)
    assert site.round(20 * MINUTE) == 0, "opened: nobody is told again"


def test_a_case_that_becomes_urgent_is_told_again(db: Database, site: Site) -> None:
    site.tell()
    (case_id,) = fill(db, (Priority.P1,))
    assert site.round() == 1
    write(db, inbox_entries.update().where(inbox_entries.c.case_id == case_id).values(priority=0))
    assert site.round() == 1 and site.told("priority") == ["P1", "P0"]


def test_overdue_cases_are_told_once_and_wait_for_quiet_hours_to_end(db: Database, site: Site) -> None:
    site.tell(Event.OVERDUE, quiet=(8 * 60, 14 * 60))
    fill(db, (Priority.P2, Priority.P2), entered_at=[LONG_AGO] * 2)  # due at 8:00; it is 9:00
    assert [site.round(), site.round(301 * MINUTE), site.round(120 * MINUTE)] == [0, 1, 0]
    assert (site.told("event"), site.told("count")) == (["overdue"], [2])


def test_an_urgent_case_that_was_opened_and_given_back_is_told_as_overdue_each_time(db: Database, site: Site) -> None:
    site.tell(Event.OVERDUE)
    (urgent,) = fill(db, (Priority.P0,))
    site.open_and_give_back(urgent, 8 * MINUTE)
    assert [site.round(), site.round()] == [1, 0], "told once"
    (other,) = fill(db, (Priority.P2,), entered_at=[LONG_AGO])
    assert site.round() == 1, "each priority by itself"
    for case_id in (urgent, other):
        site.now += 2 * MINUTE
        site.open_and_give_back(case_id, 2 * MINUTE)
        assert [site.round(20 * MINUTE), site.round()] == [1, 0], "once for each time"
    assert site.told("priority")[2:] == ["P0", "P0"], "what is less urgent is told once"


def test_an_urgent_case_that_stays_overdue_goes_to_the_next_in_the_order_until_somebody_has_it_open(
    db: Database, site: Site
) -> None:
    for step in (1, 3):
        site.tell(Event.OVERDUE, step=step)
    (urgent,) = fill(db, (Priority.P1,), entered_at=[LONG_AGO])
    site.open_and_give_back(urgent)
    fill(db, (Priority.P2,), entered_at=[LONG_AGO])
    assert site.rounds(4, 5 * MINUTE) == [2, 1, 1, 1], "both at once; then the urgent one each time"
    assert site.told_of(Priority.P1) == ["place 1", "place 3", "place 3", "place 3"]
    site.open_and_give_back(urgent, 8 * MINUTE)
    assert site.round() == 1 and site.told_of(Priority.P1)[4:] == ["place 1"], "given back: from the first place again"


def test_a_follow_up_that_is_overdue_goes_down_the_order_once_and_from_its_first_place_when_another_is(
    db: Database, site: Site
) -> None:
    for step in (1, 3):
        site.tell(Event.OVERDUE, step=step)
    site.tell(Event.ARRIVED_P0, Event.FAULT, step=2)
    cases = fill(db, (Priority.P3,) * 2)
    for case_id in cases:
        site.follow_up(case_id)
    site.follow_up(cases[0], Disposition.PROTECTIVE_SERVICES)
    site.now += 59 * MINUTE
    assert site.rounds(2, MINUTE) == [0, 1], "a minute before it is due, and then"
    assert site.told("text") == ["2 cases have a follow-up that is overdue and not closed."]
    assert site.rounds(4, 5 * MINUTE) == [0, 1, 0, 0], "each place once: somebody may be acting"
    assert site.told_of(Priority.P0) == ["place 1", "place 3"]
    site.close(cases[0])
    site.now = NOW + 1441 * MINUTE
    site.rounds(3, 5 * MINUTE)
    assert site.told_of(Priority.P1) == ["place 1", "place 3"], (
        "what becomes overdue later is told from the first place"
    )
    assert site.told_of(Priority.P0) == ["place 1", "place 3"]


def test_a_follow_up_that_a_clock_ran_ahead_of_is_told_again_once_the_clock_is_right(db: Database, site: Site) -> None:
    """What became overdue until then would be told nobody, and the next place in the order would wait that long."""
    for step in (1, 3):
        site.tell(Event.OVERDUE, step=step)
    site.follow_up(fill(db, entered=False)[0])
    site.now = NOW + timedelta(days=30)
    assert site.round() == 1
    site.now = NOW + 61 * MINUTE
    site.rounds(4, 5 * MINUTE)
    assert sorted(site.told_of(Priority.P0)) == ["place 1", "place 1", "place 3"]


def test_a_follow_up_that_was_closed_before_its_message_went_out_is_not_told(db: Database, site: Site) -> None:
    site.tell(Event.OVERDUE)
    cases = fill(db, (Priority.P3,) * 2)
    for case_id in cases:
        site.follow_up(case_id)
    site.now += 61 * MINUTE
    assert outbox.collect(db, site.now) > 0
    site.close(cases[0])
    assert site.round() == 1 and site.told("count") == [1]
    site.close(cases[1])
    assert outbox.still_so(db, outbox.Notice(event="follow_up", priority=Priority.P0), site.now) is None


def test_a_failing_channel_is_tried_again_with_the_same_key_and_the_next_is_told(db: Database, site: Site) -> None:
    broken, _ = site.tell(Event.ARRIVED_P0, at=nowhere(), step=1)
    site.tell(Event.ARRIVED_P0, step=2)
    site.receiver.answers = [500]
    fill(db, (Priority.P0,))
    site.rounds(7, 25 * SECOND)
    keys = {headers["Idempotency-Key"] for headers, _body in site.receiver.received}
    assert len(site.receiver.received) == 2 and len(keys) == 1, "told after three failed tries, repeated after its 500"
    (first,) = [each for each in list_recipients(db, LOCAL_USER) if each.id == broken.id]
    assert first.problem is not None and "no answer" in first.problem
    set_active(db, LOCAL_USER.at(site.now), broken.id, False)
    assert all(db.values(select(notifications.c.given_up_at).where(notifications.c.sent_at.is_(None))))


def test_dead_workers_and_a_silent_model_are_told_and_their_end_too(db: Database, site: Site) -> None:
    site.tell()
    (case_id,) = fill(db, (Priority.P3,))
    assert site.round() == 0
    site.now += 2 * MINUTE
    assert site.one.round() == 1 and site.told("fault") == ["workers"]
    errors = [{"case_id": case_id, "kind": "connection", "message": "", "calls": 0, "at": site.now}] * 3
    write(db, case_errors.insert(), errors)
    assert site.round() == 2
    assert set(site.told("fault")[1:]) == {"workers_over", "model"}


def test_a_worker_alone_ends_the_fault_that_none_runs(db: Database, site: Site) -> None:
    site.round()
    for later in (2 * MINUTE, timedelta(days=8)):
        site.now += later
        health.beat(db, "an app", "app", site.now)  # with it the dead worker's last sign of life is forgotten
        site.one.round()
        assert [lasting.fault for lasting in health.open_faults(db)] == [health.Fault.WORKERS]
    site.rounds(2, 20 * SECOND)
    assert health.open_faults(db) == ()


@pytest.mark.parametrize("why", sorted(CAP_REACHED))
def test_a_batch_that_stops_at_its_cap_is_no_fault_of_the_model(db: Database, site: Site, why: str) -> None:
    """An overnight one pauses at it (`jobs.overnight`)."""
    fill(db, entered=False)
    site.now += MINUTE
    pause(db, SYSTEM.at(site.now), db.value(select(batches.c.id)), why)
    site.rounds(2, MINUTE)
    assert health.open_faults(db) == ()


def test_a_fault_that_is_over_before_it_could_be_told_is_told_as_over_alone(db: Database, site: Site) -> None:
    site.tell(Event.FAULT)
    health.beat(db, "two", "worker", site.now)
    site.receiver.answers = [500] * 3
    for _ in range(3):  # no worker lives, and the channel is down
        site.now += 2 * MINUTE
        assert site.one.round() == 0
    site.rounds(4, 2 * MINUTE)
    assert site.told("fault")[3:] == ["workers_over"]
    site.receiver.answers = [500, 500]
    site.now += 10 * MINUTE
    assert site.one.round() == 0
    assert site.round(alive="two") == 0, "over, and not told"
    site.now += 10 * MINUTE
    site.one.round()
    assert site.told("fault")[6:] == ["workers"], "here again"


def test_a_file_that_nobody_takes_in_is_told_and_its_end_too(db: Database, site: Site) -> None:
    site.tell()
    batch_id = batch(db, closed=False)
    stop_intake(db, LOCAL_USER.at(site.now), batch_id, "file_refused")
    assert [site.round(), site.round(), site.round(MINUTE)] == [1, 0, 0], "told once"
    resume_intake(db, LOCAL_USER.at(site.now), batch_id)
    assert site.round(MINUTE) == 1
    assert site.told("fault") == ["files", "files_over"]


def test_a_file_whose_process_is_gone_is_told_after_a_quarter_of_an_hour(db: Database, site: Site) -> None:
    site.tell()
    batch_id = batch(db, closed=False)
    sent = site.rounds(34, MINUTE / 2)
    assert (sum(sent[:30]), sum(sent)) == (0, 1) and site.told("fault") == ["files"]
    assert progress(db, batch_id).rows_missing == "nobody_takes_in"


def test_one_process_at_a_time_sends_and_another_follows_when_it_dies(db: Database, site: Site) -> None:
    site.tell()
    second = site.process("two")
    assert (site.round(), second.round()) == (0, 0)
    fill(db, (Priority.P0,))
    assert second.round() == 0, "the other has the duty"
    site.now += 2 * MINUTE
    health.beat(db, "two", "worker", site.now)
    assert second.round() == 1


def test_after_a_clock_that_ran_ahead_was_set_right_people_are_told_at_once(db: Database, site: Site) -> None:
    """Neither the duty of a process that is gone, nor a message, nor its own pauses wait for what the clock named."""
    site.tell(Event.ARRIVED_P0)
    site.now += 60 * MINUTE
    health.beat(db, "gone", "worker", site.now)
    gone = site.process("gone")
    fill(db, (Priority.P0,))
    assert (gone.round(), site.one.round()) == (1, 0)
    fill(db, (Priority.P0,))  # within the interval
    assert gone.round() == 0
    site.now = NOW
    assert not health.worker_lives(db, NOW), "a sign of life from the future is none"
    assert site.round(MINUTE) == 1
    fill(db, (Priority.P0,))
    assert site.round(2 * MINUTE) == 1
    assert site.told("count") == [1, 2, 1], "the first still waits"


def test_the_next_in_the_order_is_told_in_time_though_a_clock_had_run_ahead(db: Database, site: Site) -> None:
    for step in (1, 2):
        site.tell(Event.ARRIVED_P1, step=step)
    site.now += 60 * MINUTE
    fill(db, (Priority.P1,))
    assert site.round() == 1
    site.now = NOW + MINUTE
    assert sum(site.rounds(2, MINUTE)) == 1


def test_a_message_that_failed_under_a_clock_that_ran_ahead_keeps_its_pauses(db: Database, site: Site) -> None:
    site.tell(Event.ARRIVED_P0, at=nowhere())
    fill(db, (Priority.P0,))
    site.round(60 * MINUTE)
    site.now = NOW
    site.rounds(20, 3 * SECOND)
    assert 3 <= db.value(select(notifications.c.attempts)) <= 5


def test_a_message_whose_sender_was_killed_over_it_is_sent_by_the_next(db: Database, site: Site) -> None:
    """Killed after it took the message, and after the other side had it: the repetition has the same key."""
    site.tell()
    fill(db, (Priority.P0,))
    outbox.collect(db, site.now)
    (message,) = outbox.take_due(db, site.now)
    body = {"id": message.id}
    post(message.target, message.secret, message.id, body, int(site.now.timestamp()), private=True)
    assert site.round() == 0, "it may be on its way"
    assert (site.round(MINUTE), site.round()) == (1, 0)
    assert [headers["Idempotency-Key"] for headers, _body in site.receiver.received] == [message.id] * 2


def test_where_looking_takes_long_it_is_done_less_often(
    db: Database, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.tell()
    monkeypatch.setattr("jobs.notify.LONG_S", 0.0)
    monkeypatch.setattr("jobs.notify.RESTS", 1_000)
    assert site.round() == 0
    fill(db, (Priority.P0,))
    assert site.round() == 0, "it has just looked"
    assert site.round(20 * MINUTE) > 0


def test_a_monitor_hears_every_minute_and_not_without_a_worker(db: Database, site: Site) -> None:
    address = site.receiver.address
    add_recipient(db, LOCAL_USER.at(NOW), name="outside", kind=Kind.MONITOR, target=address, shown="outside")
    site.one.round()
    assert site.receiver.received == []
    for seconds in (61, 30, 31):
        site.round(seconds * SECOND)
    assert site.receiver.bodies == [{"status": "ok"}] * 2


def test_the_test_button_sends_one_message(db: Database, site: Site) -> None:
    made, _ = site.tell()
    outbox.send_test(db, LOCAL_USER.at(NOW), made.id)
    assert site.round() == 1
    assert (site.told("event"), site.told("priority")) == (["test"], [None])


def test_what_somebody_opened_before_it_was_sent_is_not_told(db: Database, site: Site) -> None:
    """In quiet hours, and while a channel is down, people go on reading."""
    site.tell(Event.ARRIVED_P0, Event.ARRIVED_P1, quiet=(8 * 60, 14 * 60))
    first, second = fill(db, (Priority.P1, Priority.P1))
    assert site.round() == 0, "quiet hours"
    site.open(first)
    assert site.round(timedelta(hours=6)) == 1 and site.told("count") == [1]
    site.now += timedelta(hours=18)  # quiet again; a third comes in
    (third,) = fill(db, (Priority.P1,), entered_at=[site.now])
    site.round()
    for opened in (second, third):
        site.open(opened)
    assert site.round(timedelta(hours=8)) == 0 and len(site.receiver.bodies) == 1, "nothing is left to tell of"
    assert db.rows(select(audit_events.c.seq).where(audit_events.c.action == "notification_needless"))


def test_what_is_urgent_is_tried_again_every_minute_and_the_rest_not_in_quiet_hours(db: Database, site: Site) -> None:
    site.tell(Event.ARRIVED_P0, Event.ARRIVED_P1, at=nowhere(), quiet=(9 * 60 + 30, 14 * 60))  # it is 9:00
    fill(db, (Priority.P0, Priority.P1))
    waits = select(notifications.c.priority, notifications.c.not_before).where(notifications.c.given_up_at.is_(None))
    for _ in range(12):
        site.round()
        again = {row.priority: row.not_before for row in db.rows(waits)}
        assert again[0] <= site.now + MINUTE
        site.now += 5 * MINUTE
    assert again[1] == NOW.replace(hour=14)


def test_a_channel_that_was_down_for_hours_brings_one_message_and_keeps_no_other_waiting(
    db: Database, site: Site
) -> None:
    site.tell(Event.ARRIVED_P0, at="/down", step=2)
    site.receiver.answers = [500] * 12
    fill(db, (Priority.P0,) * 10)
    assert site.rounds(12, 5 * MINUTE) == [0] * 12
    site.tell(Event.ARRIVED_P1, at="/well")
    fill(db, (Priority.P1,), entered_at=[site.now])
    assert site.round() == 2
    assert sorted((body["priority"], body["count"]) for body in site.receiver.bodies[12:]) == [("P0", 10), ("P1", 1)]


def test_those_tried_least_are_sent_first(db: Database, site: Site) -> None:
    """So many channels fail that a round cannot try them all: whoever can be reached is told first."""
    for at in range(12):
        site.tell(Event.ARRIVED_P0, at=f"/{at}")
    site.tell(Event.ARRIVED_P1, at="/well")
    site.receiver.answers = [500] * 16
    fill(db, (Priority.P0,))
    for _ in range(2):
        site.one.round()
    site.now += MINUTE
    fill(db, (Priority.P1,), entered_at=[site.now])
    site.round()
    assert "P1" in site.told("priority")[12:]


def test_a_message_that_fails_goes_to_those_alone_who_are_told_of_such_things(db: Database, site: Site) -> None:
    site.tell(Event.ARRIVED_P1, at=nowhere(), step=1)
    site.tell(Event.FAULT, at="/faults", step=2)
    site.tell(Event.ARRIVED_P1, at="/third", step=3)
    fill(db, (Priority.P1,))
    site.rounds(6, 25 * SECOND)
    assert (site.told("priority"), site.told("event")) == (["P1"], ["arrived"])
    assert set(site.told_of(Priority.P1)) == {"place 1", "place 3"}


def test_people_without_the_right_set_nothing(db: Database) -> None:
    with pytest.raises(Exception, match="may not change settings"):
        add_recipient(db, ANN.at(NOW), name="x", kind=Kind.WEBHOOK, target="https://x", shown="x")


def test_a_mail_goes_out_over_a_real_smtp_server(db: Database, site: Site) -> None:
    with mail_server() as mailbox:
        shown = describe(mailbox.address, private=True)
        assert shown.startswith("mailto://127.0.0.1")
        add_recipient(db, LOCAL_USER.at(NOW), name="ward", kind=Kind.SERVICE, target=mailbox.address, shown=shown)
        (case_id,) = fill(db, (Priority.P0,))
        assert site.round() == 1
        (mail,) = mailbox.mails
        assert "1 case of priority P0" in mail and case_id not in mail and "canary" not in mail
        with pytest.raises(NotSent, match="not public"):
            send(mailbox.address, "t", "b", private=False)
        assert len(mailbox.mails) == 1


def test_the_kinds_of_services_are_those_of_the_document() -> None:
    document = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text(encoding="utf-8")
    named = document.partition("may be named:")[2].partition("Each message")[0]
    assert set(re.findall(r"`(\w+)`", named)) == SERVICES


def test_only_known_kinds_of_services_may_be_named_and_passwords_are_hidden() -> None:
    for address in ("json://127.0.0.1", "file:///etc/passwd", "exec://x", "mailto://u:p@host.example"):
        with pytest.raises(ValueError, match="not known here"):
            describe(address, private=False)
    shown = describe("mailtos://look:hunter2@smtp.example.com?to=ward@site.example", private=False)
    assert "hunter2" not in shown and "smtp.example.com" in shown


@pytest.mark.parametrize(
    "address", ["http://site.example/x", "ftp://site.example", "https://u:p@site.example", "https://", "https://a/#b"]
)
def test_a_webhook_is_https_with_nothing_hidden_in_its_address(address: str) -> None:
    with pytest.raises(ValueError, match=r"address|host"):
        target_of(address, private=False)


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
        permitted_address(host, 443, private=False)
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

    monkeypatch.setattr("jobs.channels.socket.getaddrinfo", look_up)
    monkeypatch.setattr("jobs.channels.socket.create_connection", connect)
    with pytest.raises(NotSent, match="no answer"):
        post(f"https://rebinding.example:{port}/", "key", "id", {}, 1, private=False)
    assert (asked, connected, receiver.received) == (["rebinding.example"], ["8.8.8.8"], [])


def test_a_redirect_is_not_followed_and_a_long_body_is_refused(receiver: Receiver) -> None:
    receiver.answers, receiver.location = [302], receiver.address
    with pytest.raises(NotSent, match="answered 302: redirects are not followed"):
        post(receiver.address, "key", "id", {}, 1, private=True)
    assert len(receiver.received) == 1
    with pytest.raises(ValueError, match="4 kB"):
        post(receiver.address, "key", "id", {"text": "x" * 4_100}, 1, private=True)
    with pytest.raises(ValueError, match="4 kB"):
        send("mailto://127.0.0.1", "t", "x" * 4_100, private=True)


@pytest.mark.parametrize("connects_in_s", [0.0, 0.4])
def test_a_server_that_drips_is_cut_off_after_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, connects_in_s: float
) -> None:
    """Also where connecting alone takes the whole time: else one receiver could hold up all other messages."""
    monkeypatch.setattr("jobs.channels.TIMEOUT_S", 0.3)
    connect = socket.create_connection

    def connect_late(*where: Any) -> socket.socket:
        time.sleep(connects_in_s)
        return connect(*where)

    def drip() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not ended.wait(0.1):
                try:
                    connection.sendall(b"X-Slow: 1\r\n")
                except OSError:
                    return

    monkeypatch.setattr("jobs.channels.socket.create_connection", connect_late)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        begun = time.monotonic()
        with pytest.raises(NotSent):
            post(f"http://127.0.0.1:{server.getsockname()[1]}/", None, "id", {}, 1, private=True)
        assert time.monotonic() - begun < 4
        ended.set()
        dripping.join(5)


def test_a_mail_server_that_says_nothing_is_given_up_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.channels.TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NotSent, match="took too long"):
        send(f"mailto://127.0.0.1:{silent.getsockname()[1]}?from=a@b.example&to=c@d.example", "t", "b", private=True)
