"""What researchers note about cases (tags and remarks), and how they look at lists of them."""

from sqlalchemy import Column, Index, String, Table

from storage.schema.columns import BigId, Moment, StorableText, case_id, metadata

case_tags = Table(
    "case_tags",
    metadata,
    case_id(primary_key=True),
    Column("tag", String(40), primary_key=True),
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)
Index("ix_case_tags_tag", case_tags.c.tag, case_tags.c.case_id)

case_remarks = Table(
    "case_remarks",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    case_id(index=True),
    Column("author", String(64), nullable=False),
    Column("remark", StorableText, nullable=False),
    Column("at", Moment, nullable=False),
)
