"""The schema's history, and the way along it: run by `Database.prepare` where the tables are not the newest."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the tables to this revision, in the transaction of the connection."""
    command.upgrade(migration_config(connection), revision)


def migration_config(connection: Connection) -> Config:
    """Alembic's settings for an open connection; no file is read."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
