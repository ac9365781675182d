"""A second pipeline on the same cases: what it would have made of them. It decides nothing, and no text stands here."""

from sqlalchemy import JSON, Column, Float, ForeignKey, Integer, String, Table

from storage.schema.columns import Id, Moment, StorableText, case_id, metadata

comparisons = Table(
    "comparisons",
    metadata,
    Column("id", Id, primary_key=True),
    Column("batch_id", Id, ForeignKey("batches.id"), nullable=False),  # whose settled cases are screened again
    Column("configuration", String(64), ForeignKey("configurations.version"), nullable=False),
    Column("name", StorableText, nullable=False),
    Column("most_cases", Integer, nullable=False),
    Column("created_by", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("ended_at", Moment),  # stopped by a person, or given up
    Column("ended_why", String(40)),
)

comparison_outcomes = Table(
    "comparison_outcomes",
    metadata,
    Column("comparison_id", Id, ForeignKey("comparisons.id"), primary_key=True),
    case_id(primary_key=True),
    Column("outcome", String(16), nullable=False),
    Column("node", String(32)),
    Column("reason", String(32), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("cost_usd", Float),
    Column("seconds", Float, nullable=False),
    Column("draws", JSON, nullable=False),  # {"node/variant": one code per draw in request order}
    Column("at", Moment, nullable=False),
)
