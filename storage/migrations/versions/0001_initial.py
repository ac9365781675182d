"""All tables, as `storage.schema` has them. A change after the first release is a revision of its own."""

from alembic import op

from storage.schema import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, indexes and triggers."""
    metadata.create_all(op.get_bind())


def downgrade() -> None:
    """Drop them."""
    metadata.drop_all(op.get_bind())
