"""An index of the texts of open cases, in the database itself: which of them may hold the words looked for.

It holds numbers for short pieces of words (`screening.text.word_parts`) and no text. Triggers write down which cases
came in or were closed; `catch_up` does what they wrote down, and until then `behind` are looked through as they are.
What is erased leaves it in the same transaction, and the places where it stood are written over.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Integer, Select, delete, exists, insert, select, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY

from screening.text.word_parts import needed, parts_of
from storage.database import Database
from storage.schema import cases, inbox_entries, open_texts, texts_to_index

AT_ONCE = 25
"""Texts whose places are found in one transaction: an embedded database lets nobody else write meanwhile."""
MOST_FOUND = 2_000
_WRITTEN: Final = (cases.c.text, cases.c.model_text, cases.c.reply)
_PUT: Final = "INSERT INTO open_text_parts (rowid, parts) VALUES (?, ?)"
_TAKE: Final = "INSERT INTO open_text_parts (open_text_parts, rowid, parts) VALUES ('delete', ?, ?)"
_TIDY: Final = "INSERT INTO open_text_parts (open_text_parts) VALUES ('optimize')"
_FIND: Final = (
    "SELECT open_texts.case_id FROM open_text_parts JOIN open_texts ON open_texts.id = open_text_parts.rowid "
    "WHERE open_text_parts MATCH ? LIMIT ?"
)


def written(row: Any) -> str:
    """All that was written in a case, as received and as the model got it."""
    return "\n".join(one for one in (row.text, row.model_text, row.reply) if one)


def catch_up(db: Database, most: int = 10 * AT_ONCE) -> int:
    """Take in cases that came into the inbox, and out those that were closed; how many were looked at."""
    done = 0
    while done < most and _is_behind(db) and (some := _work_off(db)):  # none: another process has them in hand
        done += some
    return done


def _is_behind(db: Database) -> bool:
    with db.read() as conn:
        return conn.execute(behind().limit(1)).first() is not None


def _work_off(db: Database) -> int:
    with db.write() as conn:
        wanted = behind().limit(AT_ONCE).with_for_update(skip_locked=True)
        ids = list(conn.execute(wanted).scalars())
        open_now = select(inbox_entries.c.case_id).where(
            inbox_entries.c.case_id.in_(ids), inbox_entries.c.closed_at.is_(None)
        )
        still_open = set(conn.execute(open_now).scalars())
        _remove(conn, [each for each in ids if each not in still_open])
        _add(conn, sorted(still_open))
        conn.execute(delete(texts_to_index).where(texts_to_index.c.case_id.in_(ids)))
    return len(ids)


def found(conn: Connection, words: str) -> Sequence[str] | None:
    """The cases that may hold these words; None where they are more than `MOST_FOUND`, or no words are given."""
    wanted = needed(words)
    if not wanted:
        return None
    if conn.dialect.name == "postgresql":
        parts = type_coerce(open_texts.c.parts, ARRAY(Integer))
        query = select(open_texts.c.case_id).where(parts.contains(sorted(wanted)))
        ids = list(conn.execute(query.limit(MOST_FOUND + 1)).scalars())
    else:
        match = " AND ".join(_words(wanted))
        ids = [str(row[0]) for row in conn.exec_driver_sql(_FIND, (match, MOST_FOUND + 1))]
    return ids if len(ids) <= MOST_FOUND else None


def behind() -> Select[str]:
    """The cases that were not taken in yet, or not out."""
    return select(texts_to_index.c.case_id)


def forget(conn: Connection, ids: Sequence[str]) -> None:
    """Before these cases are erased: nothing of them is left in the index."""
    _remove(conn, ids)
    conn.execute(delete(texts_to_index).where(texts_to_index.c.case_id.in_(ids)))


def tidy(conn: Connection) -> None:
    """After something was erased: what was marked as gone is gone. PostgreSQL does it when it vacuums."""
    if conn.dialect.name != "postgresql":
        conn.exec_driver_sql(_TIDY)


def _add(conn: Connection, ids: Sequence[str]) -> None:
    missing = select(cases.c.id, *_WRITTEN).where(
        cases.c.id.in_(ids), ~exists().where(open_texts.c.case_id == cases.c.id)
    )
    for row in conn.execute(missing).all():
        parts = parts_of(written(row))
        if conn.dialect.name == "postgresql":
            conn.execute(insert(open_texts).values(case_id=row.id, parts=sorted(parts)))
        else:
            made = conn.execute(insert(open_texts).values(case_id=row.id).returning(open_texts.c.id)).scalar_one()
            conn.exec_driver_sql(_PUT, (made, " ".join(_words(parts))))


def _remove(conn: Connection, ids: Sequence[str]) -> None:
    if conn.dialect.name != "postgresql":
        there = select(open_texts.c.id.label("place"), *_WRITTEN).join(cases, cases.c.id == open_texts.c.case_id)
        for row in conn.execute(there.where(open_texts.c.case_id.in_(ids))).all():
            conn.exec_driver_sql(_TAKE, (row.place, " ".join(_words(parts_of(written(row))))))
    conn.execute(delete(open_texts).where(open_texts.c.case_id.in_(ids)))


def _words(parts: Iterable[int]) -> list[str]:
    """The numbers as words of the embedded database's index."""
    return [f"{part + 2**31:x}" for part in sorted(parts)]
