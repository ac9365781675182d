"""Tags and remarks of researchers on cases: what a mistake has in common with others."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.database import Database, insert_into
from storage.schema import case_remarks, case_tags, cases
from storage.visibility import is_erased

TAG_LIMIT, REMARK_LIMIT = 40, 4_000
_SPACE = re.compile(r"\s+")


def tidy_tag(words: str) -> str:
    """The tag as it is kept: lower case, single spaces. ValueError for none, one too long, or unprintable characters.

    >>> tidy_tag("  Song  Lyrics ")
    'song lyrics'
    """
    tag = _SPACE.sub(" ", words).strip().casefold()
    if not tag or len(tag) > TAG_LIMIT or not tag.isprintable():
        raise ValueError(f"a tag has 1 to {TAG_LIMIT} printable characters")
    return tag


def add_tag(db: Database, by: Acting, case_id: str, words: str) -> str:
    """Tag a case; twice is once. The tag as it is kept. Raises Forbidden, KeyError, and ValueError for
    words that are no tag and for a case that was erased.
    """
    tag = tidy_tag(words)
    with db.write() as conn:
        _require(conn, by.actor, case_id, held=True)
        row = {"case_id": case_id, "tag": tag, "by": by.id, "at": by.now}
        conn.execute(insert_into(conn, case_tags).values(row).on_conflict_do_nothing())
        append(conn, by, "case_tagged", case_id, {})
    return tag


def remove_tag(db: Database, by: Acting, case_id: str, tag: str) -> None:
    """Remove a tag. Raises Forbidden, KeyError."""
    with db.write() as conn:
        _require(conn, by.actor, case_id)
        conn.execute(delete(case_tags).where(case_tags.c.case_id == case_id, case_tags.c.tag == tag))
        append(conn, by, "case_untagged", case_id, {})


def add_remark(db: Database, by: Acting, case_id: str, words: str) -> None:
    """Write a remark on a case. Raises Forbidden, KeyError, and ValueError for none, one too long, and a case that
    was erased.
    """
    remark = words.strip()
    if not remark or len(remark) > REMARK_LIMIT:
        raise ValueError(f"a remark has 1 to {REMARK_LIMIT:,} characters")
    with db.write() as conn:
        _require(conn, by.actor, case_id, held=True)
        conn.execute(insert(case_remarks), {"case_id": case_id, "author": by.id, "remark": remark, "at": by.now})
        append(conn, by, "case_remarked", case_id, {"characters": len(remark)})


def remarks(db: Database, actor: Actor, case_id: str) -> Sequence[Any]:
    """The remarks on a case, oldest first: ``author``, ``remark`` and ``at``. Raises Forbidden, KeyError."""
    with db.read() as conn:
        _require(conn, actor, case_id)
        made = case_remarks.c
        query = select(made.author, made.remark, made.at).where(made.case_id == case_id)
        return conn.execute(query.order_by(made.id)).all()


def tag_counts(db: Database, actor: Actor, batch_id: str) -> Mapping[str, int]:
    """How many cases of a batch have each tag, the most used first. Raises Forbidden."""
    require(actor, Action.VIEW_RESULTS)
    tag, number = case_tags.c.tag, func.count().label("cases")
    query = (
        select(tag, number)
        .join(cases, cases.c.id == case_tags.c.case_id)
        .where(cases.c.batch_id == batch_id)
        .group_by(tag)
        .order_by(number.desc(), tag)
    )
    return {row.tag: row.cases for row in db.rows(query)}


def _require(conn: Connection, actor: Actor, case_id: str, *, held: bool = False) -> None:
    require(actor, Action.VIEW_RESULTS)
    if conn.execute(select(cases.c.id).where(cases.c.id == case_id)).first() is None:
        raise KeyError(case_id)
    if held and is_erased(conn, case_id):
        raise ValueError("what this case held was deleted: nothing more is noted of it")
