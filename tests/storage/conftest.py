"""Every test of storage runs on both kinds of database."""

from tests.databases import (
    database_url,
    db,
    postgresql_db,
    postgresql_server,
    postgresql_url,
    sqlite_template,
    sqlite_url,
)

__all__ = [
    "database_url", "db", "postgresql_db", "postgresql_server", "postgresql_url", "sqlite_template", "sqlite_url",
]  # fmt: skip
