"""Tests of the jobs run on both kinds of database, with real worker processes and a real stub of the service."""

from tests.databases import (
    database_url,
    db,
    postgresql_db,
    postgresql_server,
    postgresql_url,
    sqlite_template,
    sqlite_url,
)
from tests.jobs.processes import apps, stub, workers

__all__ = [
    "apps", "database_url", "db", "postgresql_db", "postgresql_server", "postgresql_url", "sqlite_template",
    "sqlite_url", "stub", "workers",
]  # fmt: skip
