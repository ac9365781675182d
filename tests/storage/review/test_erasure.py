"""What is erased is gone from every table, what must stay stays; texts go after their time, but never one that somebody
still has to read or to see to. Backup and restore: what comes back, in either kind of database, is what was there; or
it is refused and nothing is kept.
"""

import errno
import os
import sqlite3
import stat
import tomllib
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import JSON, Text, func, insert, select, update

from commands.__main__ import main
from screening.datasets.reader import read_table
from screening.labels import Outcome
from screening.review.policy import LOCAL_USER, Role
from screening.review.review_form import ReviewLabel
from screening.review.triage import Placement, Priority, Reach, Why
from storage import audit_log, schema
from storage.audit_log import anchor, verify
from storage.batches.batches import NewBatch, cancel, create_batch, progress
from storage.batches.entries import enter
from storage.batches.intake import add_rows, close_intake
from storage.batches.pending import record_error
from storage.database import Database
from storage.review import claims, erasure, follow_ups, reviews
from storage.review.adjudication import adjudicate
from storage.review.claims import LeaseLost, NotAvailable
from storage.review.erasure import By, NotErased, Selection, erase
from storage.review.evidence import add_remark, add_tag, remove_tag
from storage.review.follow_ups import acknowledge, request_second_looks
from storage.review.inbox import Place, standing
from storage.schema import ERASED, audit_events, batches, cases, inbox_entries, metadata, rejected_rows
from storage.settings_store import SiteSettings, change
from storage.site.backup import NOT_COPIED, CopyRefused, back_up, restore
from tests.databases import copy_of, write
from tests.storage.batch_of import CONFIGURATION, LATER, batch, decide, record_start, results, waiting
from tests.storage.batch_of import NOW as BATCH_NOW
from tests.storage.inbox_cases import batch_of, fill, form, put, read, register, rows, vouch
from tests.storage.people import ADMIN, ANN, BO, NOW, RESEARCHER, SENIOR, person

WORD = "zanzibarquince"
OTHER_ADMIN = person("ole", Role.ADMIN)
DAY = timedelta(days=1)
GROUP, FIRST = Selection(by=By.GROUP, value=WORD), Selection(by=By.EXTERNAL_ID, value="post-1")


def written(db: Database, number: int = 2) -> list[str]:
    """Cases of one group with a word in every place where people or models write, the first read by Sue."""
    register(db, ANN, BO, SENIOR)
    ids = fill(db, [Priority.P2] * number)
    texts = {name: f"{WORD} {name}" for name in ("text", "model_text", "reply", "model_reply", "reference_value")}
    more = {"group_name": WORD, "turns": {"turns": [WORD]}, "where_to_act": f"https://site.org/{WORD}"}
    about = {"name": f"{WORD}.csv", "intake": {"sheet": WORD, "warnings": [WORD]}, "closed_at": NOW}
    with db.write() as conn:
        conn.execute(update(cases).values(**texts, **more, text_original_json=f'"{WORD}"'))
        conn.execute(update(batches).values(about))
        refused = {"row": 9, "external_id": "post-1", "reason": "empty", "detail": WORD, "original_json": f'"{WORD}"'}
        conn.execute(insert(rejected_rows).values(batch_id=conn.execute(select(batches.c.id)).scalar_one(), **refused))
    claim = claims.claim(db, SENIOR.at(NOW), ids[0])
    reviews.submit_review(db, SENIOR.at(NOW), ids[0], claim.token, form("unsafe", 5, note=WORD), "a" * 32)
    add_tag(db, RESEARCHER.at(NOW), ids[0], WORD)
    remove_tag(db, RESEARCHER.at(NOW), ids[0], WORD)
    for case_id in ids[1:]:
        reviews.save_draft(db, BO.at(NOW), case_id, {"note": WORD})
    return ids


def everything(db: Database) -> str:
    return "\n".join(str(row) for table in metadata.sorted_tables for row in db.rows(select(table)))


CODES = {  # beside a case, and neither words nor emptied
    "adjudications.review_ids", "comparison_outcomes.draws", "node_runs.distribution", "node_runs.draws",
    "screenings.kind",
}  # fmt: skip


def test_every_column_beside_a_case_that_can_hold_words_says_what_erasing_leaves_of_it() -> None:
    kinds = (Text, JSON, schema.StorableText)
    beside = [one for table in metadata.sorted_tables if "case_id" in table.c for one in table.columns]
    found = [one for one in beside if isinstance(one.type, kinds) or (getattr(one.type, "length", 0) or 0) > 64]
    assert {str(one) for one in found if "erase" not in {**one.info, **one.table.info}} == CODES


def test_a_group_is_erased_from_every_table_and_the_rest_stays(db: Database) -> None:
    """And it is stored in no words anew, and read by nobody again."""
    ids = written(db)
    read_, in_hand = ids
    taken = claims.claim(db, SENIOR.at(NOW), in_hand)
    assert everything(db).count(WORD) > 15
    vouch(db)
    done = erase(db, ADMIN.at(NOW), GROUP, "asked for by letter")
    assert (done.cases, done.waits_for) == (2, None)
    write(db, rejected_rows.delete())  # known by no group: their own test is below
    assert WORD not in everything(db)
    assert {row.text for row in rows(db, cases)} == {ERASED} and all(row.text_sha256 for row in rows(db, cases))
    (review,) = reviews.reveal_reviews(db, SENIOR.at(NOW), read_)
    assert (review.form.label, review.form.certainty) == ("unsafe", 5), "what was coded stays"
    assert all(db.values(select(inbox_entries.c.closed_at))), "nothing is left to read"
    logged = db.values(select(schema.audit_events.c.action).order_by(schema.audit_events.c.seq))
    assert logged[-2:] == ["erasure_requested", "erased"] and reviews.load_draft(db, BO, in_hand) is None
    assert verify(db, [anchor(db)]).proven, "the chain and the digests hold"
    by, filled = SENIOR.at(NOW), form("safe", 5, note=WORD)
    reviews.save_draft(db, BO.at(NOW), in_hand, {"note": WORD})
    for refusal, again in (
        (LeaseLost, partial(reviews.submit_review, db, by, in_hand, taken.token, filled, "b" * 32)),
        (NotAvailable, partial(reviews.revise, db, by, read_, filled, WORD, "c" * 32)),
        (NotAvailable, partial(adjudicate, db, by, read_, ReviewLabel.SAFE, WORD, 1)),
        (ValueError, partial(add_tag, db, RESEARCHER.at(NOW), read_, WORD)),
        (ValueError, partial(add_remark, db, RESEARCHER.at(NOW), read_, WORD)),
    ):
        with pytest.raises(refusal, match=None if refusal is LeaseLost else "was deleted"):
            again()
    assert request_second_looks(db, by, ids).erased == 2
    assert WORD not in everything(db) and claims.claim_next(db, BO.at(NOW)) is None
    assert {standing(db, by, case_id, taken.token).place for case_id in ids} == {Place.ERASED}


def test_by_external_id_all_that_a_conversation_became_goes_and_rows_that_were_refused(db: Database) -> None:
    ids = written(db)
    looked = erasure.look(db, ADMIN, FIRST)
    assert (looked.cases, looked.rejected) == (1, 1)
    erase(db, ADMIN.at(NOW), FIRST, "letter")
    (row,) = rows(db, rejected_rows)
    assert (row.reason, row.original_json, row.external_id, row.detail) == ("empty", None, ERASED, "")
    assert db.value(select(cases.c.text).where(cases.c.external_id == "post-2")) != ERASED
    for case_id, name in zip(ids, ("c_1 turn 3", "c_1 reply"), strict=True):
        write(db, update(cases).where(cases.c.id == case_id).values(external_id=name, erased_at=None, turns={}))

    def found(value: str) -> int:
        return erasure.look(db, ADMIN, Selection(by=By.EXTERNAL_ID, value=value)).cases

    assert [found(value) for value in ("c_1", "c", "cx1", "c_1 turn", "c_1 reply")] == [2, 0, 0, 0, 1]
    write(db, update(cases).values(turns=None))
    assert found("c_1") == 0, "ids of texts are only ids"


REFUSED_OF_THE_SAME_ID = b"id,text\n7,words of 7\n7,words of 7\n8,words of 8\n,words without an id\n"


def taken_in(db: Database, content: bytes = REFUSED_OF_THE_SAME_ID) -> dict[str, str]:
    """The cases of a file, decided, by their id in it."""
    batch_id = batch(db, closed=False)
    add_rows(db, batch_id, read_table(content, "posts.csv").rows(), NOW)
    close_intake(db, LOCAL_USER.at(NOW), batch_id)
    for case_id in waiting(db):
        decide(db, case_id)
    return {row.external_id: row.id for row in rows(db, cases) if row.batch_id == batch_id}


def refused_texts(db: Database) -> list[str]:
    return sorted(filter(None, db.values(select(rejected_rows.c.original_json))))


def test_with_a_case_the_refused_rows_of_its_id_in_the_same_file_go(db: Database) -> None:
    which = Selection(by=By.CASE, value=taken_in(db)["7"])
    taken_in(db)
    assert erasure.look(db, ADMIN, which).rejected == 1
    done = erase(db, ADMIN.at(NOW), which, "letter")
    assert (done.cases, done.rejected) == (1, 1)
    assert refused_texts(db) == ['"words of 7"', '"words without an id"', '"words without an id"']
    named = Selection(by=By.EXTERNAL_ID, value="7")
    assert erasure.look(db, ADMIN, named).rejected == 1, "each once, though by its id and beside its case"
    assert erase(db, ADMIN.at(NOW), named, "letter").rejected == 1
    taken_in(db)
    change(db, ADMIN.at(NOW), SiteSettings(keep_texts_days=30, keep_rejected_days=60), 0)
    later, expected = BATCH_NOW + timedelta(days=31), {"texts": 4, "rejected rows": 1}
    assert dict(erasure.would_go(db, ADMIN.at(later))) == dict(erasure.expire(db, later)) == expected
    assert refused_texts(db) == ['"words without an id"'] * 3


def test_two_people_where_the_site_asks_for_it_of_whom_one_may_turn_it_down(db: Database) -> None:
    """What is still being screened or unknown, or without a reason, is refused to both."""
    (case_id,) = written(db, 1)
    which, pending = Selection(by=By.CASE, value=case_id), {"case_id": case_id, "batch_id": batch_of(db, case_id)}
    for selection, reason, words in (
        (which, " ", "say why"),
        (Selection(by=By.CASE, value="none"), "r", "nothing of this name"),
        (which, "r", "still being screened"),
    ):
        if words == "still being screened":
            write(db, insert(schema.pending_cases).values(pending | {"row": 1, "ready_at": NOW}))
        with pytest.raises(NotErased, match=words):
            erase(db, ADMIN.at(NOW), selection, reason)
    write(db, schema.pending_cases.delete())
    change(db, ADMIN.at(NOW), SiteSettings(erasure_by_two=True), 0)
    turned_down, asked = (erase(db, ADMIN.at(NOW), which, "letter") for _ in range(2))
    erasure.withdraw(db, SENIOR.at(NOW), str(turned_down.waits_for))
    assert asked.waits_for is not None and WORD in everything(db)
    with pytest.raises(NotErased, match="somebody else"):
        erasure.confirm(db, ADMIN.at(NOW), asked.waits_for)
    assert [one.id for one in erasure.open_requests(db, OTHER_ADMIN)] == [asked.waits_for]
    assert erasure.confirm(db, OTHER_ADMIN.at(NOW), asked.waits_for).cases == 1
    with pytest.raises(NotErased, match="no such request"):
        erasure.confirm(db, SENIOR.at(NOW), asked.waits_for)
    assert erasure.open_requests(db, ADMIN) == []


def test_the_file_of_an_embedded_database_does_not_hold_it_any_more(sqlite_url: str) -> None:
    db = Database(sqlite_url)
    written(db)
    file = Path(sqlite_url.removeprefix("sqlite:///"))

    def holding() -> list[str]:
        return [one.name for one in file.parent.glob(file.name + "*") if WORD.encode() in one.read_bytes()]

    erase(db, ADMIN.at(NOW), FIRST, "letter")
    assert holding(), "the other case"
    erase(db, ADMIN.at(NOW), GROUP, "letter")
    db.close()
    assert holding() == []


def test_times_are_kept_and_a_dry_run_changes_nothing(db: Database) -> None:
    first, _second = written(db)
    assert erasure.expire(db, NOW + 400 * DAY) == {}, "without a time everything is kept"
    kept = SiteSettings(keep_texts_days=30, keep_drafts_days=7, keep_rejected_days=7)
    change(db, ADMIN.at(NOW), kept, 0)
    later = NOW + 31 * DAY
    expected = {"texts": 1, "drafts": 1, "rejected rows": 1}
    assert dict(erasure.would_go(db, ADMIN.at(later))) == expected, "the second case is still open: it is kept"
    assert WORD in everything(db) and erasure.expire(db, NOW + 5 * DAY) == {}
    assert [dict(erasure.expire(db, later)) for _ in range(2)] == [expected, {}]
    assert db.value(select(cases.c.text).where(cases.c.id == first)) == ERASED


def test_a_text_goes_its_time_after_it_waits_for_nobody_any_more(db: Database) -> None:
    """Not while it waits for a worker or a reviewer, for a follow-up to be closed, or on a worklist. Unsafe texts of a
    batch that only counts them wait for nobody.
    """
    register(db, ANN)
    change(db, LOCAL_USER.at(NOW), SiteSettings(keep_texts_days=7), 0)
    fill(db, [Priority.P2] * 2)
    for letter, disposition in (("a", "contact_now"), ("b", "protective_services")):
        read(db, ANN, form("unsafe", disposition=disposition), letter)
    batch(db, ["listed", "safe"], reach=Reach.LIST)
    batch(db, ["counted"], reach=Reach.COUNT)
    batch(db, ["waits"])
    given_up = batch(db, ["screened", "not screened", "to be read"])
    ids = {row.text: row.id for row in rows(db, cases)}
    for name, outcome in (("listed", "unsafe"), ("safe", "safe"), ("counted", "unsafe"), ("screened", "safe")):
        decide(db, ids[name], Outcome(outcome))
    with db.write() as conn:
        place = Placement(priority=Priority.P1, why=Why.NOT_SCREENED)
        assert enter(conn, ids["to be read"], place, NOW, settings=SiteSettings(), research_order=False)
    cancel(db, LOCAL_USER.at(NOW + DAY), given_up)

    def kept(days: float) -> set[str]:
        """What is still there by then; the dry run says before how many texts go."""
        now, texts = NOW + days * DAY, {ids[name]: name for name in ids}
        told = erasure.would_go(db, LOCAL_USER.at(now)).get("texts", 0)
        assert erasure.expire(db, now).get("texts", 0) == told
        return {texts[row.id] for row in rows(db, cases) if row.erased_at is None}

    gone = {"safe", "counted", "screened"}
    assert kept(7.99999) == set(ids) - gone
    gone.add("not screened")
    assert kept(30) == set(ids) - gone
    for one in follow_ups.open_ones(db, ANN.at(NOW)):
        follow_ups.close(db, ANN.at(NOW + 30 * DAY), one.id, follow_ups.How.DONE, "called")
    assert acknowledge(db, LOCAL_USER.at(NOW + 30 * DAY), [ids["listed"]]) == 1
    put(db, ids["to be read"], closed_at=NOW + 30 * DAY)
    assert kept(36) == set(ids) - gone
    assert kept(38) == kept(400) == {"waits"}


TEXTS = ("A walk in the rain.", 'Zwölf "Boxkämpfer", \u2028 jagen\n\n=1+1', "nul \x00 and \ud83d alone", "four")


@pytest.fixture
def of_other_kind(db: Database, request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database of the kind that ``db`` is not."""
    kind = "postgresql" if db.kind == "sqlite" else "sqlite"
    with closing(Database(request.getfixturevalue(f"{kind}_url"))) as made:
        yield made


@pytest.fixture
def again(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    """An empty embedded database beside ``db``."""
    with closing(Database(copy_of(sqlite_template, tmp_path / "again.db"))) as made:
        yield made


def _used(db: Database) -> str:
    """A database with a bit of everything in it."""
    batch_id = batch(db, TEXTS, audit_rate=1.0, references="SU--")
    first, second, third, _ = waiting(db)
    decide(db, first)
    decide(db, second, Outcome.HUMAN_REVIEW)
    record_start(db, third)
    record_error(db, third, "timeout", "no answer", LATER)
    new = NewBatch(name="b", intake={"mapping": {"text": ["ä", None, 1.5]}})
    create_batch(db, LOCAL_USER.at(NOW), new, CONFIGURATION.version, seed=2**62)  # of 64 bits
    return batch_id


def _content(db: Database) -> dict[str, list[tuple[object, ...]]]:
    return {
        table.name: [tuple(row) for row in db.rows(select(table).order_by(*table.primary_key.columns))]
        for table in metadata.sorted_tables
        if table.name not in NOT_COPIED
    }


@pytest.mark.postgresql
def test_what_is_restored_is_what_was_backed_up_and_goes_on_from_there(
    db: Database, of_other_kind: Database, tmp_path: Path
) -> None:
    batch_id, file, again = _used(db), tmp_path / "kept" / "one.db", of_other_kind
    made = rows, end = back_up(db, file, NOW)
    before, content = _content(db), file.read_bytes()

    assert restore(again, file, LATER) == made

    after = _content(again)
    added = after["audit_events"].pop()
    assert after == before and added[3] == "restored" and file.read_bytes() == content
    assert rows["cases"] == 4 and rows["node_runs"] == 2
    assert audit_log.verify(again, [end]).ok
    assert list(results(again, LOCAL_USER.at(NOW), batch_id)) == list(results(db, LOCAL_USER.at(NOW), batch_id))
    assert progress(again, batch_id) == progress(db, batch_id)
    record_error(again, waiting(again)[0], "timeout", "a sequence not set would give a number that is taken", LATER)
    batch(again, ["five"])
    for case_id in waiting(again):
        decide(again, case_id, Outcome.UNSAFE)
    assert audit_log.verify(again, [end]).ok


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "none"])
def test_only_its_owner_may_read_a_backup_and_no_file_is_replaced(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    file = tmp_path / "kept" / "one.db"
    back_up(db, file, NOW)
    content = file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        back_up(db, file, NOW)
    assert file.read_bytes() == content and list(file.parent.iterdir()) == [file]


REFUSED = tomllib.loads((Path(__file__).parent / "backup.toml").read_text(encoding="utf-8"))["refused"]


@pytest.mark.parametrize("change", REFUSED)
def test_what_does_not_add_up_is_refused_and_nothing_is_kept(
    db: Database, again: Database, tmp_path: Path, change: str
) -> None:
    _used(db)
    file = tmp_path / "one.db"
    if change == "before":
        write(db, audit_events.update().where(audit_events.c.seq == 1).values(actor="somebody else"))
    back_up(db, file, NOW)
    whole = file.read_bytes()
    if (content := {"half": whole[: len(whole) // 2], "words": b"hello", "empty": b""}.get(change)) is not None:
        file.write_bytes(content)
    elif change != "before":
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(change)
            connection.commit()
    with pytest.raises(CopyRefused, match=REFUSED[change]):
        restore(again, file, LATER)
    assert not any(_content(again).values())


@pytest.mark.postgresql
def test_the_command_line_moves_a_site_to_a_server_and_fills_no_database_twice(
    sqlite_url: str, postgresql_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    target = ("--database", postgresql_url)
    with closing(Database(sqlite_url)) as db:
        _used(db)
    monkeypatch.setenv("SECOND_LOOK_DATA_DIRECTORY", str(tmp_path / "var"))
    assert main(["backup", "--database", sqlite_url]) == 0
    (file,) = (tmp_path / "var").glob("backup-*.db")
    assert main(["restore", "--from", str(file), *target]) == 0
    told = capsys.readouterr().out
    assert str(file) in told and "restored and checked" in told and "4 cases" in told
    for source, why in ((file, "not empty"), (tmp_path / "none.db", "none.db")):
        assert main(["restore", "--from", str(source), *target]) == 2 and why in capsys.readouterr().err
    other, nowhere = tmp_path / "other", f"sqlite:///{tmp_path}/none.db"
    assert main(["backup", "--database", nowhere, "--to", str(other / "a.db")]) == 2 and not other.exists()
    assert "no such database" in capsys.readouterr().err
    with closing(Database(postgresql_url)) as moved:
        assert moved.value(select(func.count()).select_from(cases)) == 4 and audit_log.verify(moved).ok
