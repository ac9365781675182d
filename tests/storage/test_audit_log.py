"""The chain finds every change, the anchor every cut, and concurrent writers keep it whole."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, select, text, update

from jobs.audit_anchors import anchor_if_due, kept_anchors, read_anchors
from jobs.notifications_webhook import signature
from screening.review.actors import SYSTEM
from screening.review.policy import Forbidden
from screening.review.triage import Tier
from screening.settings import Settings
from storage.audit_key import site_key
from storage.audit_log import GENESIS, LONGEST_DETAIL, Anchor, ForeignAnchor, anchor, append, events
from storage.database import Database
from storage.review.claims import claim_next
from storage.review.ratings import submit_rating
from storage.schema import adjudications, audit_events, ratings, screenings
from storage.settings_store import SiteSettings, change
from storage.site import audit_seals
from storage.site.audit_check import Verification, verify
from storage.site.audit_seals import seal
from storage.site.faults import Fault, open_faults
from tests.databases import write
from tests.receivers import receiving
from tests.storage.inbox_cases import ADMIN, ANN, NOW, fill, form, register


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
    "key_id": None,
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


def test_a_deletion_is_found(db: Database) -> None:
    log(db, 6)
    for seq in (5, 3, 1):
        write(db, delete(audit_events).where(audit_events.c.seq == seq))
        assert verify(db).problem == f"event {seq} is missing"


def test_a_deletion_that_renumbers_what_follows_is_found(db: Database) -> None:
    log(db, 5)
    with db.write() as conn:
        conn.execute(delete(audit_events).where(audit_events.c.seq == 2))
        for seq in (3, 4, 5):
            conn.execute(update(audit_events).where(audit_events.c.seq == seq).values(seq=seq - 1))
    assert verify(db).seq == 2


def test_a_reordering_is_found(db: Database) -> None:
    log(db, 5)
    with db.write() as conn:
        for old, new in ((2, 99), (3, 2), (99, 3)):
            conn.execute(update(audit_events).where(audit_events.c.seq == old).values(seq=new))
    assert verify(db).seq == 2


def test_a_cut_is_found_by_the_anchor_and_by_nothing_else(db: Database) -> None:
    log(db, 5)
    kept = Anchor.from_json(anchor(db).as_json())
    write(db, delete(audit_events).where(audit_events.c.seq > 3))
    assert verify(db).ok, "what is left is a whole chain"
    found = verify(db, [kept])
    assert (found.ok, found.seq, found.events) == (False, 4, 3)
    log(db, 4)
    assert not verify(db, [kept]).ok, "growing it again to the old length does not help"


def test_a_chain_rewritten_from_the_start_is_found_by_the_anchor(db: Database) -> None:
    log(db, 3)
    kept = anchor(db)
    write(db, delete(audit_events))
    log(db, 2)
    with db.write() as conn:
        append(conn, ANN.at(NOW), "something_else", None, {})
    assert verify(db).ok
    assert not verify(db, [kept]).ok


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"count": "x", "last_hash": ""}'])
def test_what_is_no_anchor_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not an anchor"):
        Anchor.from_json(line)


def test_an_event_of_a_transaction_that_fails_is_not_there(db: Database) -> None:
    log(db, 1)
    with pytest.raises(ZeroDivisionError), db.write() as conn:
        append(conn, ANN.at(NOW), "rated", "case", {})
        _ = 1 // 0
    assert verify(db).events == 1


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
        moment = int(third["at"].timestamp() * 1_000_000)
        body = {**fields, "at": moment, "previous": third["previous_hash"]}
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        third |= {"hash": hashlib.sha256(text.encode()).hexdigest(), "key_id": None}
        conn.execute(update(audit_events).where(audit_events.c.seq == 3).values(third))
    assert verify(db).problem == "is not under a key, but events before it are"


def test_events_of_an_older_version_stay_whole_and_are_sealed_in_by_the_next_one(db: Database) -> None:
    previous = GENESIS
    with db.write() as conn:
        for seq in (1, 2):
            micros = int((NOW + timedelta(seconds=seq)).timestamp()) * 1_000_000
            fields = {"seq": seq, "actor": "ann", "action": "rated", "subject": None, "details": "{}"}
            body = {**fields, "at": micros, "previous": previous}
            text = json.dumps(body, sort_keys=True, separators=(",", ":"))
            made = hashlib.sha256(text.encode()).hexdigest()
            row = {**fields, "at": NOW + timedelta(seconds=seq), "previous_hash": previous, "hash": made}
            conn.execute(audit_events.insert().values(row))
            previous = made
    assert "before there was a key" in str(verify(db, [anchor(db)]).doubt)
    log(db, 1)
    assert verify(db, [anchor(db)]).proven
    write(db, update(audit_events).where(audit_events.c.seq == 1).values(actor="bo"))
    assert verify(db).seq == 1


def test_events_under_a_key_that_is_not_here_prove_nothing(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    log(db, 2)
    kept = anchor(db)
    monkeypatch.setenv("SECOND_LOOK_AUDIT_KEY", "another")
    found = verify(db, [kept])
    assert (found.ok, found.proven) == (True, False) and "key that is not here" in str(found.doubt)


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


def test_an_emptied_log_beside_full_tables_fails(db: Database) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(lease_minutes=9), 0)
    assert verify(db).ok
    write(db, delete(audit_events))
    assert "emptied" in str(verify(db).problem)


def test_an_anchor_that_somebody_made_up_proves_nothing(db: Database) -> None:
    log(db, 1)
    kept, signed = anchor(db), json.loads(anchor(db).as_json())
    made_up = [Anchor.from_json(json.dumps(signed | {"mac": wrong})) for wrong in ("0" * 64, 7)]
    found = verify(db, [kept, *made_up])
    assert (found.ok, found.proven) == (True, False) and "2 anchors are signed under a key" in str(found.doubt)
    elsewhere = Anchor.from_json(json.dumps(signed | {"last_hash": "0" * 64}))
    assert verify(db, [elsewhere]).problem == "an anchor under a key that is not here names another hash for this event"


def test_an_anchor_without_its_signature_proves_nothing_and_may_show_a_change(db: Database) -> None:
    log(db, 2)
    kept = anchor(db)
    bare = {"count": kept.count, "last_hash": kept.last_hash}
    unsigned = Anchor.from_json(json.dumps(bare))
    found = verify(db, [unsigned])
    assert (found.ok, found.anchored) == (True, 0) and "no signed anchor" in str(found.doubt)
    assert verify(db, [unsigned, kept]).proven, "one of an older version beside one that is signed"
    for wrong in ({"last_hash": "0" * 64}, {"count": 9}):
        assert not verify(db, [Anchor.from_json(json.dumps(bare | wrong))]).ok


def test_anchors_under_an_earlier_key_of_the_site_are_compared_and_prove_nothing(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(audit_anchor_file=tmp_path / "anchors.jsonl", audit_anchor_events=1)
    for key in ("one", "another"):
        monkeypatch.setenv("SECOND_LOOK_AUDIT_KEY", key)
        log(db, 3)
        assert anchor_if_due(db, settings, NOW) is not None
    before, after = kept_anchors(settings)
    assert isinstance(before, ForeignAnchor) and not isinstance(after, ForeignAnchor)
    found = verify(db, [before, after])
    assert (found.ok, found.proven) == (True, False) and "3 events were written under a key" in str(found.doubt)
    assert verify(db, [before]).anchored == 0
    write(db, delete(audit_events))
    log(db, 2)
    assert "ends before an anchor under a key that is not here" in str(verify(db, [before]).problem)
    log(db, 3)
    assert "names another hash" in str(verify(db, [before]).problem), "written anew under the present key"


def test_a_last_line_under_an_earlier_key_is_ended_and_not_cut_off(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "anchors.jsonl"
    monkeypatch.setenv("SECOND_LOOK_AUDIT_KEY", "one")
    log(db, 1)
    kept.write_text(anchor(db).as_json())
    monkeypatch.setenv("SECOND_LOOK_AUDIT_KEY", "another")
    log(db, 1)
    settings = Settings(audit_anchor_file=kept)
    assert anchor_if_due(db, settings, NOW) is not None
    assert [one.count for one in kept_anchors(settings)] == [1, 2]


TAMPERED = {
    "an outcome": update(screenings).values(outcome="safe"),
    "a rating's label": update(ratings).values(label="safe"),
    "a coded field": update(ratings).values(fields={"disposition": "none"}),
    "an accepted label": update(adjudications).values(label="safe"),
    "a screening that is gone": delete(screenings),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_what_is_changed_after_it_was_sealed_is_found(db: Database, how: str) -> None:
    register(db, ANN)
    (case_id,) = fill(db)
    claim = claim_next(db, ANN.at(NOW))
    assert claim is not None
    submit_rating(db, ANN.at(NOW), case_id, claim.token, form("unsafe", 5), "a" * 32)
    assert seal(db, NOW) == 0, "too young"
    assert seal(db, NOW + timedelta(minutes=5)) == 3
    assert seal(db, NOW + timedelta(minutes=6)) == 0, "nothing is new"
    assert verify(db, [anchor(db)]).proven
    write(db, TAMPERED[how])
    found = verify(db, [anchor(db)])
    assert not found.ok and "after they were sealed" in str(found.problem)


@pytest.mark.parametrize("change", ["screenings SET completed_at = 'soon'", "audit_events SET at = 'soon'"])
def test_what_cannot_be_read_any_more_is_a_change_and_no_fault_of_the_program(sqlite_url: str, change: str) -> None:
    db = Database(sqlite_url)
    db.prepare()
    fill(db)
    seal(db, NOW + timedelta(minutes=5))
    with db.write() as conn:
        conn.execute(text(f"UPDATE {change}"))
    found = verify(db)
    assert not found.ok and "cannot be read" in str(found.problem)
    db.close()


def test_an_erased_note_breaks_no_seal(db: Database) -> None:
    register(db, ANN)
    (case_id,) = fill(db)
    claim = claim_next(db, ANN.at(NOW))
    assert claim is not None
    submit_rating(db, ANN.at(NOW), case_id, claim.token, form("unsafe", 5, note="words"), "a" * 32)
    seal(db, NOW + timedelta(minutes=5))
    with db.write() as conn:
        fields = conn.execute(select(ratings.c.fields)).scalar_one()
        conn.execute(update(ratings).values(fields={**fields, "note": ""}))
    assert verify(db, [anchor(db)]).proven


def test_a_row_slipped_in_before_the_seal_is_found(db: Database) -> None:
    fill(db)
    seal(db, NOW + timedelta(minutes=5))
    fill(db)  # of the same, earlier moment
    assert "slipped in" in str(verify(db).problem)
    assert seal(db, NOW + timedelta(minutes=10)) == 1
    assert "slipped in" in str(verify(db).problem), "nor does a seal over it help"


def _decided(db: Database, at: datetime) -> None:
    (case_id,) = fill(db)
    with db.write() as conn:
        conn.execute(update(screenings).where(screenings.c.case_id == case_id).values(completed_at=at))


def test_a_clock_that_ran_ahead_and_was_set_right_breaks_no_seal(db: Database) -> None:
    ahead, minute = timedelta(hours=1), timedelta(minutes=1)
    _decided(db, NOW)
    _decided(db, NOW + ahead)
    assert seal(db, NOW + ahead + 5 * minute) == 1
    _decided(db, NOW + ahead + 6 * minute)
    for passed in range(6, 90, 3):  # set right; one more each time, also of moments that were sealed as past
        seal(db, NOW + passed * minute)
        _decided(db, NOW + passed * minute)
        assert verify(db, [anchor(db)]).proven, passed
    with db.write() as conn:
        conn.execute(update(screenings).where(screenings.c.completed_at == NOW + ahead).values(outcome="safe"))
    assert "were changed" in str(verify(db).problem)


def test_what_is_slipped_in_after_a_clock_was_set_right_is_found(db: Database) -> None:
    _decided(db, NOW)
    seal(db, NOW + timedelta(hours=1))
    for minutes in (5, 10):
        _decided(db, NOW + timedelta(minutes=minutes - 3))
        seal(db, NOW + timedelta(minutes=minutes))
    assert verify(db, [anchor(db)]).proven
    _decided(db, NOW + timedelta(minutes=1))
    assert "slipped in" in str(verify(db).problem)


def test_many_rows_come_under_several_seals(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_seals, "AT_ONCE", 3)
    fill(db, (Tier.P2,) * 7)
    assert seal(db, NOW + timedelta(minutes=5)) == 3 and verify(db, [anchor(db)]).proven
    with db.write() as conn:
        seals = select(screenings.c.sealed).distinct().order_by(screenings.c.sealed)
        first, second, _ = conn.execute(seals).scalars()
        some = select(screenings.c.case_id).where(screenings.c.sealed == first).limit(1)
        conn.execute(update(screenings).where(screenings.c.case_id == some.scalar_subquery()).values(sealed=second))
    assert "instead of" in str(verify(db).problem), "a row that is moved from one seal to another"


@pytest.mark.parametrize("sealed", [999, audit_seals.BY_SPAN])
def test_a_row_under_a_seal_that_was_never_made_is_found(db: Database, sealed: int) -> None:
    fill(db)
    seal(db, NOW + timedelta(minutes=5))
    (case_id,) = fill(db)
    with db.write() as conn:
        conn.execute(update(screenings).where(screenings.c.case_id == case_id).values(sealed=sealed))
    assert "never made" in str(verify(db).problem)


def test_seals_over_a_span_of_time_as_earlier_versions_made_them_still_prove(db: Database) -> None:
    fill(db)
    until = NOW + timedelta(minutes=1)
    kind, zero = audit_seals._KINDS["screenings"], datetime(1970, 1, 1, tzinfo=UTC)
    with db.write() as conn:
        rows, digest = audit_seals._digest(conn, kind, (screenings.c.completed_at < until,), site_key())
        span = {"from": 0, "until": (until - zero) // timedelta(microseconds=1)}
        said = {**span, "rows": rows, "digest": digest}
        append(conn, SYSTEM.at(NOW + timedelta(minutes=3)), audit_seals.SEALED, "screenings", said)
        conn.execute(update(screenings).values(sealed=audit_seals.BY_SPAN))
    _decided(db, NOW + timedelta(minutes=2))
    assert seal(db, NOW + timedelta(minutes=9)) == 1 and verify(db, [anchor(db)]).proven
    with db.write() as conn:
        conn.execute(update(screenings).where(screenings.c.sealed == audit_seals.BY_SPAN).values(outcome="safe"))
    assert "were changed" in str(verify(db).problem)


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


def test_the_line_after_one_that_was_cut_off_is_whole(db: Database, tmp_path: Path) -> None:
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


def test_a_line_that_an_earlier_version_wrote_on_where_one_was_cut_off_is_read(db: Database, tmp_path: Path) -> None:
    kept = tmp_path / "anchors.jsonl"
    log(db, 1)
    assert anchor_if_due(db, Settings(audit_anchor_file=kept), NOW) is not None
    whole = kept.read_text()
    for cut in (3, 40, len(whole) - 2):
        kept.write_text(whole[:cut] + whole)
        assert verify(db, read_anchors(kept)).proven, cut
    for none in (whole[:40], "anchors: " + whole, whole[:40] + whole[:60]):
        kept.write_text(none)
        with pytest.raises(ValueError, match="not an anchor"):
            read_anchors(kept)


def test_an_anchor_that_cannot_be_written_is_a_fault_until_it_can(db: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = Settings(audit_anchor_file=tmp_path / "file" / "anchors.jsonl")
    log(db, 1)
    assert anchor_if_due(db, settings, NOW) is None
    assert [one.fault for one in open_faults(db)] == [Fault.ANCHOR]
    assert anchor_if_due(db, Settings(audit_anchor_file=tmp_path / "ok.jsonl"), NOW) is not None
    assert open_faults(db) == ()
