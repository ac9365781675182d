"""What a batch is screened with, kept once under the hash of all of it; what came of trying it on the probes, and an
administrator's written word to use it all the same. And a site's own pipelines: drafts become versions, one version is
in force, none is ever overwritten.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Row, exists, insert, or_, select, update

from screening.models.canaries import Probed
from screening.pipeline.config import PipelineConfig, chain_bound, require_decidable
from screening.pipeline.files import PipelineRefused
from screening.review.policy import Acting, Action, Actor, require
from storage.audit_log import append, serialise
from storage.database import Database, Source, Stale, insert_once, reading, record
from storage.schema import configurations, node_runs, pipeline_activations, pipeline_versions, preflights

_ASKED = {"name", "prompt", "instructions", "role", "model", "temperature", "server", "protocol", "routes"}


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The pipeline, what the sampler says of itself, and how texts are received (limits, languages)."""

    pipeline: PipelineConfig
    sampler: Mapping[str, Any]
    texts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        sampler, texts = dict(self.sampler), dict(self.texts)
        return {"pipeline": self.pipeline.model_dump(mode="json"), "sampler": sampler, "texts": texts}

    @cached_property
    def version(self) -> str:
        """The hash of the body: configurations that differ in anything have different versions."""
        return _name_body(self.body)

    @cached_property
    def preflight_key(self) -> str:
        """Names what is tried before a batch: models, servers, prompts and the ways between nodes, as 16 hex digits.
        How often a node is asked, and at which error levels, is another question: presets that ask alike are tried
        once.
        """
        nodes = [node.model_dump(mode="json", include=_ASKED) for node in self.pipeline.nodes]
        return _name_body({"sampler": dict(self.sampler), "nodes": nodes})


def _name_body(body: Mapping[str, Any]) -> str:
    """16 hex digits that name these JSON values."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


def save_configuration(db: Database, configuration: Configuration, now: datetime) -> str:
    """Store the configuration unless it is stored already, and return its version."""
    version = configuration.version
    with db.write() as conn:
        insert_once(conn, configurations, {"version": version, "body": configuration.body, "created_at": now})
    return version


UNREADABLE = "was written by another version of this program, and this one can't read it"


class UnreadableConfiguration(ValueError):
    """Another version of the program wrote it, with something that this one does not know or does not accept."""


@lru_cache(maxsize=64)
def load_configuration(db: Database, version: str) -> Configuration:
    """The configuration of that version, read once and kept: what a version stands for never changes. KeyError when
    there is none. Raises UnreadableConfiguration.
    """
    bodies = db.values(select(configurations.c.body).where(configurations.c.version == version))
    if not bodies:
        raise KeyError(version)
    body = bodies[0]
    try:
        pipeline = PipelineConfig.model_validate(body["pipeline"])
    except ValidationError:
        raise UnreadableConfiguration(f"configuration {version} {UNREADABLE}") from None
    return Configuration(pipeline=pipeline, sampler=body["sampler"], texts=body["texts"])


def pipeline_bound(conn: Connection, batch_id: str, body: Mapping[str, Any]) -> float | None:
    """Bound on a wrong label anywhere on the way through this configuration's pipeline, for a batch screened with it.
    None where an agent has no bound or answers are read off from probabilities, and where this program cannot read the
    configuration.
    """
    try:
        pipeline = PipelineConfig.model_validate(body.get("pipeline"))
    except ValidationError:
        return None
    if "most_unknown" in body["sampler"] or any(node.protocol == "logprobs" for node in pipeline.nodes):
        return None
    run = node_runs.c
    elsewhere = [node.name for node in pipeline.nodes if node.server is not None]  # only the settings say its protocol
    read_off = run.batch_id == batch_id, run.node.in_(elsewhere), run.distribution.is_not(None), run.draws == ""
    if elsewhere and conn.execute(select(exists().where(*read_off))).scalar_one():
        return None
    return chain_bound(pipeline)


LEAST_REASON = 20
"""Characters of a reason: it is read by whoever asks later why this model was allowed."""


class NothingToOverride(ValueError):
    """The latest try of this configuration passed, is overridden already, or there was none."""


Preflight = Row[Any]
"""The latest try of a configuration; ``overridden_by`` and ``reason`` where an administrator allowed it all the same.
``allows``: a batch may be screened with it.
"""
_ALLOWS = or_(preflights.c.passed == 1, preflights.c.overridden_by.is_not(None)).label("allows")


def latest_preflight(db: Source, configuration: str) -> Preflight | None:
    """The latest try of what `Configuration.preflight_key` names; None where there was none."""
    tried = select(preflights, _ALLOWS).where(preflights.c.configuration == configuration)
    with reading(db) as conn:
        return conn.execute(tried.order_by(preflights.c.id.desc()).limit(1)).first()


def keep_preflight(db: Database, configuration: str, found: Probed, now: datetime) -> None:
    with db.write() as conn:
        row = {"configuration": configuration, "passed": int(found.passed), "message": found.message, "at": now}
        row |= {"ends": {name: list(end) for name, end in found.ends.items()}, "other_names": list(found.other_names)}
        conn.execute(insert(preflights), row)


def override_preflight(db: Database, by: Acting, configuration: str, reason: str) -> None:
    """Allow in writing what failed its latest try. NothingToOverride where none did, ValueError for a short reason."""
    require(by.actor, Action.CHANGE_SETTINGS)
    reason = reason.strip()
    if len(reason) < LEAST_REASON:
        raise ValueError(f"say in at least {LEAST_REASON} characters why this model may be asked all the same")
    with db.write() as conn:
        serialise(conn)
        found = latest_preflight(conn, configuration)
        if found is None or found.allows:
            raise NothingToOverride("there is no failed try of this configuration to override")
        allowed = {"overridden_by": by.id, "reason": reason, "overridden_at": by.now}
        conn.execute(update(preflights).where(preflights.c.id == found.id).values(allowed))
        append(conn, by, "preflight_overridden", configuration, {"preflight": found.id})


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


class UnknownPipeline(KeyError):
    """There is no such pipeline, or no such version of it."""


class UnreadablePipeline(PipelineRefused):
    """Another version of the program wrote it, with something that this one does not know or does not accept."""


class ReasonMissing(ValueError):
    """A version is put in force with a comparison, or with a written reason."""


def keep_version(db: Database, by: Acting, pipeline: PipelineConfig, note: str, based_on: int) -> PipelineVersion:
    """The next version of its name; the newest itself when nothing differs from it. ``based_on`` is the newest number
    that the writer saw, 0 for none. Raises Stale, and UndecidableError for one that could never decide.
    """
    require(by.actor, Action.DRAFT_PIPELINE)
    require_decidable(pipeline)
    with db.write() as conn:
        serialise(conn)
        newest = _stored(conn, pipeline.name)
        if newest is not None and (same := _readable(newest)) is not None and same.pipeline == pipeline:
            return same
        number = 1 if newest is None else int(newest.number) + 1
        if based_on != number - 1:
            raise Stale(f"version {number - 1} of {pipeline.name} was saved in the meantime")
        row: dict[str, Any] = {"name": pipeline.name, "version": pipeline.version, "number": number}
        row |= {"body": pipeline.model_dump(mode="json"), "note": note.strip(), "by": by.id, "at": by.now}
        made = conn.execute(insert(pipeline_versions).values(row).returning(pipeline_versions)).one()
        subject = f"{pipeline.name}/{number}"
        append(conn, by, "pipeline_saved", subject, {"version": pipeline.version}, pipeline_versions)
    return record(PipelineVersion, made, pipeline=pipeline)


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
        found = _stored(conn, name, number)
    if found is None:
        raise UnknownPipeline(name)
    return _version(found)


def activate(
    db: Database, by: Acting, name: str, number: int, reason: str, comparison: Mapping[str, Any] | None = None
) -> Row[Any]:
    """Put a version in force for what is handed in from now on; again changes nothing. Raises UnknownPipeline, and
    ReasonMissing without a comparison and without a reason.
    """
    require(by.actor, Action.ACTIVATE_PIPELINE)
    if not reason.strip() and comparison is None:
        raise ReasonMissing("say why, or compare it with the active version first")
    with db.write() as conn:
        serialise(conn)
        if _stored(conn, name, number) is None:
            raise UnknownPipeline(name)
        before = _last_activation(conn)
        if before is not None and (before.name, before.number) == (name, number):
            return before
        row = {"name": name, "number": number, "reason": reason.strip(), "comparison": comparison, "at": by.now}
        made = insert(pipeline_activations).values(**row, by=by.id).returning(pipeline_activations)
        activation = conn.execute(made).one()
        subject, told = f"{name}/{number}", {"compared": comparison is not None}
        append(conn, by, "pipeline_activated", subject, told, pipeline_activations)
    return activation


def active_version(db: Database) -> PipelineVersion | None:
    """The site's own pipeline that is in force; None while the site uses those that come with the program. Raises
    UnreadablePipeline: nothing is screened with another one in its place.
    """
    with db.read() as conn:
        last = _last_activation(conn)
        row = None if last is None else _stored(conn, last.name, last.number)
    return None if row is None else _version(row)


def list_activations(db: Database, actor: Actor) -> Sequence[Row[Any]]:
    """Which versions were in force, the newest first: when each came into force (``at``), by whom and why, and the
    figures of the ``comparison`` it was decided on, if any. Raises Forbidden.
    """
    require(actor, Action.VIEW_SETTINGS)
    return db.rows(select(pipeline_activations).order_by(pipeline_activations.c.id.desc()))


def _last_activation(conn: Connection) -> Row[Any] | None:
    return conn.execute(select(pipeline_activations).order_by(pipeline_activations.c.id.desc()).limit(1)).first()


def _stored(conn: Connection, name: str, number: int | None = None) -> Row[Any] | None:
    """That version, or the newest of the name."""
    wanted = select(pipeline_versions).where(pipeline_versions.c.name == name)
    if number is not None:
        wanted = wanted.where(pipeline_versions.c.number == number)
    return conn.execute(wanted.order_by(pipeline_versions.c.number.desc()).limit(1)).first()


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
