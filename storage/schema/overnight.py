"""Message batches: what was handed in for which draw, recorded before it is sent, and what came back."""

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, String, Table, Text, UniqueConstraint

from storage.schema.columns import Id, Moment, StorableText, case_id, metadata

message_batches = Table(
    "message_batches",
    metadata,
    Column("id", Id, primary_key=True),  # begins the custom id of each of its requests
    Column("batch_id", Id, ForeignKey("batches.id"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("part", Integer, nullable=False),  # of a round too large for one
    Column("seed", String(32), nullable=False),  # from which random numbers and code words come
    Column("requests", Integer, nullable=False),
    Column("rounds_left", Integer),  # after this one, about; None: not known
    Column("service_id", Text),  # None: not known to have been sent
    Column("processed", Integer, nullable=False, default=0),
    Column("created_at", Moment, nullable=False),
    Column("ended_at", Moment),  # every request has its answer or its failure
    UniqueConstraint("batch_id", "round", "part"),
)

message_requests = Table(
    "message_requests",
    metadata,
    Column("custom_id", String(64), primary_key=True),
    Column("message_batch", Id, ForeignKey("message_batches.id"), nullable=False, index=True),
    case_id(index=True),
    Column("node", String(32), nullable=False),
    Column("variant", String(16), nullable=False),
    Column("number", Integer, nullable=False),  # of the draw, from 0
    Column("code", String(1)),  # the draw
    Column("raw", StorableText),  # of an answer that was no label
    Column("reply_id", StorableText),
    Column("error", String(40)),
    Column("input_tokens", BigInteger, nullable=False, default=0),
    Column("output_tokens", BigInteger, nullable=False, default=0),
    Column("cache_read_tokens", BigInteger, nullable=False, default=0),
    Column("cache_write_tokens", BigInteger, nullable=False, default=0),
)

# Other batches on the account that were looked into: not ours, or the same requests once more.
message_copies = Table(
    "message_copies",
    metadata,
    Column("service_id", String(100), primary_key=True),
    Column("batch_id", Id, ForeignKey("batches.id")),  # None: not ours
    Column("duplicates", Integer, nullable=False),
)
