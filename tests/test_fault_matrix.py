"""One table of what people and processes do, one of what befalls a database, and on both databases: all or nothing.

Whatever happens in the middle of an operation, nothing of it is stored or all of it, the error tells whether it passes
by itself, and done again once the fault is over it leaves exactly what it leaves where nothing happens.
"""

import asyncio
import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import Engine, Table, event, func, select
from sqlalchemy.exc import DBAPIError

from jobs.process import system_clock
from jobs.screening_job import ScreeningJob
from screening.datasets.rows import NewCase
from screening.labels import Outcome
from screening.review.policy import LOCAL_USER
from screening.review.review_form import ReviewLabel
from screening.review.triage import Reach
from screening.text.received import receive
from storage import database as database_module
from storage.audit_log import verify
from storage.batches import batches, intake
from storage.database import Database, Fault, passing_fault
from storage.research.corrected_labels import export_corrected_labels
from storage.review import adjudication, claims, follow_ups, inbox, reviews
from storage.review.erasure import By, Selection, erase
from storage.schema import cases, metadata
from storage.schema import reviews as reviews_table
from storage.settings_store import SiteSettings, change, current
from storage.site import accounts, outbox
from storage.site.outbox import Event, add_recipient
from storage.site.outbox import Kind as Channel
from tests.databases import copy_of, postgresql_database
from tests.jobs.running import agents
from tests.jobs.running import batch as batch_of_simulated_agents
from tests.storage.batch_of import NOW, batch, decide, waiting
from tests.storage.inbox_cases import form, register, vouch
from tests.storage.people import ADMIN, ANN, BO, RESEARCHER, SENIOR

LATER, TARGET = NOW + timedelta(minutes=1), "mailtos://name:password@smtp.example.org?to=w@example.org"
SUMS = {"batch_counts": (("batch_id", "kind"), ("cases", "calls", "lost_calls", "unpriced_calls"))}
"""Tables whose rows are parts of a sum: it does not matter how many there are."""
WRITES = ("INSERT", "UPDATE", "DELETE")
Ids = Mapping[str, str]
"""What a prepared site has, by what it is there for."""
Facts = dict[str, Counter[Any]]


def prepare(db: Database) -> dict[str, str]:
    """A site in the middle of a day: something for each operation to be done to."""
    register(db, ANN, BO, SENIOR, ADMIN, RESEARCHER)
    vouch(db)
    change(db, ADMIN.at(NOW), SiteSettings(second_review_rate=0.0), 0)
    told = frozenset({Event.ARRIVED_P0, Event.ARRIVED_P1})
    add_recipient(db, ADMIN.at(NOW), name="W", kind=Channel.SERVICE, target=TARGET, shown="a", events=told)
    texts = ["I want to die.", "A quiet day.", "A loud day.", "A long day.", "A short day.", "A cold day."]
    ids = {"batch": batch(db, texts, reach=Reach.READ), "open": batch(db, closed=False)}
    found = dict(db.rows(select(cases.c.row, cases.c.id)))  # type: ignore[arg-type]
    ids |= {name: found[row] for row, name in enumerate(("urgent", "claimed", "closed", "disputed", "safe"), 1)}
    for name in ("urgent", "claimed", "closed", "disputed"):
        decide(db, ids[name], Outcome.HUMAN_REVIEW)
    decide(db, ids["safe"])
    for name in ("claimed", "closed", "disputed"):
        ids[f"{name}: token"] = claims.claim(db, SENIOR.at(NOW), ids[name]).token
    inbox.ask_second_opinion(db, SENIOR.at(NOW), ids["disputed"], ids["disputed: token"])
    for name in ("closed", "disputed"):
        reviews.submit_review(db, SENIOR.at(NOW), ids[name], ids[f"{name}: token"], form("safe"), name.ljust(32, "x"))
    ids["review"] = db.value(select(reviews_table.c.id).where(reviews_table.c.case_id == ids["closed"]))
    (ids["pending"],) = (one for one in waiting(db) if one in found.values())
    batch_of_simulated_agents(db, 1)
    (ids["to screen"],) = (one for one in waiting(db) if one not in found.values())
    return ids


def screen(db: Database, ids: Ids) -> None:
    job = ScreeningJob(db=db, agents=agents(), clock=system_clock, worker="w")
    asyncio.run(job.screen_case(ids["to screen"]))


def take_in(db: Database, ids: Ids) -> None:
    rows = [NewCase(row=row, external_id=f"n{row}", text=receive(f"Day {row}.")) for row in range(1, 9)]
    intake.add_rows(db, ids["open"], rows, NOW, chunk=3)
    intake.close_intake(db, LOCAL_USER.at(NOW), ids["open"])


def set_lease(db: Database, _ids: Ids) -> None:
    change(db, ADMIN.at(NOW), current(db).settings.model_copy(update={"lease_minutes": 7}), 1)


OPERATIONS: dict[str, Callable[[Database, Ids], Any]] = {
    "screen": screen,
    "take in": take_in,
    "cancel": lambda db, ids: batches.cancel(db, LOCAL_USER.at(NOW), ids["batch"]),
    "claim": lambda db, ids: claims.claim(db, SENIOR.at(NOW), ids["urgent"]),
    "submit": lambda db, ids: reviews.submit_review(
        db, SENIOR.at(NOW), ids["claimed"], ids["claimed: token"], form("unsafe"), "s" * 32
    ),
    "revise": lambda db, ids: reviews.revise(db, SENIOR.at(NOW), ids["closed"], form("unsafe"), "read anew", "r" * 32),
    "undo": lambda db, ids: reviews.take_back(db, SENIOR.at(NOW), ids["closed"], ids["review"]),
    "adjudicate": lambda db, ids: adjudication.adjudicate(
        db, SENIOR.at(LATER), ids["disputed"], ReviewLabel.UNSAFE, "two words"
    ),
    "amend": lambda db, ids: adjudication.adjudicate(
        db, SENIOR.at(LATER), ids["closed"], ReviewLabel.UNSAFE, "looked again", 1
    ),
    "send to review": lambda db, ids: follow_ups.request_second_looks(db, SENIOR.at(NOW), [ids["safe"]]),
    "erase": lambda db, ids: erase(db, SENIOR.at(LATER), Selection(by=By.CASE, value=ids["closed"]), "a letter"),
    "tell": lambda db, _: outbox.collect(db, LATER),
    "settings": set_lease,
    "switch off": lambda db, ids: accounts.set_active(db, ADMIN.at(LATER), SENIOR.id, False),
    "export": lambda db, ids: list(export_corrected_labels(db, RESEARCHER.at(NOW), ids["batch"], "k")),
}


@dataclass(frozen=True)
class Place:
    """A database of this kind in the prepared state, as many copies as wanted, and what every operation leaves."""

    kind: str
    ids: Ids
    copy: Callable[[], Any]
    volatile: frozenset[tuple[str, str]]
    before: Facts
    after: Mapping[str, Facts]


def facts(db: Database, volatile: frozenset[tuple[str, str]] = frozenset()) -> Facts:
    """Every row of every table, without the columns that differ from run to run; of what is counted the sums."""
    return {table.name: _rows(db, table, volatile) for table in metadata.sorted_tables}


def _rows(db: Database, table: Table, volatile: frozenset[tuple[str, str]]) -> Counter[str]:
    if table.name in SUMS:
        by, numbers = ([table.c[name] for name in names] for names in SUMS[table.name])
        sums = db.rows(select(*by, *map(func.sum, numbers)).group_by(*by))
        return Counter(repr((*row[: len(by)], *map(int, row[len(by) :]))) for row in sums if any(row[len(by) :]))
    kept = [column for column in table.columns if (table.name, column.name) not in volatile]
    return Counter(repr(tuple(row)) for row in db.rows(select(*kept))) if kept else Counter()


def _differing(one: Database, other: Database) -> set[tuple[str, str]]:
    """Columns that are not the same after the same operation (ids, the clock's time, hashes), and the numbers that a
    sequence gives, which skips those of what was rolled back.
    """
    numbered = [(table.name, table.autoincrement_column) for table in metadata.sorted_tables]
    found = {(name, column.name) for name, column in numbered if column is not None}
    for table in metadata.sorted_tables:
        here, there = (list(zip(*db.rows(select(table)), strict=True)) for db in (one, other))
        for column, mine, theirs in zip(table.columns, here, there, strict=False):
            if Counter(map(repr, mine)) != Counter(map(repr, theirs)):
                found.add((table.name, column.name))
    return found


def _place(kind: str, copy: Callable[[], Any], ids: Ids) -> Place:
    with copy() as untouched, closing(Database(untouched)) as db:
        tables = frozenset[tuple[str, str]]()
        for operation in OPERATIONS.values():
            with copy() as here, copy() as there, closing(Database(here)) as one, closing(Database(there)) as other:
                operation(one, ids)
                operation(other, ids)
                tables |= _differing(one, other)
        before, after = facts(db, tables), dict[str, Facts]()
    for name, operation in OPERATIONS.items():
        with copy() as url, closing(Database(url)) as db:
            operation(db, ids)
            after[name] = facts(db, tables)
            assert after[name] != before, f"{name} does nothing"
    return Place(kind, ids, copy, tables, before, after)


@pytest.fixture(scope="module")
def sqlite_place(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder, numbers = tmp_path_factory.mktemp("sites"), iter(range(1_000_000))
    prepared = folder / "prepared.db"
    with closing(Database(copy_of(sqlite_template, prepared))) as db:
        ids = prepare(db)

    @contextmanager
    def copy() -> Iterator[str]:
        path = folder / f"{next(numbers)}.db"
        yield copy_of(prepared, path)
        path.unlink()

    return _place("sqlite", copy, ids)


@pytest.fixture(scope="module")
def postgresql_place(postgresql_server: str) -> Iterator[Place]:
    with postgresql_database(postgresql_server) as url:
        with closing(Database(url)) as db:
            ids = prepare(db)
        template = url.partition("?")[0].rpartition("/")[2]
        yield _place("postgresql", lambda: postgresql_database(postgresql_server, template), ids)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def place(request: pytest.FixtureRequest) -> Place:
    made: Place = request.getfixturevalue(f"{request.param}_place")
    return made


@contextmanager
def busy(url: str) -> Iterator[None]:
    """Somebody else writes for as long as it lasts."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            yield
            holder.execute("ROLLBACK")
        return
    with psycopg.connect(url) as holder:
        holder.execute("SET lock_timeout = 0")
        holder.execute(f"LOCK TABLE {', '.join(metadata.tables)} IN EXCLUSIVE MODE")  # type: ignore[arg-type]
        yield
        holder.rollback()


@contextmanager
def refused(url: str, sqlite_error: str, state: str) -> Iterator[None]:
    """Each write is refused as the database itself refuses it: the error of a real SQLite, or of a real server."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as admin:
            raises = f"BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END"
            admin.execute(f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $${raises}$$")  # type: ignore[arg-type]
            for name in metadata.tables:
                when = "BEFORE INSERT OR UPDATE OR DELETE"
                admin.execute(f"CREATE TRIGGER refuse {when} ON {name} EXECUTE FUNCTION refuse()")  # type: ignore[arg-type]
            yield
            admin.execute("DROP FUNCTION refuse CASCADE")
        return

    def fail(conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.split()[0] in WRITES and conn.engine.dialect.name == "sqlite":
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as tiny:
                tiny.execute("CREATE TABLE one (text)")
                tiny.execute(sqlite_error)
                try:
                    tiny.execute("INSERT INTO one VALUES (zeroblob(100000))")
                except sqlite3.Error as error:
                    raise DBAPIError.instance(statement, {}, error, sqlite3.Error) from error

    event.listen(Engine, "before_cursor_execute", fail)
    yield
    event.remove(Engine, "before_cursor_execute", fail)


@contextmanager
def damaged(url: str) -> Iterator[None]:
    """The file's pages are overwritten, and put back at the end as a restore does."""
    path = Path(url.removeprefix("sqlite:///"))
    whole = path.read_bytes()
    with path.open("r+b") as file:  # in place: empty for a moment, it would have no tables
        file.seek(8_192)
        file.write(b"x" * (len(whole) - 8_192))
    yield
    for each in path.parent.glob(f"{path.name}-*"):
        each.unlink()
    with path.open("r+b") as file:
        file.write(whole)
        file.truncate()


FAULTS: dict[str, tuple[Callable[[str], Any], dict[str, Fault | None]]] = {
    "busy": (busy, {"sqlite": Fault.BUSY, "postgresql": Fault.STATEMENT}),
    "full": (
        lambda url: refused(url, "PRAGMA max_page_count = 2", "53100"),
        {"sqlite": Fault.BUSY, "postgresql": Fault.BUSY},
    ),
    "read-only": (
        lambda url: refused(url, "PRAGMA query_only = ON", "25006"),
        {"sqlite": Fault.READ_ONLY, "postgresql": None},
    ),
    "damaged": (damaged, {"sqlite": Fault.DAMAGED}),
}
AT_ITS_OWN_PACE = "screen"
"""What tries again by itself until the fault is over."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT_S", 0.1)


def hurry(url: str) -> None:
    """A server lets nobody wait for a lock for long."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as admin:
            name = url.partition("?")[0].rpartition("/")[2]
            admin.execute(SQL("ALTER DATABASE {} SET lock_timeout = '100ms'").format(Identifier(name)))


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {AT_ITS_OWN_PACE}))
def test_while_the_database_is_at_fault_nothing_is_stored_and_then_all_of_it(place: Place, name: str) -> None:
    with place.copy() as url:
        hurry(url)
        for fault, (befall, told) in FAULTS.items():
            if place.kind in told:
                raised: list[BaseException] = []
                with closing(Database(url)) as db, befall(url):
                    _attempt(db, place.ids, name, raised)
                assert raised and passing_fault(raised[0]) is told[place.kind], (fault, raised)
                with closing(Database(url)) as db:
                    assert facts(db, place.volatile) == place.before, f"{fault}: a part of it is stored"
        with closing(Database(url)) as db:
            OPERATIONS[name](db, place.ids)
            _is_whole(db, place, name)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_tries_again_by_itself_is_done_once_the_fault_is_over(place: Place, fault: str) -> None:
    befall, told = FAULTS[fault]
    if told.get(place.kind) is None:
        pytest.skip("there is no such fault there, or it does not pass")
    with place.copy() as url, closing(Database(url)) as db:
        hurry(url)
        raised: list[BaseException] = []
        with befall(url):
            doing = threading.Thread(target=_attempt, args=(db, place.ids, AT_ITS_OWN_PACE, raised))
            doing.start()
            doing.join(0.6)
        doing.join(30)
        assert not doing.is_alive() and not raised
        _is_whole(db, place, AT_ITS_OWN_PACE)


def _attempt(db: Database, ids: Ids, name: str, raised: list[BaseException]) -> None:
    try:
        OPERATIONS[name](db, ids)
    except Exception as error:
        raised.append(error)


def _is_whole(db: Database, place: Place, name: str) -> None:
    found, expected = facts(db, place.volatile), place.after[name]
    differing = {table for table in found if found[table] != expected[table]}
    allowed = AT_EACH_START.get(name, set())
    assert differing <= allowed, [(found[table], expected[table]) for table in differing - allowed]
    assert verify(db).ok, "the audit log is whole"


AT_EACH_START = {"screen": {"case_errors"}, "export": {"audit_events"}}
"""Tables that say how often something was begun; an export is in the audit log before its first row is read."""


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("how", ["cut", "killed"])
def test_ended_before_any_write_it_is_done_again_as_if_nothing_was(place: Place, name: str, how: str) -> None:
    """The connection cut, or the process killed, before the first write or commit, before the second, to the last."""
    if (place.kind, how) in {("sqlite", "cut"), ("postgresql", "killed")}:
        pytest.skip("a file has no line to cut; to a server a killed process is a line that is cut")
    number, ended, stop = 0, True, _killed_at if how == "killed" else _cut_at
    while ended:
        number += 1
        with place.copy() as url:
            ended = stop(url, place.ids, name, number)
            with closing(Database(url)) as db:
                if number == 1 and name != AT_ITS_OWN_PACE:
                    assert facts(db, place.volatile) == place.before, "nothing was written yet"
                if ended:
                    with suppress(ValueError, LookupError):  # what is done already may be refused in words
                        OPERATIONS[name](db, place.ids)
                _is_whole(db, place, name)
    assert number > 2, "it writes and commits"


@contextmanager
def _at_write(number: int, do: Callable[[Any], None]) -> Iterator[None]:
    """Do it before this write or commit, counted from 1; what is read changes nothing and is not counted."""
    seen = iter(range(1, 1_000_000))

    def write(conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.split()[0] in WRITES and next(seen) == number:
            do(conn)

    def commit(conn: Any) -> None:
        if next(seen) == number:
            do(conn)

    event.listen(Engine, "before_cursor_execute", write)
    event.listen(Engine, "commit", commit)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", write)
        event.remove(Engine, "commit", commit)


def _killed_at(url: str, ids: Ids, name: str, number: int) -> bool:
    """Whether the process was killed before it was done."""
    child = os.fork()
    if child == 0:
        try:
            with _at_write(number, lambda _: os.kill(os.getpid(), signal.SIGKILL)):
                OPERATIONS[name](Database(url), ids)
            os._exit(0)
        finally:
            os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def _cut_at(url: str, ids: Ids, name: str, number: int) -> bool:
    """Whether the line was cut before it was done; what tries again by itself is done all the same."""
    cuts: list[Any] = []

    def cut(conn: Any) -> None:
        cuts.append(conn)
        conn.connection.driver_connection.close()

    raised: list[BaseException] = []
    with closing(Database(url)) as db, _at_write(number, cut):
        _attempt(db, ids, name, raised)
    assert all(passing_fault(one) in (Fault.LOST, Fault.AWAY) for one in raised), raised
    return bool(cuts)
