"""A second pipeline on the same cases: what it would have made of them. It decides nothing, and no text stands here."""

from sqlalchemy import JSON, BigInteger, Column, Float, ForeignKey, Index, Integer, String, Table

from storage.schema.columns import Id, Moment, StorableText, case_id, metadata

comparisons = Table(
    "comparisons",
    metadata,
    Column("id", Id, primary_key=True),
    Column("batch_id", Id, ForeignKey("batches.id"), nullable=False),  # whose decided cases are screened again
    Column("configuration", String(64), ForeignKey("configurations.version"), nullable=False),
    Column("name", StorableText, nullable=False),
    Column("most_cases", Integer, nullable=False),
    Column("max_calls", BigInteger),  # caps; None is no cap
    Column("max_cost_usd", Float),
    Column("lost_calls", BigInteger, nullable=False, default=0, server_default="0"),  # made, but of no outcome
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
    Column("tokens", BigInteger, nullable=False, default=0, server_default="0"),
    Column("cost_usd", Float),
    Column("seconds", Float, nullable=False),
    Column("draws", JSON, nullable=False),  # {"node/variant": one code per draw in request order}
    Column("at", Moment, nullable=False),
)
Index("ix_comparison_outcomes_at", comparison_outcomes.c.at)
