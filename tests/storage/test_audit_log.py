"""The chain finds every change, the anchor every cut; that many who write at once keep it whole is in `test_claims`."""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, text, update

from jobs.channels import signature
from jobs.notify import anchor_if_due, kept_anchors
from screening.labels import Label, Outcome
from screening.pipeline.config import preset
from screening.review.triage import Reach
from screening.settings import Settings
from storage.audit_log import GENESIS, Anchor, AuditKey, Verification, anchor, append, chain_hash, events, verify
from storage.batches import configurations
from storage.database import Database
from storage.review.erasure import By, Selection, erase
from storage.schema import audit_events
from storage.settings_store import SiteSettings, change
from storage.site import accounts, outbox
from storage.site.accounts import Scope, SignIn
from storage.site.health import Fault, open_faults
from tests.databases import write
from tests.receivers import receiving
from tests.storage.batch_of import LATER, batch, commit_run, decide, run, waiting
from tests.storage.inbox_cases import form, read, rows
from tests.storage.people import ADMIN, ANN, NOW

KEY = "SECOND_LOOK_AUDIT_KEY"


def log(db: Database, number: int) -> None:
    for index in range(number):
        with db.write() as conn:
            append(conn, ANN.at(NOW + timedelta(seconds=index)), "text_viewed", f"case-{index}", {"index": index})


def cut(db: Database, after: int) -> None:
    write(db, delete(audit_events).where(audit_events.c.seq > after))


class _Undone(Exception):
    """To leave a transaction by."""


@contextmanager
def for_a_moment(db: Database) -> Iterator[Connection]:
    """A transaction whose changes do not stay."""
    with suppress(_Undone), db.write() as conn:
        yield conn
        raise _Undone


def test_without_an_anchor_nothing_is_proven(db: Database) -> None:
    """With one an untouched log is, and an empty one too; nor with one that somebody made up."""
    empty = verify(db)
    assert (empty.ok, empty.events, anchor(db)) == (True, 0, Anchor(count=0, last_hash=GENESIS))
    log(db, 5)
    assert verify(db, [anchor(db)]) == Verification(events=5, last_hash=anchor(db).last_hash, anchored=5)
    assert verify(db, [anchor(db)]).proven
    assert [event.details["index"] for event in events(db, ADMIN, subject="case-3")] == [3]
    assert verify(db, [Anchor(count=0, last_hash=GENESIS)]).ok, "an anchor taken before the first event still holds"
    found = verify(db)
    assert (found.ok, found.proven) == (True, False) and "no signed anchor" in str(found.doubt)
    signed = json.loads(anchor(db).as_json())
    made_up = [Anchor.from_json(json.dumps(signed | {"mac": wrong})) for wrong in ("0" * 64, 7, None)]
    found = verify(db, [anchor(db), *made_up])
    assert (found.ok, found.proven) == (True, False) and "3 anchors are signed under a key" in str(found.doubt)
    elsewhere = Anchor.from_json(json.dumps(signed | {"last_hash": "0" * 64}))
    assert verify(db, [elsewhere]).problem == "an anchor under a key that is not here names another hash for this event"


TAMPERED = tomllib.loads((Path(__file__).parent / "tampered.toml").read_text(encoding="utf-8"))


def test_an_event_that_is_changed_gone_or_moved_is_found_where_it_is_and_a_cut_by_the_anchor_alone(
    db: Database,
) -> None:
    log(db, 5)
    for statements, seq in TAMPERED["log"].items():
        with for_a_moment(db) as conn:
            for each in statements.split("; "):
                conn.execute(text(each))
            assert verify(conn).seq == seq, statements
    assert verify(db).ok
    kept = Anchor.from_json(anchor(db).as_json())
    cut(db, 3)
    assert verify(db).ok, "what is left is a whole chain"
    found = verify(db, [kept])
    assert (found.ok, found.seq, found.events) == (False, 4, 3)
    log(db, 4)
    assert not verify(db, [kept]).ok, "growing it again to the old length does not help"
    for line in ("", "{}", "[]", '{"count": "x", "last_hash": ""}'):
        with pytest.raises(ValueError, match="not an anchor"):
            Anchor.from_json(line)


def test_who_can_write_the_database_but_has_no_key_cannot_mend_the_chain(db: Database) -> None:
    log(db, 3)
    kept, previous, third = anchor(db), GENESIS, dict(rows(db, audit_events)[2]._mapping)
    fields = {name: third[name] for name in ("seq", "action", "subject", "details", "at")} | {"actor": "bo"}
    guessed = AuditKey("a guess")
    guessed.id = third["key_id"]
    with for_a_moment(db) as conn:
        made = chain_hash(third["previous_hash"], guessed, **fields)
        conn.execute(update(audit_events).where(audit_events.c.seq == 3).values(actor="bo", hash=made))
        assert verify(conn).problem == "was changed"
    for seq in (1, 2, 3):  # all of it anew, under a key that is not here
        made = hashlib.sha256(f"{previous}{seq}".encode()).hexdigest()
        values = {"actor": "bo", "previous_hash": previous, "hash": made, "key_id": "f" * 16}
        write(db, update(audit_events).where(audit_events.c.seq == seq).values(values))
        previous = made
    found = verify(db, [kept])
    assert (found.ok, found.seq, found.anchored) == (False, 3, 0) and "another hash" in str(found.problem)


def test_anchors_under_an_earlier_key_of_the_site_are_compared_and_prove_nothing(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(audit_anchor_file=tmp_path / "anchors.jsonl", audit_anchor_events=1)
    for key in ("one", "another"):
        monkeypatch.setenv(KEY, key)
        log(db, 3)
        assert anchor_if_due(db, settings, NOW) is not None
    before, after = kept_anchors(settings)
    assert (before.ours, after.ours, verify(db, [before]).anchored) == (False, True, 0)
    found = verify(db, [before, after])
    assert (found.ok, found.proven) == (True, False) and "3 events were written under a key" in str(found.doubt)
    cut(db, 0)
    log(db, 2)
    assert "ends before an anchor under a key that is not here" in str(verify(db, [before]).problem)


def lived_in(db: Database) -> None:
    """A site on which each table that decides something has a row, made by the program itself."""
    signed_in = SignIn(subject="idp|ada", display_name="Ada", issued_at=NOW)
    by = accounts.enter(db, signed_in, NOW, [signed_in.subject]).at(NOW)
    accounts.enter(db, replace(signed_in, subject="idp|bo"), NOW)
    change(db, by, SiteSettings(lease_minutes=9), 0)
    accounts.make_program(db, by, "a chatbot", [Scope.SUBMIT], 60)
    told = {"name": "on call", "kind": outbox.Kind.WEBHOOK, "target": "https://a.org/x", "shown": "a.org"}
    outbox.add_recipient(db, by, **told)  # type: ignore[arg-type]
    configurations.keep_version(db, by, preset("recommended"), "", 0)
    configurations.activate(db, by, "recommended", 1, "tried")
    batch(db, [f"a plain text, number {number}" for number in range(5)], reach=Reach.READ)
    ended = (Outcome.SAFE, Outcome.UNSAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW)
    first, *_ = ids = waiting(db)
    for case_id, outcome in zip(ids, ended, strict=False):
        decide(db, case_id, outcome)
    assert commit_run(db, ids[3], 1, run("UUUUUU", Label.UNSAFE)), "a run that comes after the outcome"
    read(db, ANN, form("unsafe", 5, note="words"), "a", LATER)
    erase(db, by, Selection(by=By.CASE, value=first), "asked for by letter")


def test_whatever_decides_something_is_not_changed_unseen(db: Database) -> None:
    lived_in(db)
    assert verify(db, [anchor(db)]).proven
    for what, statement in TAMPERED["decides"].items():
        with for_a_moment(db) as conn:
            assert conn.execute(text(statement)).rowcount, f"{what}: the statement met no row"
            assert not verify(conn).ok, what
    for what in ("screenings SET completed_at", "audit_events SET at"):  # a change, and no fault of the program
        if db.kind == "sqlite":
            with for_a_moment(db) as conn:
                conn.execute(text(f"UPDATE {what} = 'soon'"))
                assert "cannot be read" in str(verify(conn).problem)
    assert verify(db).ok


def test_a_log_cut_in_half_is_told_by_the_rows_whose_events_are_gone(db: Database) -> None:
    lived_in(db)
    end = anchor(db).count
    for kept in range(end - 1, -1, -1):
        cut(db, kept)
        if kept not in (end - 1, 1):  # the last was the erasure's request, the first a sign-in: they made no row
            assert not verify(db).ok, kept


def test_anchors_are_written_by_themselves_after_events_and_after_minutes(db: Database, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere" / "anchors.jsonl"
    settings = Settings(audit_anchor_file=kept, audit_anchor_events=5, audit_anchor_minutes=10)
    assert anchor_if_due(db, settings, NOW) is None, "an empty log has no end"
    for further, minutes, due in ((1, 0, True), (2, 1, False), (3, 1, True), (1, 5, False), (0, 12, True)):
        log(db, further)
        assert (anchor_if_due(db, settings, NOW + timedelta(minutes=minutes)) is not None) is due, minutes
    anchors = kept_anchors(settings)
    assert [one.count for one in anchors] == [1, 6, 7] and verify(db, anchors).proven
    assert kept.stat().st_mode & 0o077 == 0


def test_anchors_go_to_a_webhook_too_signed_and_are_a_fault_while_it_refuses(db: Database, tmp_path: Path) -> None:
    kept, key = tmp_path / "anchors.jsonl", "the site's key"
    with receiving() as receiver:
        settings = Settings(
            audit_anchor_file=kept, audit_anchor_webhook=receiver.address, audit_key=key, notify_private_addresses=True
        )
        receiver.answers = [500]
        log(db, 1)
        assert anchor_if_due(db, settings, NOW) is None
        assert [one.fault for one in open_faults(db)] == [Fault.ANCHOR]
        made = anchor_if_due(db, settings, NOW)
        assert made is not None and open_faults(db) == []
    headers, body = receiver.received[-1]
    assert (len(receiver.received), Anchor.from_json(body.decode())) == (2, made)
    at = int(headers["X-Second-Look-Timestamp"])
    assert headers["X-Second-Look-Signature"] == signature(key, at, body) and at == int(NOW.timestamp())
    assert verify(db, [made]).proven and verify(db, kept_anchors(settings)).proven


def test_the_line_after_one_that_was_cut_off_is_whole(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a disk that is full; a last line under an earlier key is ended and not cut off. A file that cannot be
    written at all is a fault until it can.
    """
    kept = tmp_path / "anchors" / "anchors.jsonl"
    settings = Settings(audit_anchor_file=kept, audit_anchor_events=1)

    def goes_on() -> bool:
        log(db, 1)
        return anchor_if_due(db, settings, NOW) is not None

    kept.parent.write_text("")
    assert not goes_on() and [one.fault for one in open_faults(db)] == [Fault.ANCHOR]
    kept.parent.unlink()
    assert goes_on() and open_faults(db) == []
    kept.write_bytes(kept.read_bytes() + b'{"at": "2026-11-20T12:01:00+00:00", "cou')
    assert goes_on()
    kept.write_bytes(kept.read_bytes().removesuffix(b"\n"))
    assert goes_on() and verify(db, kept_anchors(settings)).proven
    kept.write_bytes(kept.read_bytes().removesuffix(b"\n"))
    monkeypatch.setenv(KEY, "another")
    assert goes_on()
    assert [one.count for one in kept_anchors(settings)] == [2, 3, 4, 5]
