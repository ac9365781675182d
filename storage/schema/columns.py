"""The metadata and the columns that every table is made of; the one clock of a site, and ids that sort by time."""

import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    false,
    func,
    select,
)
from sqlalchemy.schema import SchemaItem

ERASED: Final = "[erased]"
"""What stands where a text or an id stood."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

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


class StorableText(TypeDecorator[str]):
    """Text that both databases can hold: NUL and surrogates become U+FFFD on the way in.

    A text that must be kept exactly has its original beside it, escaped; this is what keeps names, notes and ids
    from outside from ever reaching a driver that would raise.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value if value is None or (value.isascii() and "\x00" not in value) else _UNSTORABLE.sub("\ufffd", value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else str(value)


def erased_as(value: Any = ERASED) -> dict[str, Any]:
    """``info`` of a column that holds what people or models wrote: what stands there once its case was erased, a value
    or what a function leaves of it; nothing stays nothing.
    """
    return {"erase": value}


ERASED_WHOLE: Final = {"erase": "rows"}
"""``info`` of a table whose rows are deleted when their case is erased."""

Id = String(32)
BigId = BigInteger().with_variant(Integer, "sqlite")


def table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *parts, **options)


def case_id(**options: Any) -> Column[str]:
    return Column("case_id", Id, ForeignKey("cases.id"), nullable=False, **options)


def flag(name: str) -> Column[bool]:
    """A column that says no until something says yes."""
    return Column(name, Boolean, nullable=False, default=False, server_default=false())


def index(of: Table, name: str, *columns: str, where: ColumnElement[bool] | None = None, **options: Any) -> Index:
    """An index of these columns, and of the rows alone of which ``where`` is true."""
    return Index(name, *(of.c[each] for each in columns), sqlite_where=where, postgresql_where=where, **options)


def shared_now(conn: Connection, now: datetime) -> datetime:
    """PostgreSQL's own time, so that machines need not agree on theirs; with SQLite, on one machine, the caller's
    ``now``.
    """
    if conn.dialect.name != "postgresql":
        return now
    return conn.execute(_NOW).scalar_one().astimezone(UTC)


_NOW = select(func.clock_timestamp(type_=DateTime(timezone=True)))


_TIME_BYTES, _RANDOM_BYTES = 6, 10
_SEQUENCE_DIGITS = 5


def new_id(now: datetime, entropy: Callable[[int], bytes] = secrets.token_bytes, sequence: int | None = None) -> str:
    """32 hexadecimal characters: 48 bits of milliseconds since 1970, then 80 random bits.

    With a ``sequence`` (its lowest 20 bits count) 20 of those say which of many made at one moment it is, so that a
    million rows enter an index at its end and not all over it; 60 random bits remain.

    >>> from datetime import UTC
    >>> new_id(datetime(2026, 1, 1, tzinfo=UTC), entropy=bytes)
    '019b76daa80000000000000000000000'
    >>> new_id(datetime(2026, 1, 1, tzinfo=UTC), entropy=bytes, sequence=0x123)
    '019b76daa80000123000000000000000'
    """
    milliseconds = round(now.timestamp() * 1_000)
    digits = (milliseconds.to_bytes(_TIME_BYTES, "big") + entropy(_RANDOM_BYTES)).hex()
    if sequence is None:
        return digits
    start = 2 * _TIME_BYTES
    return f"{digits[:start]}{sequence % 16**_SEQUENCE_DIGITS:05x}{digits[start + _SEQUENCE_DIGITS :]}"
