"""Programs that hand texts in by themselves: their tokens, and which case came from which of their requests."""

from sqlalchemy import JSON, Column, ForeignKey, Index, Integer, String, Table, UniqueConstraint

from storage.schema.columns import Id, Moment, StorableText, case_id, metadata, partial_index

programs = Table(
    "programs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", StorableText, nullable=False),
    Column("token_sha256", String(64), nullable=False, unique=True),  # the token itself is shown once and not kept
    Column("scopes", JSON, nullable=False),
    Column("per_minute", Integer, nullable=False),
    Column("webhook", StorableText),  # where it is told that a case is settled
    Column("webhook_secret", String(64)),  # signs what it is told
    Column("created_by", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("revoked_at", Moment),
)

# One row a text of a program. ``tell_at`` is when to look whether it is settled and to tell so; None: told, or nobody
# is to be told.
program_texts = Table(
    "program_texts",
    metadata,
    case_id(primary_key=True),
    Column("program_id", Id, ForeignKey("programs.id"), nullable=False),
    Column("key", String(100), nullable=False),  # the idempotency key; a hash of it once the text is erased
    Column("content_sha256", String(64), nullable=False),
    Column("tell_at", Moment),
    Column("tries", Integer, nullable=False, default=0, server_default="0"),
    UniqueConstraint("program_id", "key"),
)
Index("ix_program_texts_program_id", program_texts.c.program_id, program_texts.c.case_id)
_untold = program_texts.c.tell_at.is_not(None)
partial_index("ix_program_texts_tell_at", program_texts.c.tell_at, where=_untold)
