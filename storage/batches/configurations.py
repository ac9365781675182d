"""What a batch is screened with, kept once under the hash of all of it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, exists, select

from screening.pipeline.config import PipelineConfig, chain_bound, promises
from storage.database import Database, insert_into
from storage.schema import cases, configurations, node_runs

_ASKED = {"name", "prompt", "instructions", "role", "model", "temperature", "server", "protocol", "routes"}


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The pipeline, what the sampler says of itself, and how texts are received (limits, languages)."""

    pipeline: PipelineConfig
    sampler: Mapping[str, Any]
    texts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        """The whole configuration as JSON values."""
        return {
            "pipeline": self.pipeline.model_dump(mode="json"),
            "sampler": dict(self.sampler),
            "texts": dict(self.texts),
        }

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
        statement = insert_into(conn, configurations).on_conflict_do_nothing()
        conn.execute(statement, {"version": version, "body": configuration.body, "created_at": now})
    return version


UNREADABLE = "was written by another version of this program, and this one can't read it"


class UnreadableConfiguration(ValueError):
    """Another version of the program wrote it, with something that this one does not know or does not accept."""


def load_configuration(db: Database, version: str) -> Configuration:
    """The configuration of that version. KeyError when there is none. Raises UnreadableConfiguration."""
    with db.read() as conn:
        body = conn.execute(select(configurations.c.body).where(configurations.c.version == version)).scalar()
    if body is None:
        raise KeyError(version)
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
    read_off = "most_unknown" in body["sampler"] or any(node.protocol == "logprobs" for node in pipeline.nodes)
    elsewhere = [node.name for node in pipeline.nodes if node.server is not None]
    if read_off or (elsewhere and _was_read_off(conn, batch_id, elsewhere)):
        return None
    return chain_bound(pipeline)


def contract_words(body: Mapping[str, Any], bound: float | None) -> str | None:
    """The contracts that a bound of this configuration's pipeline rests on, in words; None where there is no bound."""
    return None if bound is None else promises(PipelineConfig.model_validate(body["pipeline"]))


def _was_read_off(conn: Connection, batch_id: str, nodes: Sequence[str]) -> bool:
    """Whether one of these agents, whose server's protocol only the settings say, has read off a text of the batch."""
    run = node_runs.c
    of_batch = select(cases.c.id).where(cases.c.id == run.case_id, cases.c.batch_id == batch_id)
    read_off = exists().where(run.node.in_(nodes), run.distribution.is_not(None), run.draws == "", of_batch.exists())
    return bool(conn.execute(select(read_off)).scalar_one())


class Configurations:
    """Configurations read once and kept: what a version stands for never changes. Threads may share it."""

    def __init__(self) -> None:
        self._kept: dict[str, Configuration] = {}

    def get(self, db: Database, version: str) -> Configuration:
        """The configuration of that version. KeyError when there is none."""
        if version not in self._kept:
            self._kept[version] = load_configuration(db, version)
        return self._kept[version]
