"""An index of the texts of open cases, in the database itself: which of them may hold the words looked for.

It holds numbers for short pieces of words (`screening.text.word_parts`) and no text. Triggers write down which cases
came in or were closed; `catch_up` does what they wrote down, and until then `behind` are looked through as they are.
What is erased leaves it in the same transaction, and the places where it stood are written over.
"""

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic, sleep
from typing import Any, Final

from sqlalchemy import Connection, Integer, Select, delete, exists, insert, select, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY

from screening.text.word_parts import parts_needed, parts_of
from storage.database import Database
from storage.schema import cases, inbox_entries, open_texts, texts_to_index

AT_ONCE = 25
"""Texts whose places are found in one transaction: an embedded database lets nobody else write meanwhile."""
REST = 4.0
"""Where 100,000 texts came in at once this goes on for long: it must not take a core, nor the lock from who saves."""
Known = Mapping[str, frozenset[int]]
"""The pieces of texts that were read before, by what was written."""
MOST_FOUND = 2_000
_WRITTEN: Final = (cases.c.text, cases.c.model_text, cases.c.reply)
_PUT: Final = "INSERT INTO open_text_parts (rowid, parts) VALUES (?, ?)"
_TAKE: Final = "INSERT INTO open_text_parts (open_text_parts, rowid, parts) VALUES ('delete', ?, ?)"
_TIDY: Final = "INSERT INTO open_text_parts (open_text_parts) VALUES ('optimize')"
_FIND: Final = (
    "SELECT open_texts.case_id FROM open_text_parts JOIN open_texts ON open_texts.id = open_text_parts.rowid "
    "WHERE open_text_parts MATCH ? LIMIT ?"
)


def full_text(row: Any) -> str:
    """All that was written in a case, as received and as the model got it."""
    return "\n".join(one for one in (row.text, row.model_text, row.reply) if one)


def catch_up(db: Database, most: int = 80 * AT_ONCE, rest: float = REST) -> int:
    """Take in cases that came into the inbox, and take out those that were closed; returns how many were looked at.

    After each transaction it sleeps ``rest`` times as long as that took: readers who save come first.
    """
    done = 0
    while done < most and (ids := db.values(behind().limit(AT_ONCE))):
        begun = monotonic()
        some = _work_off(db, ids)
        if not some:
            return done  # another process has them in hand
        done += some
        sleep(rest * (monotonic() - begun))
    return done


def _work_off(db: Database, next_ones: Sequence[str]) -> int:
    """Take these cases into the index or out of it; the pieces of their words are found before anything is locked."""
    read = db.rows(select(cases.c.id, *_WRITTEN).where(cases.c.id.in_(next_ones)))
    known = {text: parts_of(text) for text in map(full_text, read)}
    with db.write() as conn:
        wanted = behind().where(texts_to_index.c.case_id.in_(next_ones)).with_for_update(skip_locked=True)
        ids = list(conn.execute(wanted).scalars())
        open_now = select(inbox_entries.c.case_id).where(
            inbox_entries.c.case_id.in_(ids), inbox_entries.c.closed_at.is_(None)
        )
        still_open = set(conn.execute(open_now).scalars())
        _remove(conn, [each for each in ids if each not in still_open], known)
        _add(conn, sorted(still_open), known)
        conn.execute(delete(texts_to_index).where(texts_to_index.c.case_id.in_(ids)))
    return len(ids)


def find_candidates(conn: Connection, words: str) -> Sequence[str] | None:
    """The cases that may hold these words; None where they are more than `MOST_FOUND`, or no words are given."""
    wanted = parts_needed(words)
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
    """The cases that were not taken in yet, or not taken out."""
    return select(texts_to_index.c.case_id)


def forget(conn: Connection, ids: Sequence[str]) -> None:
    """Remove these cases from the index, in the transaction that erases them."""
    _remove(conn, ids, {})
    conn.execute(delete(texts_to_index).where(texts_to_index.c.case_id.in_(ids)))


def tidy(conn: Connection) -> None:
    """Purge what was marked as deleted, after an erasure. PostgreSQL does it when it vacuums."""
    if conn.dialect.name != "postgresql":
        conn.exec_driver_sql(_TIDY)


def _add(conn: Connection, ids: Sequence[str], known: Known) -> None:
    missing = select(cases.c.id, *_WRITTEN).where(
        cases.c.id.in_(ids), ~exists().where(open_texts.c.case_id == cases.c.id)
    )
    for row in conn.execute(missing).all():
        parts = _parts(row, known)
        if conn.dialect.name == "postgresql":
            conn.execute(insert(open_texts).values(case_id=row.id, parts=sorted(parts)))
        else:
            made = conn.execute(insert(open_texts).values(case_id=row.id).returning(open_texts.c.id)).scalar_one()
            conn.exec_driver_sql(_PUT, (made, " ".join(_words(parts))))


def _remove(conn: Connection, ids: Sequence[str], known: Known) -> None:
    if conn.dialect.name != "postgresql":
        there = select(open_texts.c.id.label("place"), *_WRITTEN).join(cases, cases.c.id == open_texts.c.case_id)
        for row in conn.execute(there.where(open_texts.c.case_id.in_(ids))).all():
            conn.exec_driver_sql(_TAKE, (row.place, " ".join(_words(_parts(row, known)))))
    conn.execute(delete(open_texts).where(open_texts.c.case_id.in_(ids)))


def _parts(row: Any, known: Known) -> frozenset[int]:
    """The pieces of what stands in the case now, which may differ from what stood there a moment ago."""
    text = full_text(row)
    found = known.get(text)
    return parts_of(text) if found is None else found


def _words(parts: Iterable[int]) -> list[str]:
    """The numbers as words of the embedded database's index."""
    return [f"{part + 2**31:x}" for part in sorted(parts)]
