"""The metadata and the columns that every table is made of."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Dialect, ForeignKey, Integer, MetaData, String, TypeDecorator

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Moment(TypeDecorator[datetime]):
    """An aware UTC datetime, kept as whole microseconds so that both databases order and return it alike."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else round(value.timestamp() * 1_000_000)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value / 1_000_000, tz=UTC)


Id = String(32)
BigId = BigInteger().with_variant(Integer, "sqlite")


def case_id(**options: Any) -> Column[str]:
    """The column that names a case."""
    return Column("case_id", Id, ForeignKey("cases.id"), nullable=False, **options)
