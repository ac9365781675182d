"""Finding open cases by what names them: their id, group or batch; and, where asked for, by words of their text.

Each search is bounded, and `Found` says so where there was more: names by an index and its first matches, batches and
texts among the cases due first.
"""

import unicodedata
from collections.abc import Collection
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection, or_, select, union

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.triage import Priority
from storage.database import Database, begins
from storage.review.claims import in_order, in_priorities, is_open, state
from storage.review.queue import Sort, Waiting, sort_columns, waiting_case
from storage.schema import batches, cases, inbox_entries

FIRST_NAMED = 1_000
"""Cases with such a beginning of an id or group of which the open ones are found."""
FIRST_DUE = 5_000
"""Open cases due first, among which those of a batch are found."""
FIRST_READ = 10_000
"""Texts looked through, of the cases due first: some 0.1 s."""
ENOUGH = 200
"""Cases with such words: the search for more ends there."""
MOST_BATCHES = 20
LONGEST = 120
_entry = inbox_entries.c


class Found(NamedTuple):
    """The cases, and where not every open case's text was looked through, of how many it was."""

    cases: tuple[Waiting, ...] = ()
    texts_read: int | None = None


def find(
    db: Database,
    by: Acting,
    words: str,
    *,
    texts: bool = False,
    priorities: Collection[Priority] | None = None,
    sort: Sort = Sort.URGENT,
    limit: int = 50,
) -> Found:
    """Open cases whose id or group begins with the words or whose batch has them in its name; with
    ``texts`` those with all of them in text or reply too, for whoever may read every text. Raises Forbidden.
    """
    require(by.actor, Action.BROWSE_QUEUE)
    if texts:
        require(by.actor, Action.VIEW_TEXT)
    wanted = words.strip()[:LONGEST]
    if not wanted:
        return Found()
    with db.read() as conn:
        found = _cases_by_name(conn, wanted) | _in_batches(conn, wanted)
        texts_read = None
        if texts:
            with_words, texts_read = _with_words(conn, wanted, priorities)
            found |= with_words
        query = (
            select(inbox_entries, cases.c.external_id, state(by.actor, by.now).label("state"))
            .join(cases, cases.c.id == _entry.case_id)
            .where(_entry.case_id.in_(sorted(found)), is_open(), in_priorities(priorities))
        )
        rows = conn.execute(query.order_by(*sort_columns(_entry, sort)).limit(limit)).all()
    return Found(tuple(waiting_case(row, by.now) for row in rows), texts_read)


def _cases_by_name(conn: Connection, words: str) -> set[str]:
    by_id = select(cases.c.id).where(cases.c.id == words.lower())
    by_name = select(cases.c.id).where(begins(conn, cases.c.external_id, words)).limit(FIRST_NAMED)
    by_group = select(cases.c.id).where(begins(conn, cases.c.group_name, words)).limit(FIRST_NAMED)
    ids = union(by_id, *(select(each.subquery().c.id) for each in (by_name, by_group))).subquery()
    query = select(_entry.case_id).where(_entry.case_id.in_(select(ids.c.id)), is_open())
    return set(conn.execute(query).scalars())


def _with_words(conn: Connection, words: str, priorities: Collection[Priority] | None) -> tuple[set[str], int | None]:
    """Open cases with all the words in text or reply, and how many were looked through where there are more."""
    joined = select(cases.c.id, cases.c.text, cases.c.model_text, cases.c.reply)
    joined = joined.join(inbox_entries, _entry.case_id == cases.c.id).where(is_open(), in_priorities(priorities))
    wanted = fold_case(words).split()
    read, found = 0, set[str]()
    query = joined.order_by(*in_order(priorities)).limit(FIRST_READ + 1).execution_options(yield_per=ENOUGH)
    with conn.execute(query) as rows:
        for row in islice(rows, FIRST_READ):
            text = fold_case("\n".join(part for part in (row.text, row.model_text, row.reply) if part))
            read += 1
            if all(word in text for word in wanted):
                found.add(row.id)
            if len(found) == ENOUGH:
                break
        return found, None if next(rows, None) is None else read


def fold_case(text: str) -> str:
    """The form in which words are compared: without regard to case, width and compatibility forms.

    >>> fold_case("Ｂridge ﬁne STRASSE") == fold_case("bridge fine Straße")
    True
    """
    return unicodedata.normalize("NFKC", text).casefold()


def _in_batches(conn: Connection, words: str) -> set[str]:
    named = or_(batches.c.name.icontains(words, autoescape=True), batches.c.id == words.lower())
    newest = select(batches.c.id).where(named).order_by(batches.c.created_at.desc()).limit(MOST_BATCHES)
    chosen = list(conn.execute(newest).scalars())
    if not chosen:
        return set()
    first = select(_entry.case_id).where(is_open()).order_by(*in_order(None)).limit(FIRST_DUE).subquery()
    query = select(cases.c.id).join(first, first.c.case_id == cases.c.id).where(cases.c.batch_id.in_(chosen))
    return set(conn.execute(query).scalars())
