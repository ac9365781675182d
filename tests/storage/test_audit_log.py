"""The chain finds every change, the anchor every cut, and concurrent writers keep it whole."""

import hashlib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, select, text, update

from jobs.audit_anchors import anchor_if_due, kept_anchors
from jobs.channels import signature
from screening.labels import Label, Outcome
from screening.pipeline.config import preset
from screening.review.policy import Forbidden
from screening.review.reach import Reach
from screening.settings import Settings
from storage.audit_log import GENESIS, LONGEST_DETAIL, Anchor, AuditKey, anchor, append, chain_hash, events
from storage.batches import configurations
from storage.database import Database
from storage.review import erasure
from storage.review.erasure import By, Selection
from storage.schema import audit_events
from storage.settings_store import SiteSettings, change
from storage.site import accounts, recipients
from storage.site.accounts import Scope, SignIn
from storage.site.audit_check import Verification, verify, verify_in
from storage.site.health import Fault, open_faults
from storage.site.recipients import Kind
from tests.databases import write
from tests.receivers import receiving
from tests.storage.batch_of import LATER, batch, commit_run, decide, run, waiting
from tests.storage.inbox_cases import ADMIN, ANN, NOW, fill, form, read, vouch


def log(db: Database, number: int) -> None:
    for index in range(number):
        with db.write() as conn:
            append(conn, ANN.at(NOW + timedelta(seconds=index)), "text_viewed", f"case-{index}", {"index": index})


def test_an_untouched_log_verifies_and_an_empty_one_too(db: Database) -> None:
    empty = verify(db)
    assert (empty.ok, empty.events, anchor(db)) == (True, 0, Anchor(count=0, last_hash=GENESIS))
    log(db, 5)
    assert verify(db, [anchor(db)]) == Verification(events=5, last_hash=anchor(db).last_hash, anchored=5)
    assert verify(db, [Anchor(count=0, last_hash=GENESIS)]).ok, "an anchor taken before the first event still holds"


EDITS = {
    "actor": "bo",
    "action": "rated",
    "subject": None,
    "details": '{"index":3}',
    "at": NOW,
    "hash": "f" * 64,
    "previous_hash": "f" * 64,
}


def test_an_edit_of_any_field_is_found_where_it_is(db: Database) -> None:
    log(db, 5)
    third = audit_events.c.seq == 3
    for column, value in EDITS.items():
        with db.read() as conn:
            before = conn.execute(select(audit_events.c[column]).where(third)).scalar()
        write(db, update(audit_events).where(third).values({column: value}))
        assert verify(db).seq == 3, column
        write(db, update(audit_events).where(third).values({column: before}))
    assert verify(db).ok


GONE_OR_MOVED = {
    "the first is gone": (2, ["DELETE FROM audit_events WHERE seq = 1"]),
    "one in the middle is gone": (3, ["DELETE FROM audit_events WHERE seq = 2"]),
    "and what follows is renumbered": (
        2,
        [
            "DELETE FROM audit_events WHERE seq = 2",
            *(f"UPDATE audit_events SET seq = {seq - 1} WHERE seq = {seq}" for seq in (3, 4, 5)),
        ],
    ),
    "two changed places": (
        2,
        [f"UPDATE audit_events SET seq = {new} WHERE seq = {old}" for old, new in ((2, 99), (3, 2), (99, 3))],
    ),
}


@pytest.mark.parametrize(("seq", "changes"), GONE_OR_MOVED.values(), ids=GONE_OR_MOVED)
def test_an_event_that_is_gone_or_moved_is_found(db: Database, seq: int, changes: list[str]) -> None:
    log(db, 5)
    with db.write() as conn:
        for change in changes:
            conn.execute(text(change))
    assert verify(db).seq == seq


def test_a_cut_is_found_by_the_anchor_and_by_nothing_else(db: Database) -> None:
    log(db, 5)
    kept = Anchor.from_json(anchor(db).as_json())
    write(db, delete(audit_events).where(audit_events.c.seq > 3))
    assert verify(db).ok, "what is left is a whole chain"
    found = verify(db, [kept])
    assert (found.ok, found.seq, found.events) == (False, 4, 3)
    log(db, 4)
    assert not verify(db, [kept]).ok, "growing it again to the old length does not help"


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"count": "x", "last_hash": ""}'])
def test_what_is_no_anchor_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not an anchor"):
        Anchor.from_json(line)


def test_concurrent_writers_lose_nothing_and_keep_the_chain(db: Database) -> None:
    def write(number: int) -> None:
        with db.write() as conn:
            append(conn, ANN.at(NOW), "text_viewed", f"case-{number}", {})

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(write, range(120)))
    assert (verify(db).ok, verify(db).events, verify(db).last_hash) == (True, 120, anchor(db).last_hash)
    assert {event.subject for event in events(db, ADMIN, limit=200)} == {f"case-{number}" for number in range(120)}


def test_a_detail_as_long_as_a_message_is_refused(db: Database) -> None:
    for value in ("x" * (LONGEST_DETAIL + 1), ["x" * (LONGEST_DETAIL + 1)]):
        with pytest.raises(ValueError, match="identifiers, not text"), db.write() as conn:
            append(conn, ANN.at(NOW), "rated", "case", {"note": value})


def test_only_those_who_may_see_the_log(db: Database) -> None:
    log(db, 3)
    assert [event.details["index"] for event in events(db, ADMIN)] == [2, 1, 0]
    assert [event.at for event in events(db, ADMIN, subject="case-1")] == [NOW + timedelta(seconds=1)]
    with pytest.raises(Forbidden):
        events(db, ANN)


def test_without_an_anchor_nothing_is_proven(db: Database) -> None:
    log(db, 3)
    found = verify(db)
    assert (found.ok, found.proven) == (True, False) and "no signed anchor" in str(found.doubt)
    assert verify(db, [anchor(db)]).proven


def test_who_can_write_the_database_but_has_no_key_cannot_mend_the_chain(db: Database) -> None:
    log(db, 3)
    with db.write() as conn:
        third = dict(conn.execute(select(audit_events).where(audit_events.c.seq == 3)).one()._mapping)
        third["actor"] = "bo"
        fields = {name: third[name] for name in ("seq", "actor", "action", "subject", "details")}
        guessed = AuditKey("a guess")
        guessed.id = third["key_id"]
        third |= {"hash": chain_hash(third["previous_hash"], guessed, at=third["at"], **fields)}
        conn.execute(update(audit_events).where(audit_events.c.seq == 3).values(third))
    assert verify(db).problem == "was changed"


def test_a_chain_rewritten_under_a_key_that_is_not_here_is_found_by_the_anchor(db: Database) -> None:
    log(db, 3)
    kept, previous = anchor(db), GENESIS
    with db.write() as conn:
        for seq in (1, 2, 3):
            made = hashlib.sha256(f"{previous}{seq}".encode()).hexdigest()
            values = {"actor": "bo", "previous_hash": previous, "hash": made, "key_id": "f" * 16}
            conn.execute(update(audit_events).where(audit_events.c.seq == seq).values(values))
            previous = made
    found = verify(db, [kept])
    assert (found.ok, found.seq, found.anchored) == (False, 3, 0) and "another hash" in str(found.problem)


def test_an_anchor_that_somebody_made_up_proves_nothing(db: Database) -> None:
    log(db, 1)
    kept, signed = anchor(db), json.loads(anchor(db).as_json())
    made_up = [Anchor.from_json(json.dumps(signed | {"mac": wrong})) for wrong in ("0" * 64, 7, None)]
    found = verify(db, [kept, *made_up])
    assert (found.ok, found.proven) == (True, False) and "3 anchors are signed under a key" in str(found.doubt)
    elsewhere = Anchor.from_json(json.dumps(signed | {"last_hash": "0" * 64}))
    assert verify(db, [elsewhere]).problem == "an anchor under a key that is not here names another hash for this event"


def test_anchors_under_an_earlier_key_of_the_site_are_compared_and_prove_nothing(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(audit_anchor_file=tmp_path / "anchors.jsonl", audit_anchor_events=1)
    for key in ("one", "another"):
        monkeypatch.setenv("SECOND_LOOK_AUDIT_KEY", key)
        log(db, 3)
        assert anchor_if_due(db, settings, NOW) is not None
    before, after = kept_anchors(settings)
    assert (before.ours, after.ours) == (False, True)
    found = verify(db, [before, after])
    assert (found.ok, found.proven) == (True, False) and "3 events were written under a key" in str(found.doubt)
    assert verify(db, [before]).anchored == 0
    write(db, delete(audit_events))
    log(db, 2)
    assert "ends before an anchor under a key that is not here" in str(verify(db, [before]).problem)
    log(db, 3)
    assert "names another hash" in str(verify(db, [before]).problem), "written anew under the present key"


def lived_in(db: Database) -> None:
    """A site on which each table that decides something has a row, made by the program itself."""
    admin = accounts.enter(db, _SIGNED_IN, NOW, [_SIGNED_IN.subject])
    accounts.enter(db, replace(_SIGNED_IN, subject="idp|bo"), NOW)
    by = admin.at(NOW)
    change(db, by, SiteSettings(lease_minutes=9), 0)
    accounts.make_program(db, by, "a chatbot", [Scope.SUBMIT], 60)
    recipients.add_recipient(db, by, name="on call", kind=Kind.WEBHOOK, target="https://a.org/x", shown="a.org")
    configurations.keep_version(db, by, preset("recommended"), "", 0)
    configurations.activate(db, by, "recommended", 1, "tried")
    batch(db, [f"a plain text, number {number}" for number in range(5)], reach=Reach.READ)
    first, second, third, fourth, _ = waiting(db)
    decide(db, first)
    for case_id in (second, third):
        decide(db, case_id, Outcome.UNSAFE)
    decide(db, fourth, Outcome.HUMAN_REVIEW)
    read(db, ANN, form("unsafe", 5, note="words"), "a", LATER)
    erasure.erase(db, by, Selection(by=By.CASE, value=first), "asked for by letter")


_SIGNED_IN = SignIn(subject="idp|ada", display_name="Ada", issued_at=NOW)
_OPEN = "WHERE closed_at IS NULL"
_SECOND = "(SELECT min(case_id) FROM screenings WHERE outcome = 'unsafe')"
TAMPERED = {
    "a text": "UPDATE cases SET text = 'all is well', model_text = NULL WHERE text != '[erased]'",
    "a text with its hash": "UPDATE cases SET text = 'so', text_sha256 = 'ff' WHERE text != '[erased]'",
    "the copy that the agents read": "UPDATE cases SET model_text = 'all is well'",
    "what was found in a text": """UPDATE cases SET flags = '{"text": ["a"], "reply": []}'""",
    "the original label": "UPDATE cases SET reference = 'unsafe'",
    "a text that was put where one was erased": "UPDATE cases SET text = 'so' WHERE text = '[erased]'",
    "a text erased by hand": f"UPDATE cases SET erased_at = 1 WHERE id = {_SECOND}",
    "a case that waits to be screened": "DELETE FROM pending_cases",
    "an outcome": "UPDATE screenings SET outcome = 'safe' WHERE outcome = 'unsafe'",
    "an outcome that is gone": f"DELETE FROM screenings WHERE case_id = {_SECOND}",
    "a quality check's coin": "UPDATE screenings SET audit_probability = 0.5",
    "an agent's label": "UPDATE node_runs SET label = 'safe' WHERE label = 'unsafe'",
    "an agent's answers": "UPDATE node_runs SET draws = 'SSSSSS' WHERE draws = 'UUUUUU'",
    "an agent's run that is gone": "DELETE FROM node_runs WHERE label = 'unsafe'",
    "an agent's run slipped in": f"UPDATE node_runs SET case_id = {_SECOND}, position = 1 WHERE draws = 'SESESE'",
    "an open case that left the queue": f"DELETE FROM inbox_entries {_OPEN}",
    "an open case that was closed": f"UPDATE inbox_entries SET closed_at = 1 {_OPEN}",
    "an open case put last": f"UPDATE inbox_entries SET priority = 3 {_OPEN}",
    "an open case given more time": f"UPDATE inbox_entries SET due_at = due_at + 1 {_OPEN}",
    "a review's label": "UPDATE reviews SET label = 'safe'",
    "a review's coded field": """UPDATE reviews SET fields = '{"disposition": "none", "form_version": 1}'""",
    "a review's author": "UPDATE reviews SET reviewer = 'bo'",
    "a review that is gone": "DELETE FROM reviews",
    "a review slipped in": f"""INSERT INTO reviews (id, case_id, reviewer, version, blind, review_round, label,
        certainty, fields, at) SELECT 'b', {_SECOND}, 'bo', 2, blind, review_round, label, certainty, fields, at FROM
        reviews""",
    "a final label": "UPDATE adjudications SET label = 'safe'",
    "a final label that is gone": "DELETE FROM adjudications",
    "an account made administrator": """UPDATE accounts SET roles = '["admin"]' WHERE subject = 'idp|bo'""",
    "an account that is another person's": "UPDATE accounts SET subject = 'idp|eve' WHERE subject = 'idp|ada'",
    "an account slipped in": """INSERT INTO accounts (id, subject, display_name, roles, active, created_at)
        VALUES ('x', 'idp|eve', 'Eve', '["admin"]', true, 1)""",
    "what becomes of unsafe texts": "UPDATE batches SET reach = 'count'",
    "the settings": """UPDATE settings_versions SET body = '{"lease_minutes": 60}'""",
    "an API client's rights": """UPDATE programs SET scopes = '["outcome"]'""",
    "who is told": "DELETE FROM notification_recipients",
    "a pipeline": "UPDATE pipeline_versions SET body = '{}'",
    "which pipeline is active": """INSERT INTO pipeline_activations (name, number, reason, "by", at)
        SELECT name, number, '', "by", 9 FROM pipeline_activations""",
}


@pytest.fixture(scope="module")
def lived_in_template(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lived") / "in.db"
    shutil.copy(sqlite_template, path)
    database = Database(f"sqlite:///{path}")
    lived_in(database)
    database.close()
    return path


@pytest.mark.parametrize("how", TAMPERED)
def test_whatever_decides_something_is_not_changed_unseen(how: str, lived_in_template: Path, tmp_path: Path) -> None:
    shutil.copy(lived_in_template, tmp_path / "x.db")
    db = Database(f"sqlite:///{tmp_path}/x.db")
    kept = anchor(db)
    assert verify(db, [kept]).proven
    _tamper(db, how)
    assert not verify(db).ok
    db.close()


def _tamper(db: Database, how: str) -> None:
    with db.write() as conn:
        assert conn.execute(text(TAMPERED[how])).rowcount, "the statement met no row"


@pytest.mark.postgresql
def test_nor_on_postgresql(postgresql_db: Database) -> None:
    lived_in(postgresql_db)
    assert verify(postgresql_db, [anchor(postgresql_db)]).proven
    for how in TAMPERED:
        with suppress(ZeroDivisionError), postgresql_db.write() as conn:
            assert conn.execute(text(TAMPERED[how])).rowcount, how
            assert not verify_in(conn).ok, how
            _ = 1 // 0  # as it was, for the next
    assert verify(postgresql_db).ok


def test_a_log_cut_in_half_is_told_by_the_rows_whose_events_are_gone(db: Database) -> None:
    lived_in(db)
    end = anchor(db).count
    for kept in range(end - 1, -1, -1):
        write(db, delete(audit_events).where(audit_events.c.seq > kept))
        if kept not in (end - 1, 1):  # the last was the erasure's request, the first a sign-in: they made no row
            assert not verify(db).ok, kept


def test_a_run_that_comes_after_the_outcome_is_vouched_for(db: Database) -> None:
    batch(db, ["a plain text of some words"])
    [case_id] = waiting(db)
    decide(db, case_id, Outcome.HUMAN_REVIEW)
    assert commit_run(db, case_id, 1, run("UUUUUU", Label.UNSAFE))
    assert verify(db, [anchor(db)]).proven


@pytest.mark.parametrize("change", ["screenings SET completed_at = 'soon'", "audit_events SET at = 'soon'"])
def test_what_cannot_be_read_any_more_is_a_change_and_no_fault_of_the_program(sqlite_url: str, change: str) -> None:
    db = Database(sqlite_url)
    fill(db)
    vouch(db)
    with db.write() as conn:
        conn.execute(text(f"UPDATE {change}"))
    found = verify(db)
    assert not found.ok and "cannot be read" in str(found.problem)
    db.close()


def test_anchors_are_written_by_themselves_after_events_and_after_minutes(db: Database, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere" / "anchors.jsonl"
    settings = Settings(audit_anchor_file=kept, audit_anchor_events=5, audit_anchor_minutes=10)
    assert anchor_if_due(db, settings, NOW) is None, "an empty log has no end"
    log(db, 1)
    assert anchor_if_due(db, settings, NOW) is not None
    log(db, 2)
    assert anchor_if_due(db, settings, NOW + timedelta(minutes=1)) is None
    log(db, 3)
    assert anchor_if_due(db, settings, NOW + timedelta(minutes=1)) is not None, "five events"
    log(db, 1)
    assert anchor_if_due(db, settings, NOW + timedelta(minutes=5)) is None
    assert anchor_if_due(db, settings, NOW + timedelta(minutes=12)) is not None, "ten minutes"
    anchors = kept_anchors(settings)
    assert [one.count for one in anchors] == [1, 6, 7] and verify(db, anchors).proven
    assert kept.stat().st_mode & 0o077 == 0
    write(db, delete(audit_events).where(audit_events.c.seq > 4))
    log(db, 8)
    assert not verify(db, anchors).ok, "cut off and grown again"


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
        assert made is not None and open_faults(db) == ()
    headers, body = receiver.received[-1]
    assert (len(receiver.received), Anchor.from_json(body.decode())) == (2, made)
    at = int(headers["X-Second-Look-Timestamp"])
    assert headers["X-Second-Look-Signature"] == signature(key, at, body) and at == int(NOW.timestamp())
    assert verify(db, [made]).proven and verify(db, kept_anchors(settings)).proven


def test_the_line_after_one_that_was_cut_off_is_whole(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full in the middle of a line left its beginning; with the next one behind it no check read on."""
    kept = tmp_path / "anchors.jsonl"
    settings = Settings(audit_anchor_file=kept, audit_anchor_events=1)
    for left in (b"", b'{"at": "2026-11-20T12:01:00+00:00", "cou', None):
        if left is None:
            kept.write_bytes(kept.read_bytes().removesuffix(b"\n"))
        else:
            with kept.open("ab") as file:
                file.write(left)
        log(db, 1)
        assert anchor_if_due(db, settings, NOW) is not None
    assert [one.count for one in kept_anchors(settings)] == [1, 2, 3] and verify(db, kept_anchors(settings)).proven
    kept.write_bytes(kept.read_bytes().removesuffix(b"\n"))
    monkeypatch.setenv("SECOND_LOOK_AUDIT_KEY", "another")
    log(db, 1)
    assert anchor_if_due(db, settings, NOW) is not None
    counted = [one.count for one in kept_anchors(settings)]
    assert counted == [1, 2, 3, 4], "a last line under an earlier key is ended and not cut off"


def test_an_anchor_that_cannot_be_written_is_a_fault_until_it_can(db: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = Settings(audit_anchor_file=tmp_path / "file" / "anchors.jsonl")
    log(db, 1)
    assert anchor_if_due(db, settings, NOW) is None
    assert [one.fault for one in open_faults(db)] == [Fault.ANCHOR]
    assert anchor_if_due(db, Settings(audit_anchor_file=tmp_path / "ok.jsonl"), NOW) is not None
    assert open_faults(db) == ()
