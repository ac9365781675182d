"""What a batch is screened with, kept once under the hash of all of it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select

from screening.engine.pipeline import PipelineConfig, version_of
from storage.database import Database, insert_into
from storage.schema import configurations


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The pipeline, what the sampler says of itself, and how texts are received (limits, languages)."""

    pipeline: PipelineConfig
    sampler: Mapping[str, Any]
    texts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "pipeline": self.pipeline.model_dump(mode="json"),
            "sampler": dict(self.sampler),
            "texts": dict(self.texts),
        }

    @property
    def version(self) -> str:
        """Hash of the body: two configurations that differ anywhere differ here."""
        canonical = json.dumps(self.body, sort_keys=True, allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def save_configuration(db: Database, configuration: Configuration, now: datetime) -> str:
    """Keep it, unless it is kept already, and return its version."""
    version = configuration.version
    with db.write() as conn:
        statement = insert_into(conn, configurations).on_conflict_do_nothing()
        conn.execute(statement, {"version": version, "body": configuration.body, "created_at": now})
    return version


def load_configuration(db: Database, version: str) -> Configuration:
    """The configuration of that version. KeyError when there is none."""
    with db.read() as conn:
        body = conn.execute(select(configurations.c.body).where(configurations.c.version == version)).scalar()
    if body is None:
        raise KeyError(version)
    return Configuration(
        pipeline=PipelineConfig.model_validate(body["pipeline"]), sampler=body["sampler"], texts=body["texts"]
    )


def scheduled_version(db: Database, version: str) -> str | None:
    """The version of this configuration's pipeline, where that has a δ schedule: only then its cases are counted."""
    with db.read() as conn:
        body = conn.execute(select(configurations.c.body).where(configurations.c.version == version)).scalar_one()
    nodes = body["pipeline"].get("nodes", ())
    return version_of(body["pipeline"]) if any("schedule" in node for node in nodes) else None


class Configurations:
    """Configurations read once and kept: what a version stands for never changes. Threads may share it."""

    def __init__(self) -> None:
        self._kept: dict[str, Configuration] = {}

    def get(self, db: Database, version: str) -> Configuration:
        """The configuration of that version. KeyError when there is none."""
        if version not in self._kept:
            self._kept[version] = load_configuration(db, version)
        return self._kept[version]
