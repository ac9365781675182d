"""Where a batch stands for whoever looks at it: cheap to read, and another value whenever a figure may be another."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from screening.review.actors import Actor
from storage.database import Database
from storage.schema import (
    adjudications,
    batch_tallies,
    batches,
    cases,
    inbox_entries,
    ratings,
    readings_taken_back,
    second_reading_requests,
    unblindings,
)
from storage.schema.review import ENTERED_OTHERWISE

Standing = tuple[object, ...]
"""Equal while nothing was settled, read, accepted, opened again, taken back, erased or revealed to this person."""


def batch_now(db: Database, actor: Actor, batch_id: str) -> Standing:
    """What everything this person may be told of a batch follows from."""
    with db.read() as conn:
        return (
            *_settled_sums(conn, batch_tallies.c.batch_id == batch_id),
            *_readings(conn),
            _count_reveals(conn, actor),
        )


def configuration_now(db: Database, version: str) -> Standing:
    """What everything that is claimed of a configuration follows from."""
    of_it = select(batches.c.id).where(batches.c.configuration == version)
    with db.read() as conn:
        return (*_settled_sums(conn, batch_tallies.c.batch_id.in_(of_it)), *_readings(conn))


def readings_now(db: Database) -> Standing:
    """What everything that is said of readings alone follows from."""
    with db.read() as conn:
        return _readings(conn)


def revisions_now(db: Database) -> Standing:
    """What everything that is said of readings changed after the engine's view was served follows from."""
    with db.read() as conn:
        return (*_readings(conn), conn.execute(select(func.count()).select_from(unblindings)).scalar())


def count_readings(db: Database) -> int:
    """How many readings there are, with revisions: what is counted from them takes as long."""
    return int(db.value(select(func.count()).select_from(ratings)))


def _settled_sums(conn: Connection, chosen: ColumnElement[bool]) -> tuple[Any, ...]:
    tally = batch_tallies.c
    sums = [func.sum(column) for column in (tally.accepted, tally.safe, tally.unsafe, tally.human_review, tally.calls)]
    return tuple(conn.execute(select(*sums).where(chosen)).one())


def _readings(conn: Connection) -> tuple[Any, ...]:
    """How many there are of each kind: a case closes with a label, opens again by a request or what is taken back, and
    enters by an outcome or otherwise. Not the last moment of each: a clock that was set back makes none later.
    """
    kinds = (ratings, adjudications, readings_taken_back, second_reading_requests)
    counted = [select(func.count()).select_from(table) for table in kinds]
    counted.append(select(func.count()).select_from(cases).where(cases.c.erased_at.is_not(None)))
    counted.append(select(func.count()).select_from(inbox_entries).where(ENTERED_OTHERWISE))
    return tuple(conn.execute(one).scalar() for one in counted)


def _count_reveals(conn: Connection, actor: Actor) -> int | None:
    return conn.execute(
        select(func.count()).select_from(unblindings).where(unblindings.c.reviewer == actor.id)
    ).scalar()
