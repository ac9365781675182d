"""Storing rows of a file in a batch: in chunks, each its own transaction, so that a million rows need the memory of a
thousand. And their texts, as agents are shown them, exactly as received, and in pages of bounded size.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select

from screening.datasets.rows import NewCase, RejectedRow
from screening.pipeline.draws import ScreenedText, screened_thread
from screening.review.policy import SYSTEM, Acting, Action, Actor, require
from screening.review.triage import Reach
from screening.text.conversation import thread_of
from screening.text.display import MASKING_VERSION, mask
from screening.text.flags import STATED, Flag
from screening.text.received import ReceivedText, unescape
from storage import audit_log
from storage.batches import counts
from storage.batches.batch_state import TAKES_ROWS, batch_row, change, standing, standings
from storage.batches.counts import PENDING, Kind
from storage.batches.entries import enter_unscreened
from storage.database import Database, Source, reading, record
from storage.schema import batches, cases, live_runs, pending_cases, rejected_rows
from storage.schema.columns import new_id, shared_now

NOT_YET = "not_yet"
"""The cause of an entry whose case is still to be screened: none has failed."""
CHUNK = 250
"""Rows a transaction. So many are read before the first is screened; reading takes far longer than storing them."""


class IntakeClosed(Exception):
    """This batch takes no more rows: its intake was closed, or it was cancelled."""


def add_rows(
    db: Database, batch_id: str, rows: Iterable[NewCase | RejectedRow], now: datetime, chunk: int = CHUNK
) -> None:
    """Add rows in ascending order. After a crash call it again with all rows, or those after `last_row`: what is stored
    is skipped, also when another process adds the same rows at the same time. Raises UnknownBatch, IntakeClosed, and
    ValueError for rows out of order.
    """
    remaining = _require_ascending(rows)
    while part := list(islice(remaining, chunk)):
        with db.write() as conn:
            batch = _lock_open(conn, batch_id)
            stored = last_row(conn, batch_id)
            _insert(conn, batch, [row for row in part if row.row > stored], now)


def add_case(conn: Connection, batch_id: str, case: NewCase, now: datetime) -> str:
    """Add one case after the last row, in the caller's transaction; its id. Raises UnknownBatch, IntakeClosed."""
    batch = _lock_open(conn, batch_id)
    (case_id,) = _insert(conn, batch, [replace(case, row=last_row(conn, batch_id) + 1)], now)
    return case_id


def last_row(db: Source, batch_id: str) -> int:
    """The last row of its file that a batch has taken in, accepted or rejected; 0 for none."""
    with reading(db) as conn:
        return max(
            conn.execute(select(func.max(table.c.row)).where(table.c.batch_id == batch_id)).scalar() or 0
            for table in (cases, rejected_rows)
        )


def close_intake(db: Database, by: Acting, batch_id: str) -> None:
    """Record that all rows are in. Calling it again changes nothing. Raises Forbidden."""
    with db.write() as conn:
        batch = batch_row(conn, batch_id, lock=True)
        if by.actor != SYSTEM and by.id != batch.created_by:
            require(by.actor, Action.CONTROL_BATCH, batch.created_by)
        if batch.closed_at is not None:
            return
        sums = standing(conn, batch_id).totals
        counted = {"accepted": sums.accepted, "rejected": sums.rejected}
        change(conn, by, batch_id, "intake_closed", counted, closed_at=by.now, rows_missing=None)


def stop_intake(db: Database, by: Acting, batch_id: str, why: str) -> None:
    """Record why, in a short code, nobody takes in the rows that are missing. Nothing where it takes no more rows."""
    with db.write() as conn:
        if _takes_more(batch_row(conn, batch_id, lock=True)):
            stopped = {"rows_missing": why, "rows_missing_since": by.now}
            change(conn, by, batch_id, "intake_stopped", {"why": why}, of_file=True, **stopped)


def resume_intake(db: Database, by: Acting, batch_id: str) -> None:
    """Record that its rows are taken in again, where that had stopped."""
    with db.write() as conn:
        if batch_row(conn, batch_id, lock=True).rows_missing is not None:
            change(conn, by, batch_id, "intake_resumed", of_file=True, rows_missing=None)


def takes_rows(db: Database, batch_id: str) -> bool:
    """Whether rows may still come in: there is such a batch, and it was neither closed nor cancelled."""
    return bool(db.values(select(batches.c.id).where(batches.c.id == batch_id, TAKES_ROWS)))


def _takes_more(batch: Row[Any]) -> bool:
    return batch.closed_at is None and batch.cancelled_at is None


def count_not_screened(db: Database, batch_id: str) -> int:
    """Rows that could not be read as they should and state a risk: no agent is asked, a person sees each."""
    return db.value(select(func.count()).where(cases.c.batch_id == batch_id, cases.c.not_screened.is_not(None)))


def unread_columns(db: Database, batch_id: str) -> list[str]:
    """The columns of its file that nothing is read of."""
    with db.read() as conn:
        return list(batch_row(conn, batch_id).intake.get("unread_columns", []))


def read_rejected(db: Database, actor: Actor, batch_id: str) -> Iterator[RejectedRow]:
    """The rejected rows in file order, read a page at a time. Raises Forbidden."""
    require(actor, Action.VIEW_RESULTS)
    table, last = rejected_rows.c, 0
    while True:
        query = select(rejected_rows).where(table.batch_id == batch_id, table.row > last).order_by(table.row)
        with db.read() as conn:
            page = text_page(conn, query)
        for found in page:
            yield record(RejectedRow, found)
        if not page:
            return
        last = page[-1].row


def _lock_open(conn: Connection, batch_id: str) -> Row[Any]:
    batch = batch_row(conn, batch_id, lock=True)
    if not _takes_more(batch):
        raise IntakeClosed(batch_id)
    return batch


def _require_ascending(rows: Iterable[NewCase | RejectedRow]) -> Iterator[NewCase | RejectedRow]:
    previous = 0
    for row in rows:
        if row.row <= previous:
            raise ValueError(f"row {row.row} comes after row {previous}: rows count up from 1")
        previous = row.row
        yield row


def _insert(conn: Connection, batch: Row[Any], part: Sequence[NewCase | RejectedRow], now: datetime) -> list[str]:
    """Insert these rows with all that follows from them; the ids of the cases."""
    accepted = [_case_row(batch, row, now) for row in part if isinstance(row, NewCase)]
    rejected = (asdict(row) | {"reason": str(row.reason)} for row in part if isinstance(row, RejectedRow))
    refused = [{"batch_id": batch.id} | row for row in rejected]
    ids = [row["id"] for row in accepted]
    if accepted:
        conn.execute(insert(cases), accepted)
        waiting = [{"case_id": row["id"], "batch_id": batch.id, "row": row["row"], "ready_at": now} for row in accepted]
        conn.execute(insert(pending_cases), waiting)
    if accepted and batch.kind == "interactive":
        live: dict[str, Any] = {"node": None, "draws": {}, "updated_at": now, "viewer_seen_at": shared_now(conn, now)}
        conn.execute(insert(live_runs), [{"case_id": case_id, **live} for case_id in ids])
    if refused:
        conn.execute(insert(rejected_rows), refused)
    more = Counter(Kind(outcome=PENDING, reference=row["reference"]) for row in accepted)
    counts.add(conn, batch.id, 0, more + Counter({counts.NO_CASE: len(refused)}))
    if accepted:
        audit_log.append(conn, SYSTEM.at(now), "rows_stored", batch.id, {"cases": len(ids)}, rows={cases: ids})
        enter_unscreened(conn, batch.id, _state_a_risk(batch, accepted), NOT_YET, now)
    return ids


def _state_a_risk(batch: Row[Any], accepted: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The cases that a person will read whatever the agents answer, with their flags: safe is refused for a text that
    states a risk. They are in the queue before an agent is asked, which may take hours in a large file; not those of a
    set that is reviewed in random order.
    """
    flags = {row["id"]: row["flags"]["text"] + row["flags"]["reply"] for row in accepted}
    needed = STATED if batch.reach == Reach.READ else {Flag.STATED_IMMINENT}
    return {} if batch.research_order else {case_id: found for case_id, found in flags.items() if needed & {*found}}


def _case_row(batch: Row[Any], case: NewCase, now: datetime) -> dict[str, Any]:
    received = {"text": case.text, "reply": case.reply}
    return {
        "id": new_id(now, sequence=case.row),
        "batch_id": batch.id,
        "row": case.row,
        "external_id": case.external_id,
        "flags": {name: sorted(part.flags) if part else [] for name, part in received.items()},
        **_text_columns("text", case.text),
        **_text_columns("reply", case.reply),
        "reference": None if case.reference is None else case.reference.value,
        "reference_value": case.reference_value,
        "group_name": case.group,
        "turns": None if case.thread is None else case.thread.as_json(),
        "where_to_act": case.where,
        "not_screened": case.not_screened,
        "audit_probability": batch.audit_rate,
        "created_at": now,
    }


def _text_columns(name: str, received: ReceivedText | None) -> dict[str, str | None]:
    if received is None:
        return dict.fromkeys((name, f"{name}_original_json", f"{name}_sha256", f"model_{name}"))
    return {
        name: received.stored,
        f"{name}_original_json": received.original_json,
        f"{name}_sha256": received.sha256,
        f"model_{name}": None if received.model_text == received.stored else received.model_text,
    }


TEXT_BY_TEXT = "API"
"""The format of a batch that is no file: a program hands its texts in one by one, a batch a day."""
_DAY_OVER = timedelta(days=2)
"""After this nothing comes into the batch of a day, wherever on the earth the day began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """How many rows of a file have come in, and the code of why no more are taken in; None while they are. Those of
    programs are ``in_line``: their service takes in one after another.
    """

    rows: int
    missing: str | None
    in_line: bool = False


def open_files(db: Database) -> dict[str, OpenFile]:
    """The batches of files that are not in to their end, in the order in which they were begun."""
    with db.read() as conn:
        files = [one for one in _open_batches(conn) if one.intake.get("format") != TEXT_BY_TEXT]
        found = standings(conn, [one.id for one in files])
    return {
        one.id: OpenFile(
            rows=found[one.id].totals.accepted + found[one.id].totals.rejected,
            missing=found[one.id].rows_missing,
            in_line="program" in one.intake,
        )
        for one in files
    }


def close_past_days(db: Database, now: datetime) -> None:
    """Close what a program handed in on a day that is over: one that hands in nothing more closes none itself."""
    with db.read() as conn:
        past = [one for one in _open_batches(conn) if now - one.created_at > _DAY_OVER]
    for one in past:
        if one.intake.get("format") == TEXT_BY_TEXT:
            close_intake(db, SYSTEM.at(now), one.id)


def _open_batches(conn: Connection) -> Sequence[Row[Any, Any, Any]]:
    """Those that take rows, with what was announced of them, in the order in which they were begun."""
    batch = batches.c
    query = select(batch.id, batch.intake, batch.created_at).where(batch.kind == "batch", TAKES_ROWS)
    return conn.execute(query.order_by(batch.created_at, batch.id)).all()


SHOWN_TO_AGENTS = ("text", "model_text", "reply", "model_reply", "turns")
"""The columns of a case from which agents are shown its text."""


def text_for_agents(row: Any) -> ScreenedText:
    """Of a row with `SHOWN_TO_AGENTS`: a copy for the model is kept only where it differs."""
    text = row.text if row.model_text is None else row.model_text
    thread = thread_of(row.turns)
    return ScreenedText(
        text=text,
        reply=row.reply if row.model_reply is None else row.model_reply,
        thread=None if thread is None else screened_thread(thread, text),
    )


def text_to_send(row: Any, texts: Mapping[str, Any]) -> ScreenedText:
    """The same as it leaves the site: masked where the configuration it is screened with (``texts``) says so.

    ValueError for a masking that this version does not know: the case then stays pending and is sent nowhere.
    """
    shown = text_for_agents(row)
    if (version := texts.get("masking")) is None:
        return shown
    if version != MASKING_VERSION:
        raise ValueError("the batch was begun with another version of the masking")
    turns = () if shown.thread is None else tuple(replace(turn, text=mask(turn.text)) for turn in shown.thread.turns)
    reply, thread = shown.reply and mask(shown.reply), shown.thread and replace(shown.thread, turns=turns)
    return ScreenedText(text=mask(shown.text), reply=reply, thread=thread)


def text_as_received(stored: str | None, original_json: str | None) -> str | None:
    """The text exactly as it was received: from its escaped original, where one is kept."""
    return stored if original_json is None else unescape(original_json)


ROWS = 500
CHARACTERS = 4_000_000
"""A page ends with the row that reaches so many."""
_AT_ONCE = 10


def text_page(conn: Connection, query: Select[Any]) -> list[Row[Any]]:
    """The next rows of an ordered query; none only where there are none left."""
    page: list[Row[Any]] = []
    characters = 0
    with conn.execute(query.limit(ROWS).execution_options(yield_per=_AT_ONCE)) as rows:
        for row in rows:
            page.append(row)
            characters += sum(len(value) for value in row if isinstance(value, str))
            if characters >= CHARACTERS:
                break
    return page
