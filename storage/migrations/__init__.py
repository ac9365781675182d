"""The schema's history, and the way along it: run by `Database.prepare` where the tables are not the newest."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the tables to this revision, in the transaction of the connection."""
    config = Config()  # no file is read
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
