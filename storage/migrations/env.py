"""Run by Alembic: migrates over the connection that `Database.prepare` opened, in its transaction."""

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import TypeDecorator

from storage.schema import metadata


def _plain_type(kind: str, item: Any, _context: AutogenContext) -> str | Literal[False]:
    """Migrations name the databases' own types: ours may change after the migration was written."""
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{item.impl!r}"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    render_item=_plain_type,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
