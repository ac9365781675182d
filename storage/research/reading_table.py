"""Readings as tables: who said what before seeing the engine's view, and who changed their mind after it.

Only closed cases: an open one may yet be read by whoever looks at the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from screening.review.pseudonyms import pseudonym
from screening.review.triage import Tier, second_reading_coin
from storage.audit_log import append
from storage.database import Database
from storage.schema import adjudications, cases, inbox_entries, ratings, screenings, unblindings
from storage.schema.review import LATER_READING
from storage.settings_store import second_reading_rates


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingTable:
    """``external_ids`` are those of the file. ``labels``, ``certainties``, ``ideation`` and ``turns`` (first, second or
    third reading of the case) have a row per case and a column per reader, None where a reader gave no blind first
    reading (or did not record a level).

    ``at_random`` tells of each case whether its coin chose it to be read twice, whatever its first reader would say. Of
    the others only those were read twice of which something said was doubted, or a second opinion was asked for.
    """

    case_ids: tuple[str, ...]
    external_ids: tuple[str, ...]
    readers: tuple[str, ...]
    at_random: tuple[bool, ...]
    labels: tuple[tuple[str | None, ...], ...]
    certainties: tuple[tuple[int | None, ...], ...]
    ideation: tuple[tuple[int | None, ...], ...]
    turns: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One reader's blind label of a case when the engine's view was served to them, and their last one, beside what it
    can be measured against.

    ``adjudicated`` is the case's accepted label, ``reference`` the data set's; None where there is none.
    """

    case_id: str
    reader: str
    first: str
    last: str
    outcome: str | None
    adjudicated: str | None
    reference: str | None


def reading_table(db: Database, actor: Actor, key: str, batch_id: str | None = None) -> ReadingTable:
    """Every blind first reading of closed cases, of one batch or of all; readers under pseudonyms."""
    require(actor, Action.VIEW_AGREEMENT)
    query = select(ratings, cases.c.batch_id, cases.c.external_id)
    query = query.where(ratings.c.version == 1, ratings.c.blind.is_(True))
    with db.read() as conn:
        rows = conn.execute(_restrict_to_closed(query, batch_id).order_by(ratings.c.case_id)).all()
        chosen = _chosen_by_coin(conn, rows)
    readers = tuple(sorted({pseudonym(key, row.reviewer) for row in rows}))
    external_ids = {row.case_id: row.external_id for row in rows}
    case_ids = tuple(external_ids)
    found = {(row.case_id, pseudonym(key, row.reviewer)): row for row in rows}
    grid = [[found.get((case_id, reader)) for reader in readers] for case_id in case_ids]
    return ReadingTable(
        case_ids=case_ids,
        external_ids=tuple(external_ids.values()),
        readers=readers,
        at_random=tuple(case_id in chosen for case_id in case_ids),
        labels=tuple(tuple(None if row is None else row.label for row in line) for line in grid),
        certainties=tuple(tuple(None if row is None else row.certainty for row in line) for line in grid),
        ideation=tuple(tuple(None if row is None else row.fields["ideation"] for row in line) for line in grid),
        turns=tuple(tuple(None if row is None else row.reading for row in line) for line in grid),
    )


def _chosen_by_coin(conn: Connection, rows: Sequence[Any]) -> set[str]:
    """The cases whose coin lay below the share in force when their first reading was given, of these blind readings."""
    rate_at = second_reading_rates(conn)
    return {
        row.case_id for row in rows if row.reading == "first" and second_reading_coin(row.case_id) < rate_at(row.at)
    }


def open_disagreements(db: Database, actor: Actor, batch_id: str | None = None) -> int:
    """How many cases read twice at random whose readers disagree wait for a third look: they are not in the table yet,
    and belong there.
    """
    require(actor, Action.VIEW_AGREEMENT)
    entry = inbox_entries.c
    query = select(ratings.c.case_id, ratings.c.reading, ratings.c.at).join(cases, cases.c.id == ratings.c.case_id)
    query = query.join(inbox_entries, entry.case_id == ratings.c.case_id)
    query = query.where(entry.closed_at.is_(None), LATER_READING, entry.reading == "third")
    query = query.where(ratings.c.version == 1, ratings.c.blind.is_(True))
    with db.read() as conn:
        one = query if batch_id is None else query.where(cases.c.batch_id == batch_id)
        return len(_chosen_by_coin(conn, conn.execute(one).all()))


def random_double_reviews(db: Database, actor: Actor) -> tuple[bool, ...]:
    """Of each text that its coin chose to be reviewed twice, whatever was said of it first, and that one or both of its
    first two blinded reviewers called unsafe: whether both did. In the order of the second reviews; disputed ones that
    still wait for a third are among them, as without them reviewers would look better than they are. Raises Forbidden.
    """
    require(actor, Action.VIEW_RESULTS)
    given = select(ratings).where(ratings.c.version == 1, ratings.c.blind.is_(True), ratings.c.reading != "third")
    with db.read() as conn:
        rows = conn.execute(given.order_by(ratings.c.at, ratings.c.id)).all()
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


def export_readings(db: Database, by: Acting, key: str, batch_id: str | None = None) -> ReadingTable:
    """The same table to take away: the export is in the audit log before it is read."""
    require(by.actor, Action.EXPORT)
    with db.write() as conn:
        append(conn, by, "exported", batch_id, {"kind": "readings"})
    return reading_table(db, by.actor, key, batch_id)


def switches(db: Database, actor: Actor, key: str, batch_id: str | None = None) -> tuple[Switch, ...]:
    """A row per reader and closed case with a blind first reading after which the engine's view was served to them,
    whether or not they changed their mind then.
    """
    require(actor, Action.VIEW_AGREEMENT)
    served = and_(unblindings.c.case_id == ratings.c.case_id, unblindings.c.reviewer == ratings.c.reviewer)
    query = select(ratings, cases.c.reference, screenings.c.outcome, unblindings.c.at.label("served_at"))
    query = query.join(unblindings, served).outerjoin(screenings, screenings.c.case_id == ratings.c.case_id)
    accepted = select(adjudications.c.case_id, adjudications.c.label).order_by(adjudications.c.version)
    with db.read() as conn:
        rows = conn.execute(_restrict_to_closed(query, batch_id).order_by(ratings.c.case_id, ratings.c.version)).all()
        labels = {row.case_id: row.label for row in conn.execute(accepted)}
    readings: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        readings.setdefault((row.case_id, row.reviewer), []).append(row)
    return tuple(
        Switch(
            case_id=case_id,
            reader=pseudonym(key, reviewer),
            first=[row for row in versions if row.version == 1 or row.at < row.served_at][-1].label,
            last=versions[-1].label,
            outcome=versions[0].outcome,
            adjudicated=labels.get(case_id),
            reference=versions[0].reference,
        )
        for (case_id, reviewer), versions in readings.items()
        if versions[0].blind
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TierReadings:
    """Blind first readings that were given while this tier was shown, by label; ``tier`` None: it was not kept yet."""

    tier: Tier | None
    labels: Mapping[str, int]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.labels.values())


def readings_by_tier(db: Database, actor: Actor, batch_id: str | None = None) -> tuple[TierReadings, ...]:
    """What readers said by the tier they saw, the most urgent first: a tier may tell a reader what to expect."""
    require(actor, Action.VIEW_AGREEMENT)
    columns = ratings.c.tier, ratings.c.label, func.count().label("n")
    query = select(*columns).select_from(ratings).where(ratings.c.version == 1, ratings.c.blind.is_(True))
    found: dict[int | None, dict[str, int]] = {}
    for row in db.rows(_restrict_to_closed(query, batch_id).group_by(ratings.c.tier, ratings.c.label)):
        found.setdefault(row.tier, {})[row.label] = row.n
    known = sorted(tier for tier in found if tier is not None)
    return tuple(
        TierReadings(tier=None if tier is None else Tier(tier), labels=found[tier])
        for tier in (*known, *({None} & found.keys()))
    )


def _restrict_to_closed(query: Select[Any], batch_id: str | None) -> Select[Any]:
    joined = query.join(cases, cases.c.id == ratings.c.case_id).join(
        inbox_entries, inbox_entries.c.case_id == ratings.c.case_id
    )
    closed = joined.where(inbox_entries.c.closed_at.is_not(None))
    return closed if batch_id is None else closed.where(cases.c.batch_id == batch_id)
