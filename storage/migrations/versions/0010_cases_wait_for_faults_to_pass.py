"""Cases that met a fault which passes wait a while and are taken up again by themselves."""

import sqlalchemy as sa
from alembic import op

from storage.schema.columns import Moment

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pending_cases", sa.Column("not_before", Moment, nullable=True))


def downgrade() -> None:
    op.drop_column("pending_cases", "not_before")
