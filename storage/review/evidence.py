"""What a person may see of one case: the text first, the engine's view of it after their own rating."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, String, bindparam, select

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.text.conversation import Thread, thread_of
from storage.audit_log import append
from storage.database import Database, record
from storage.review.claims import is_open
from storage.schema import cases, configurations, inbox_entries, node_runs, ratings, screenings
from storage.visibility import reveal


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseText:
    """Text and context, nothing of the engine and nothing of a reference. ``thread``: where a conversation's turns
    stand in the text.
    """

    case_id: str
    external_id: str
    text: str
    reply: str | None
    thread: Thread | None = None


TEXT_COLUMNS = (cases.c.external_id, cases.c.text, cases.c.reply, cases.c.turns)
_TEXT = select(*TEXT_COLUMNS).where(cases.c.id == bindparam("case", type_=String))


def text_of(case_id: str, row: Any) -> CaseText:
    """What `TEXT_COLUMNS` selected of a case."""
    thread = thread_of(row.turns)
    return record(CaseText, row, case_id=case_id, thread=thread)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    """One node run as it was stored; ``draws`` is one code per draw in request order,
    ``distribution`` the code of its server's probabilities, where it was asked for them.
    """

    node: str
    variant: str
    draws: str
    unusable: Mapping[int, str]
    label: str | None
    ended: str
    calls: int
    cost_usd: float | None
    started_at: datetime
    ended_at: datetime
    distribution: str | None = None

    @property
    def codes(self) -> str:
        """What the verdict rests on: the draws, else the distribution."""
        return self.draws or self.distribution or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The engine's view of one case. ``outcome`` is None while it is pending; ``configuration`` is the body of
    the version it ran with.
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
    runs: tuple[NodeEvidence, ...]
    reference: str | None
    reference_value: str | None
    where_to_act: str | None = None


def reveal_text(db: Database, by: Acting, case_id: str, token: str | None = None) -> CaseText:
    """The text and the reply to it, for whoever holds the case (by the token), has rated it, or may see any.

    Each call is one view in the audit log. Raises Forbidden, KeyError for an unknown case.
    """
    with db.write() as conn:
        require(by.actor, Action.VIEW_TEXT, by.id if owns_text(conn, by, case_id, token) else None)
        return reveal_text_in(conn, by, case_id)


def reveal_text_in(conn: Connection, by: Acting, case_id: str) -> CaseText:
    """The same inside the caller's transaction, which knows that the actor may see it. Raises KeyError."""
    found = text_in(conn, case_id)
    append(conn, by, "text_viewed", case_id, {})
    return found


def text_in(conn: Connection, case_id: str) -> CaseText:
    """The same without a line in the audit log, which the caller writes."""
    row = conn.execute(_TEXT, {"case": case_id}).first()
    if row is None:
        raise KeyError(case_id)
    return text_of(case_id, row)


def owns_text(conn: Connection, by: Acting, case_id: str, token: str | None) -> bool:
    """Whether the actor holds the case by this token, or has rated it."""
    entry = inbox_entries.c
    holding = select(entry.case_id).where(
        entry.case_id == case_id,
        entry.assignee == by.id,
        entry.lease_token == token,
        entry.assigned_until > by.now,
        is_open(),
    )
    rated = select(ratings.c.id).where(ratings.c.case_id == case_id, ratings.c.reviewer == by.id)
    return conn.execute(rated.limit(1)).first() is not None or (
        token is not None and conn.execute(holding).first() is not None
    )


_OF_A_CASE = (cases.c.reference, cases.c.reference_value, cases.c.where_to_act)


def reveal_evidence(
    db: Database, by: Acting, case_id: str, *, open_at_once: bool = False, browsing: bool = False
) -> Evidence:
    """The engine's view of the case. Raises Forbidden, NotYetRated (blind first), KeyError for an unknown case.

    ``open_at_once`` opens a P0 case that the actor holds before they review it, ``browsing`` a case outside the
    desk for whoever does not hide those in review; the review then is not blinded.
    """
    with db.write() as conn:
        found = conn.execute(select(*_OF_A_CASE).where(cases.c.id == case_id)).first()
        if found is None:
            raise KeyError(case_id)
        early = reveal(conn, by, case_id, open_at_once=open_at_once, browsing=browsing)
        result = _evidence(conn, case_id, found)
        append(conn, by, "evidence_viewed", case_id, {"before_rating": early})
    return result


def _evidence(conn: Connection, case_id: str, case: Any) -> Evidence:
    row = conn.execute(
        select(screenings, configurations.c.body)
        .join(configurations, configurations.c.version == screenings.c.configuration)
        .where(screenings.c.case_id == case_id)
    ).first()
    runs = tuple(
        _node(run)
        for run in conn.execute(select(node_runs).where(node_runs.c.case_id == case_id).order_by(node_runs.c.position))
    )
    return Evidence(
        case_id=case_id,
        outcome=None if row is None else row.outcome,
        node=None if row is None else row.node,
        reason=None if row is None else row.reason,
        calls=sum(run.calls for run in runs),
        cost_usd=None if row is None else row.cost_usd,
        delta=None if row is None else row.delta,
        configuration_version=None if row is None else row.configuration,
        configuration=None if row is None else row.body,
        runs=runs,
        reference=case.reference,
        reference_value=case.reference_value,
        where_to_act=case.where_to_act,
    )


def _node(run: Any) -> NodeEvidence:
    return NodeEvidence(
        node=run.node,
        variant=run.variant,
        draws=run.draws,
        distribution=run.distribution,
        unusable={int(number): raw for number, raw in run.unusable.items()},
        label=run.label,
        ended=run.ended,
        calls=run.calls,
        cost_usd=run.cost_usd,
        started_at=run.started_at,
        ended_at=run.ended_at,
    )
