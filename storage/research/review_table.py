"""Reviews as tables: who said what before seeing the AI's view, and who changed their mind after it.

Only closed cases: an open one may yet be read by whoever looks at the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from screening.review.policy import Acting, Action, Actor, pseudonym, require
from screening.review.triage import Priority, second_review_coin
from storage.audit_log import append
from storage.database import Database
from storage.schema import adjudications, cases, inbox_entries, reviews, screenings, unblindings
from storage.schema.review import LATER_REVIEW
from storage.settings_store import second_review_rates


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedCase:
    """The blind first reviews of a case by reviewer: the ``label``, its ``certainty``, the level of ``ideation`` (None:
    not stated), and which ``review`` of the case it was. ``external_id`` is that of the file.

    ``at_random`` tells whether its coin chose it for a second review, whatever the first reviewer says. Of the others
    only those had one of which something said was doubted, or a second opinion was asked for.
    """

    case_id: str
    external_id: str
    at_random: bool
    reviews: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One reviewer's blind label of a case when the AI's view was served to them, and their last one, beside what
    it can be measured against.

    ``adjudicated`` is the case's accepted label, ``reference`` the data set's; None where there is none.
    """

    case_id: str
    reviewer: str
    first: str
    last: str
    outcome: str | None
    adjudicated: str | None
    reference: str | None


def review_table(db: Database, actor: Actor, key: str, batch_id: str | None = None) -> tuple[ReviewedCase, ...]:
    """The closed cases with blind first reviews, of one batch or of all; reviewers under pseudonyms."""
    require(actor, Action.VIEW_AGREEMENT)
    query = select(reviews, cases.c.external_id).where(*_BLIND_FIRST)
    with db.read() as conn:
        rows = conn.execute(_of_batch(query, batch_id).order_by(reviews.c.case_id)).all()
        chosen = _chosen_by_coin(conn, rows)
    given: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        said = {"label": row.label, "certainty": row.certainty, "ideation": row.fields["ideation"]}
        of_case = given.setdefault(row.case_id, {})
        of_case[pseudonym(key, row.reviewer)] = said | {"review": row.review_round}
    names = {row.case_id: row.external_id for row in rows}
    return tuple(
        ReviewedCase(case_id=case_id, external_id=name, at_random=case_id in chosen, reviews=given[case_id])
        for case_id, name in names.items()
    )


def reviewers_of(table: Sequence[ReviewedCase]) -> list[str]:
    return sorted({reviewer for case in table for reviewer in case.reviews})


def _chosen_by_coin(conn: Connection, rows: Sequence[Any]) -> set[str]:
    """The cases whose coin lay below the share in force when their first review was given, of these blind reviews."""
    rate_at = second_review_rates(conn)
    return {
        row.case_id for row in rows if row.review_round == "first" and second_review_coin(row.case_id) < rate_at(row.at)
    }


def open_disagreements(db: Database, actor: Actor, batch_id: str | None = None) -> int:
    """Cases sampled for a second review that wait for a third look: they are not in the table yet, and belong there."""
    require(actor, Action.VIEW_AGREEMENT)
    disputed = and_(~_CLOSED, LATER_REVIEW, inbox_entries.c.review_round == "third")
    query = select(reviews.c.case_id, reviews.c.review_round, reviews.c.at).where(*_BLIND_FIRST)
    with db.read() as conn:
        return len(_chosen_by_coin(conn, conn.execute(_of_batch(query, batch_id, disputed)).all()))


def random_double_reviews(db: Database, actor: Actor) -> tuple[bool, ...]:
    """Of each text that its coin chose for a second review, whatever was said of it first, and that one or both of its
    first two blinded reviewers labeled unsafe: whether both did. In the order of the second reviews; disputed ones that
    still wait for a third are among them, as without them reviewers would look better than they are. Raises Forbidden.
    """
    require(actor, Action.VIEW_RESULTS)
    given = select(reviews).where(*_BLIND_FIRST, reviews.c.review_round != "third")
    with db.read() as conn:
        rows = conn.execute(given.order_by(reviews.c.at, reviews.c.id)).all()
        chosen = _chosen_by_coin(conn, rows)
    said: dict[str, list[bool]] = {}
    pairs = []
    for row in rows:
        if row.case_id in chosen:
            of_case = said.setdefault(row.case_id, [])
            of_case.append(row.label == "unsafe")
            if len(of_case) == 2 and any(of_case):
                pairs.append(all(of_case))
    return tuple(pairs)


def collect_reviews(db: Database, by: Acting, key: str, batch_id: str | None = None) -> tuple[ReviewedCase, ...]:
    """The same table to take away: the export is in the audit log before it is read."""
    require(by.actor, Action.EXPORT)
    with db.write() as conn:
        append(conn, by, "exported", batch_id, {"kind": "reviews"})
    return review_table(db, by.actor, key, batch_id)


def switches(db: Database, actor: Actor, key: str, batch_id: str | None = None) -> tuple[Switch, ...]:
    """A row per reviewer and closed case where the AI's view was served after their blind first review, changed then or
    not.
    """
    require(actor, Action.VIEW_AGREEMENT)
    served = and_(unblindings.c.case_id == reviews.c.case_id, unblindings.c.reviewer == reviews.c.reviewer)
    query = select(reviews, cases.c.reference, screenings.c.outcome, unblindings.c.at.label("served_at"))
    query = query.join(unblindings, served).outerjoin(screenings, screenings.c.case_id == reviews.c.case_id)
    accepted = select(adjudications.c.case_id, adjudications.c.label).order_by(adjudications.c.version)
    with db.read() as conn:
        rows = conn.execute(_of_batch(query, batch_id).order_by(reviews.c.case_id, reviews.c.version)).all()
        labels = {row.case_id: row.label for row in conn.execute(accepted)}
    given: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        given.setdefault((row.case_id, row.reviewer), []).append(row)
    return tuple(
        Switch(
            case_id=case_id,
            reviewer=pseudonym(key, reviewer),
            first=[row for row in versions if row.version == 1 or row.at < row.served_at][-1].label,
            last=versions[-1].label,
            outcome=versions[0].outcome,
            adjudicated=labels.get(case_id),
            reference=versions[0].reference,
        )
        for (case_id, reviewer), versions in given.items()
        if versions[0].blind
    )


PriorityReviews = Mapping[Priority | None, Mapping[str, int]]
"""Blind first reviews by label, by the priority that was shown with them; None: it was not kept yet."""


def reviews_by_priority(db: Database, actor: Actor, batch_id: str | None = None) -> PriorityReviews:
    """What reviewers said by the priority they saw, which may tell them what to expect; the most urgent first."""
    require(actor, Action.VIEW_AGREEMENT)
    columns = reviews.c.priority, reviews.c.label, func.count().label("n")
    query = _of_batch(select(*columns).select_from(reviews).where(*_BLIND_FIRST), batch_id)
    query = query.group_by(reviews.c.priority, reviews.c.label)
    found: dict[Priority | None, dict[str, int]] = {}
    for row in db.rows(query.order_by(reviews.c.priority.is_(None), reviews.c.priority)):
        found.setdefault(None if row.priority is None else Priority(row.priority), {})[row.label] = row.n
    return found


_BLIND_FIRST = reviews.c.version == 1, reviews.c.blind.is_(True)
_CLOSED = inbox_entries.c.closed_at.is_not(None)


def _of_batch(query: Select[Any], batch_id: str | None, which: ColumnElement[bool] = _CLOSED) -> Select[Any]:
    """The reviews of the closed cases, or of others, of a batch or of all."""
    joined = query.join(cases, cases.c.id == reviews.c.case_id).where(which)
    joined = joined.join(inbox_entries, inbox_entries.c.case_id == reviews.c.case_id)
    return joined if batch_id is None else joined.where(cases.c.batch_id == batch_id)
