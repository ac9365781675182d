"""Finding open cases by what names them: their id, group or batch; and, where asked for, by words of their text.

Each search is bounded: names by an index and its first matches, batches among the cases due first. Texts are found by
`text_index`; words that stand in very many of them among the cases due first.
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, or_, select, union

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.triage import Tier
from screening.text.word_parts import holds
from storage.database import Database, begins
from storage.review import text_index
from storage.review.claims import in_order, in_tiers, is_open, state
from storage.review.queue import Sort, Waiting, sort_columns, waiting_case
from storage.schema import batches, cases, inbox_entries

FIRST_NAMED = 1_000
"""Cases with such a beginning of an id or group of which the open ones are found."""
FIRST_DUE = 5_000
"""Open cases due first, among which those of a batch are found."""
FIRST_READ = 2_000
"""Texts looked through: of the cases due first for words that stand in very many, and of those not indexed yet."""
ENOUGH = 200
"""Cases with such words: the search for more ends there."""
MOST_BATCHES = 20
LONGEST = 120
_entry = inbox_entries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for: by its name, and in ``texts`` too."""

    words: str
    texts: bool = False
    tiers: Collection[Tier] | None = None
    sort: Sort = Sort.URGENT


def find(db: Database, by: Acting, search: Search, limit: int = 50) -> tuple[Waiting, ...]:
    """Open cases whose id or group begins with the words or whose batch has them in its name; and those with all of
    them in text or reply, for whoever may read every text. Raises Forbidden.
    """
    require(by.actor, Action.BROWSE_QUEUE)
    if search.texts:
        require(by.actor, Action.VIEW_TEXT)
    wanted = search.words.strip()[:LONGEST]
    if not wanted:
        return ()
    with db.read() as conn:
        found = (
            _cases_by_name(conn, wanted)
            | _in_batches(conn, wanted)
            | (_with_words(conn, wanted, search.tiers) if search.texts else set())
        )
        query = (
            select(inbox_entries, cases.c.external_id, state(by.actor, by.now).label("state"))
            .join(cases, cases.c.id == _entry.case_id)
            .where(_entry.case_id.in_(sorted(found)), is_open(), in_tiers(search.tiers))
        )
        rows = conn.execute(query.order_by(*sort_columns(_entry, search.sort)).limit(limit)).all()
    return tuple(waiting_case(row, by.now) for row in rows)


def _cases_by_name(conn: Connection, words: str) -> set[str]:
    by_id = select(cases.c.id).where(cases.c.id == words.lower())
    by_name = select(cases.c.id).where(begins(conn, cases.c.external_id, words)).limit(FIRST_NAMED)
    by_group = select(cases.c.id).where(begins(conn, cases.c.group_name, words)).limit(FIRST_NAMED)
    ids = union(by_id, *(select(each.subquery().c.id) for each in (by_name, by_group))).subquery()
    query = select(_entry.case_id).where(_entry.case_id.in_(select(ids.c.id)), is_open())
    return set(conn.execute(query).scalars())


def _with_words(conn: Connection, words: str, tiers: Collection[Tier] | None) -> set[str]:
    ids = text_index.find_candidates(conn, words)
    if ids is not None:
        behind = text_index.behind().limit(FIRST_READ)
        return _filter_by_words(conn, _texts().where(or_(_entry.case_id.in_(ids), _entry.case_id.in_(behind))), words)
    first = select(_entry.case_id).where(is_open(), in_tiers(tiers)).order_by(*in_order(tiers)).limit(FIRST_READ)
    return _filter_by_words(conn, _texts().where(_entry.case_id.in_(first)).order_by(*in_order(None)), words)


def _texts() -> Select[Any]:
    joined = select(cases.c.id, cases.c.text, cases.c.model_text, cases.c.reply)
    return joined.join(inbox_entries, _entry.case_id == cases.c.id).where(is_open())


def _filter_by_words(conn: Connection, texts: Select[Any], words: str) -> set[str]:
    """Of these cases those with all the words, as far as is enough."""
    rows = conn.execution_options(yield_per=ENOUGH).execute(texts)
    return {row.id for row in islice((row for row in rows if holds(text_index.full_text(row), words)), ENOUGH)}


def _in_batches(conn: Connection, words: str) -> set[str]:
    named = or_(batches.c.name.icontains(words, autoescape=True), batches.c.id == words.lower())
    newest = select(batches.c.id).where(named).order_by(batches.c.created_at.desc()).limit(MOST_BATCHES)
    chosen = list(conn.execute(newest).scalars())
    if not chosen:
        return set()
    first = select(_entry.case_id).where(is_open()).order_by(*in_order(None)).limit(FIRST_DUE).subquery()
    query = select(cases.c.id).join(first, first.c.case_id == cases.c.id).where(cases.c.batch_id.in_(chosen))
    return set(conn.execute(query).scalars())
