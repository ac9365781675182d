"""A site's own pipelines: drafts become versions, one version is in force, none is ever overwritten."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Row, func, insert, select

from screening.pipeline.config import PipelineConfig, require_decidable
from screening.pipeline.files import PipelineRefused
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from storage.audit_log import append, serialise
from storage.batches.configurations import UNREADABLE
from storage.database import Database, record
from storage.schema import pipeline_activations, pipeline_versions


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineVersion:
    """One version of one pipeline; ``number`` counts from 1 within its name."""

    pipeline: PipelineConfig
    number: int
    note: str
    by: str
    at: datetime

    @property
    def title(self) -> str:
        """As people call it: "recommended v3"."""
        return f"{self.pipeline.name} v{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """When a version came into force, and why; ``comparison`` are the figures it was decided on, if any."""

    name: str
    number: int
    reason: str
    comparison: Mapping[str, Any] | None
    by: str
    at: datetime


class StalePipeline(Exception):
    """Somebody else saved a version in between: look at theirs first."""


class UnknownPipeline(KeyError):
    """There is no such pipeline, or no such version of it."""


class UnreadablePipeline(PipelineRefused):
    """Another version of the program wrote it, with something that this one does not know or does not accept."""


class ReasonMissing(ValueError):
    """A version is put in force with a comparison, or with a written reason."""


def keep_version(db: Database, by: Acting, pipeline: PipelineConfig, note: str, based_on: int) -> PipelineVersion:
    """Save as the next version of its name; the newest version itself when nothing differs from it.

    ``based_on`` is the number of the newest version that the writer saw, 0 for none. Raises Forbidden, StalePipeline,
    and UndecidableError for a pipeline that could never decide.
    """
    require(by.actor, Action.DRAFT_PIPELINE)
    require_decidable(pipeline)
    with db.write() as conn:
        serialise(conn)
        newest = _newest(conn, pipeline.name)
        if newest is not None and (same := _readable(newest)) is not None and same.pipeline == pipeline:
            return same
        number = 1 if newest is None else int(newest.number) + 1
        if based_on != number - 1:
            raise StalePipeline(f"version {number - 1} of {pipeline.name} was saved in the meantime")
        made = PipelineVersion(pipeline=pipeline, number=number, note=note.strip(), by=by.id, at=by.now)
        conn.execute(insert(pipeline_versions).values(_row(made)))
        append(
            conn, by, "pipeline_saved", f"{pipeline.name}/{number}", {"version": pipeline.version}, pipeline_versions
        )
    return made


def list_versions(db: Database, actor: Actor, name: str | None = None) -> tuple[PipelineVersion, ...]:
    """All versions that this program can read, of one name or of all; by name, the newest first. Raises Forbidden."""
    require(actor, Action.VIEW_SETTINGS)
    wanted = select(pipeline_versions).order_by(pipeline_versions.c.name, pipeline_versions.c.number.desc())
    if name is not None:
        wanted = wanted.where(pipeline_versions.c.name == name)
    return tuple(one for row in db.rows(wanted) if (one := _readable(row)) is not None)


def get_version(db: Database, name: str, number: int | None = None) -> PipelineVersion:
    """That version, or the newest of the name. Raises UnknownPipeline, UnreadablePipeline."""
    with db.read() as conn:
        found = _newest(conn, name) if number is None else _version_of(conn, name, number)
    if found is None:
        raise UnknownPipeline(name)
    return _version(found)


def activate(
    db: Database, by: Acting, name: str, number: int, reason: str, comparison: Mapping[str, Any] | None = None
) -> Activation:
    """Put a version in force for what is handed in from now on; cases already handed in end with theirs.

    Putting the version in force that is so already changes nothing.
    Raises Forbidden, UnknownPipeline, and ReasonMissing without a comparison and without a reason.
    """
    require(by.actor, Action.ACTIVATE_PIPELINE)
    if not reason.strip() and comparison is None:
        raise ReasonMissing("say why, or compare it with the active version first")
    with db.write() as conn:
        serialise(conn)
        if _version_of(conn, name, number) is None:
            raise UnknownPipeline(name)
        before = _last_activation(conn)
        if before is not None and (before.name, before.number) == (name, number):
            return before
        row = {"name": name, "number": number, "reason": reason.strip(), "comparison": comparison, "at": by.now}
        conn.execute(insert(pipeline_activations).values(**row, by=by.id))
        subject, told = f"{name}/{number}", {"compared": comparison is not None}
        append(conn, by, "pipeline_activated", subject, told, pipeline_activations)
    return Activation(name=name, number=number, reason=reason.strip(), comparison=comparison, by=by.id, at=by.now)


def active_version(db: Database) -> PipelineVersion | None:
    """The site's own pipeline that is in force; None while the site uses those that come with the program. Raises
    UnreadablePipeline: nothing is screened with another one in its place.
    """
    with db.read() as conn:
        last = _last_activation(conn)
        row = None if last is None else _version_of(conn, last.name, last.number)
    return None if row is None else _version(row)


def list_activations(db: Database, actor: Actor) -> tuple[Activation, ...]:
    """Which versions were in force, the newest first. Raises Forbidden."""
    require(actor, Action.VIEW_SETTINGS)
    with db.read() as conn:
        rows = conn.execute(select(pipeline_activations).order_by(pipeline_activations.c.id.desc()))
        return tuple(_activation(row) for row in rows)


def _last_activation(conn: Connection) -> Activation | None:
    last = select(func.max(pipeline_activations.c.id)).scalar_subquery()
    row = conn.execute(select(pipeline_activations).where(pipeline_activations.c.id == last)).first()
    return None if row is None else _activation(row)


def _newest(conn: Connection, name: str) -> Row[Any] | None:
    wanted = select(pipeline_versions).where(pipeline_versions.c.name == name)
    return conn.execute(wanted.order_by(pipeline_versions.c.number.desc()).limit(1)).first()


def _version_of(conn: Connection, name: str, number: int) -> Row[Any] | None:
    wanted = select(pipeline_versions).where(pipeline_versions.c.name == name, pipeline_versions.c.number == number)
    return conn.execute(wanted).first()


def _row(made: PipelineVersion) -> dict[str, Any]:
    return {
        "name": made.pipeline.name,
        "number": made.number,
        "version": made.pipeline.version,
        "body": made.pipeline.model_dump(mode="json"),
        "note": made.note,
        "by": made.by,
        "at": made.at,
    }


def _version(row: Any) -> PipelineVersion:
    try:
        pipeline = PipelineConfig.model_validate(row.body)
    except ValidationError:
        raise UnreadablePipeline(f"{row.name} v{row.number} {UNREADABLE}") from None
    return record(PipelineVersion, row, pipeline=pipeline)


def _readable(row: Any) -> PipelineVersion | None:
    try:
        return _version(row)
    except UnreadablePipeline:
        return None


def _activation(row: Any) -> Activation:
    return record(Activation, row)
