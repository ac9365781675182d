"""What a person may see of one case: the text first; what the AI made of it, and the rest, after their own review. And
what people note on one: reviewers' notes to each other, researchers' tags and remarks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import BindParameter, Connection, String, and_, bindparam, exists, func, insert, select, update

from screening.datasets.mapping import names_people
from screening.review.policy import Acting, Action, Actor, require
from screening.review.triage import Priority
from screening.text.conversation import Thread, thread_of
from storage.audit_log import append
from storage.batches.intake import text_for_agents
from storage.database import Database, insert_into, record
from storage.review.claims import LEASE, OPENED, Claim, claim, claim_next, is_leased, is_open, opened, require_text
from storage.schema.engine import case_errors, node_runs, screenings
from storage.schema.intake import batches, cases, configurations, pending_cases
from storage.schema.review import case_notes, case_remarks, case_tags, inbox_entries, reviews
from storage.schema.site import accounts
from storage.visibility import is_erased, reveal


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseText:
    """Text and context, nothing of the AI and nothing of a reference. ``thread``: where a conversation's turns
    stand in the text. With it what reviewers before ``left`` beside it, rows of `notes`, and the texts ``near`` it in
    its file, by the same person: rows of ``external_id`` and ``text``, and whether it stands ``before`` the case.
    """

    case_id: str
    external_id: str
    text: str
    reply: str | None
    thread: Thread | None = None
    left: Sequence[Any] = ()
    near: Sequence[Any] = ()


_CASE: BindParameter[str] = bindparam("case", type_=String)
_TEXT = select(cases.c.external_id, cases.c.text, cases.c.reply, cases.c.turns).where(cases.c.id == _CASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The AI's view of one case. ``outcome`` is None while it is pending; ``configuration`` is what it ran with.
    ``runs`` are rows of node runs as they were stored, with the ``codes`` that the verdict rests on: of the draws in
    request order, else of the server's probabilities; ``unusable`` are raw texts by the number of the draw.
    """

    case_id: str
    outcome: str | None
    node: str | None
    reason: str | None
    calls: int
    cost_usd: float | None
    delta: float | None
    configuration_version: str | None
    configuration: Mapping[str, Any] | None
    runs: Sequence[Any]
    reference: str | None
    reference_value: str | None
    where_to_act: str | None = None


def reveal_text(
    db: Database, by: Acting, case_id: str, token: str | None = None, *, with_context: bool = False
) -> CaseText:
    """For whoever holds the case (by the token), has reviewed it, or may see any: one view in the audit log. Raises
    Forbidden, KeyError.
    """
    entry = inbox_entries.c
    theirs = entry.case_id == case_id, entry.assignee == by.id, is_leased(by.now), is_open()
    with db.write() as conn:
        reviewed = require_text(conn, by, case_id, token)
        found = _text(conn, case_id)
        conn.execute(update(inbox_entries).where(*theirs).values(opened(by.now)))
        append(conn, by, "text_viewed", case_id, {})
        return _with_context(conn, found, reviewed=reviewed) if with_context else found


def reveal_text_starts(db: Database, by: Acting, case_ids: Sequence[str], characters: int = 80) -> Mapping[str, str]:
    """The beginning of each text, each one a view in the audit log. Raises Forbidden."""
    require(by.actor, Action.VIEW_TEXT)
    beginning = func.substr(cases.c.text, 1, characters).label("beginning")
    with db.write() as conn:
        rows = conn.execute(select(cases.c.id, beginning).where(cases.c.id.in_(case_ids)).order_by(cases.c.id)).all()
        for row in rows:
            append(conn, by, "text_viewed", row.id, {"characters": characters})
    return {row.id: row.beginning for row in rows}


def _text(conn: Connection, case_id: str) -> CaseText:
    """Without a line in the audit log, which the caller writes."""
    row = conn.execute(_TEXT, {"case": case_id}).first()
    if row is None:
        raise KeyError(case_id)
    return record(CaseText, row, case_id=case_id, thread=thread_of(row.turns))


_SCREENED = (
    select(cases.c.reference, cases.c.reference_value, cases.c.where_to_act)
    .add_columns(*(screenings.c[name] for name in ("outcome", "node", "reason", "cost_usd", "delta")))
    .add_columns(
        screenings.c.configuration.label("configuration_version"), configurations.c.body.label("configuration")
    )
    .outerjoin(screenings, screenings.c.case_id == cases.c.id)
    .outerjoin(configurations, configurations.c.version == screenings.c.configuration)
    .where(cases.c.id == _CASE)
)


def reveal_evidence(
    db: Database, by: Acting, case_id: str, *, open_at_once: bool = False, browsing: bool = False
) -> Evidence:
    """The AI's view of the case. Raises NotYetReviewed (blind first), KeyError. ``open_at_once`` opens a P0 case
    that the actor holds, ``browsing`` any for whoever does not hide those in review: their review then is not blinded.
    """
    with db.write() as conn:
        found = conn.execute(_SCREENED, {"case": case_id}).first()
        if found is None:
            raise KeyError(case_id)
        early = reveal(conn, by, case_id, open_at_once=open_at_once, browsing=browsing)
        codes = func.coalesce(func.nullif(node_runs.c.draws, ""), node_runs.c.distribution, "").label("codes")
        query = select(node_runs, codes).where(node_runs.c.case_id == case_id).order_by(node_runs.c.position)
        runs = conn.execute(query).all()
        append(conn, by, "evidence_viewed", case_id, {"before_review": early})
    return record(Evidence, found, case_id=case_id, calls=sum(run.calls for run in runs), runs=runs)


EACH_WAY = 3
"""Texts before this one in its file, and after it, the nearest."""
_case = cases.c


def _near_texts(conn: Connection, case_id: str) -> Sequence[Any]:
    """In the order of the file, for a caller who has seen to it that the actor may read the case's own text."""
    columns = _case.batch_id, _case.group_name, _case.row, batches.c.intake
    own = conn.execute(select(*columns).join(batches, batches.c.id == _case.batch_id).where(_case.id == case_id)).one()
    if not (own.group_name or "").strip() or not names_people(own.intake.get("group_column") or ""):
        return ()
    group = select(_case.external_id, _case.text, (_case.row < own.row).label("before")).where(
        _case.group_name == own.group_name, _case.batch_id == own.batch_id
    )
    before = group.where(_case.row < own.row).order_by(_case.row.desc()).limit(EACH_WAY)
    after = group.where(_case.row > own.row).order_by(_case.row).limit(EACH_WAY)
    return (*reversed(conn.execute(before).all()), *conn.execute(after).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """One case: its row, with ``batch_name``, ``batch_owner`` and whether it ``waits_for_retry`` as its last attempt
    failed. ``parts`` are "text" and, where there is one, "reply": as received, and as agents are shown it. ``errors``
    are the failed attempts in order: ``kind``, ``message`` (never of a text), ``calls`` that do not count, ``at``.
    ``entry`` is its place in the inbox: ``priority``, ``why``, the ``review_round`` that is due or was last,
    ``closed_at``.
    """

    case: Any
    parts: Mapping[str, tuple[str, str]]
    errors: Sequence[Any]
    entry: Any


def reveal_case_file(db: Database, by: Acting, case_id: str, *, browsing: bool = False) -> CaseFile:
    """The file of a case, blind first as its evidence. Raises Forbidden, NotYetReviewed, KeyError."""
    waits = pending_cases.c.case_id.is_not(None), pending_cases.c.ready_at.is_(None), batches.c.cancelled_at.is_(None)
    query = (
        select(cases, batches.c.name.label("batch_name"), batches.c.created_by.label("batch_owner"))
        .add_columns(and_(*waits).label("waits_for_retry"))
        .join(batches, batches.c.id == cases.c.batch_id)
        .outerjoin(pending_cases, pending_cases.c.case_id == cases.c.id)
        .where(cases.c.id == case_id)
    )
    failed = select(*(case_errors.c[name] for name in ("kind", "message", "calls", "at")))
    place = select(*(inbox_entries.c[name] for name in ("priority", "why", "review_round", "closed_at")))
    with db.write() as conn:
        if (row := conn.execute(query).first()) is None:
            raise KeyError(case_id)
        reveal(conn, by, case_id, browsing=browsing)
        errors = conn.execute(failed.where(case_errors.c.case_id == case_id).order_by(case_errors.c.id)).all()
        entry = conn.execute(place.where(inbox_entries.c.case_id == case_id)).first()
    return CaseFile(case=row, parts=_text_parts(row), errors=errors, entry=entry)


def _text_parts(row: Any) -> dict[str, tuple[str, str]]:
    shown = text_for_agents(row)
    turns = None if shown.thread is None else "\n\n".join(turn.text for turn in shown.thread.turns)
    parts = {"text": (row.text, shown.text if turns is None else turns)}
    if shown.reply is not None:
        parts["reply"] = (row.reply, shown.reply)
    return parts


_ALL = (
    select(case_notes, func.coalesce(accounts.c.display_name, case_notes.c.author).label("author_name"))
    .outerjoin(accounts, accounts.c.id == case_notes.c.author)
    .where(case_notes.c.case_id == _CASE)
    .order_by(case_notes.c.id)
)
_BY_REVIEWER = exists().where(and_(reviews.c.case_id == _CASE, reviews.c.reviewer == case_notes.c.author))
_BLIND = _ALL.where(case_notes.c.kind != "second_opinion", ~_BY_REVIEWER)  # what was asked may give a review away
"""Written once: asked for every case that is opened."""


def notes(db: Database, by: Acting, case_id: str, token: str | None = None) -> Sequence[Any]:
    """Those on a case with their ``author_name``, the oldest first, for whoever may see its text. What a second opinion
    was asked with, and what its reviewers wrote, is hidden from who has not reviewed it: a second review is blind.
    """
    with db.read() as conn:
        return _notes(conn, case_id, reviewed=require_text(conn, by, case_id, token))


def _notes(conn: Connection, case_id: str, *, reviewed: bool) -> Sequence[Any]:
    return conn.execute(_ALL if reviewed else _BLIND, {"case": case_id}).all()


def add_note(conn: Connection, by: Acting, case_id: str, kind: str, note: str, to: str | None = None) -> None:
    conn.execute(
        insert(case_notes).values(case_id=case_id, author=by.id, kind=kind, handed_to=to, note=note.strip(), at=by.now)
    )


def open_next(
    db: Database,
    by: Acting,
    lease: timedelta = LEASE,
    priorities: Collection[Priority] | None = None,
    batch: str | None = None,
) -> tuple[Claim, CaseText] | None:
    """Take the next case, as `claims.claim_next` does, and show it. None where none is free. Raises Forbidden."""
    require(by.actor, Action.VIEW_TEXT, by.id)
    with db.write() as conn:
        taken = claim_next(conn, by, lease, priorities, batch=batch, action=OPENED)
        return None if taken is None else (taken, _with_context(conn, _text(conn, taken.case_id), reviewed=False))


def open_named(db: Database, by: Acting, case_id: str, lease: timedelta = LEASE) -> tuple[Claim, CaseText]:
    """Take a chosen case, as `claims.claim` does, and show it. Raises as that does."""
    with db.write() as conn:
        taken = claim(conn, by, case_id, lease, action=OPENED)
        return taken, _with_context(conn, _text(conn, case_id), reviewed=False)


def _with_context(conn: Connection, text: CaseText, *, reviewed: bool) -> CaseText:
    left = _notes(conn, text.case_id, reviewed=reviewed)
    return replace(text, left=left, near=_near_texts(conn, text.case_id))


TAG_LIMIT, REMARK_LIMIT = 40, 4_000


def tidy_tag(words: str) -> str:
    """The tag as it is kept: lower case, single spaces. ValueError for none, one too long, or unprintable characters.

    >>> tidy_tag("  Song  Lyrics ")
    'song lyrics'
    """
    tag = " ".join(words.split()).casefold()
    if not tag or len(tag) > TAG_LIMIT or not tag.isprintable():
        raise ValueError(f"a tag has 1 to {TAG_LIMIT} printable characters")
    return tag


def add_tag(db: Database, by: Acting, case_id: str, words: str) -> str:
    """Tag a case; twice is once. The tag as it is kept. KeyError; ValueError for no tag, and for an erased case."""
    tag = tidy_tag(words)
    with db.write() as conn:
        _require(conn, by.actor, case_id, held=True)
        row = {"case_id": case_id, "tag": tag, "by": by.id, "at": by.now}
        conn.execute(insert_into(case_tags).values(row).on_conflict_do_nothing())
        append(conn, by, "case_tagged", case_id, {})
    return tag


def remove_tag(db: Database, by: Acting, case_id: str, tag: str) -> None:
    with db.write() as conn:
        _require(conn, by.actor, case_id)
        conn.execute(case_tags.delete().where(case_tags.c.case_id == case_id, case_tags.c.tag == tag))
        append(conn, by, "case_untagged", case_id, {})


def add_remark(db: Database, by: Acting, case_id: str, words: str) -> None:
    """Write a remark on a case. KeyError; ValueError for none, one too long, and for an erased case."""
    remark = words.strip()
    if not remark or len(remark) > REMARK_LIMIT:
        raise ValueError(f"a remark has 1 to {REMARK_LIMIT:,} characters")
    with db.write() as conn:
        _require(conn, by.actor, case_id, held=True)
        conn.execute(case_remarks.insert(), {"case_id": case_id, "author": by.id, "remark": remark, "at": by.now})
        append(conn, by, "case_remarked", case_id, {"characters": len(remark)})


def remarks(db: Database, actor: Actor, case_id: str) -> Sequence[Any]:
    """The remarks on a case with their ``author_name``, oldest first. Raises Forbidden, KeyError."""
    made = case_remarks.c
    query = select(made.remark, made.at, func.coalesce(accounts.c.display_name, made.author).label("author_name"))
    query = query.outerjoin(accounts, accounts.c.id == made.author).where(made.case_id == case_id).order_by(made.id)
    with db.read() as conn:
        _require(conn, actor, case_id)
        return conn.execute(query).all()


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
