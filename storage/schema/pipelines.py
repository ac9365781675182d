"""A site's own pipelines: versions that are never overwritten, and which of them is in force."""

from sqlalchemy import JSON, Column, ForeignKeyConstraint, Integer, String, Table

from storage.schema.columns import BigId, Moment, StorableText, metadata

pipeline_versions = Table(
    "pipeline_versions",
    metadata,
    Column("name", String(60), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # from 1, by name
    Column("version", String(64), nullable=False),  # hash of the body, as every screening names it
    Column("body", JSON, nullable=False),
    Column("note", StorableText, nullable=False),
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

pipeline_activations = Table(
    "pipeline_activations",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("name", String(60), nullable=False),
    Column("number", Integer, nullable=False),
    Column("reason", StorableText, nullable=False),
    Column("comparison", JSON),  # the figures it was decided on; None: the reason says why there are none
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
    ForeignKeyConstraint(["name", "number"], ["pipeline_versions.name", "pipeline_versions.number"]),
)
