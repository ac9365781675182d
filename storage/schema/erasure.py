"""What was erased, at whose word; what a person asked to erase and another has to confirm."""

from sqlalchemy import Column, Integer, String, Table

from storage.schema.columns import Id, Moment, StorableText, case_id, metadata

erasure_requests = Table(
    "erasure_requests",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", String(16), nullable=False),  # case | external_id | group
    Column("value", StorableText, nullable=False),  # a hash of it once it is done
    Column("reason", StorableText, nullable=False),
    Column("requested_by", String(64), nullable=False),
    Column("requested_at", Moment, nullable=False),
    Column("done_by", String(64)),
    Column("done_at", Moment),
    Column("withdrawn_at", Moment),
    Column("cases", Integer),  # how many were erased
)

erased_cases = Table(
    "erased_cases",
    metadata,
    case_id(primary_key=True),
    Column("request_id", Id),  # None: its time had come
    Column("at", Moment, nullable=False, index=True),
)
