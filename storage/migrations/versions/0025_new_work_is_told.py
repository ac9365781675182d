"""PostgreSQL tells the workers that listen of new work: one with nothing to do need not ask"""

from alembic import op

revision = '0025'
down_revision = '0024'
branch_labels = None
depends_on = None

TOLD = """CREATE FUNCTION second_look_tell_work() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_notify('second_look_work', '');
  RETURN NULL;
END $$"""
TRIGGERS = {
    'tell_ready': ('INSERT OR UPDATE OF ready_at', 'pending_cases'),
    'tell_batch': ('INSERT', 'batch_events'),
}


def _postgresql() -> bool:
    return op.get_bind().dialect.name == 'postgresql'


def upgrade() -> None:
    if _postgresql():
        op.execute(TOLD)
        for name, (when, table) in TRIGGERS.items():
            op.execute(f'CREATE TRIGGER {name} AFTER {when} ON {table} FOR EACH STATEMENT EXECUTE FUNCTION second_look_tell_work()')


def downgrade() -> None:
    if _postgresql():
        for name, (_, table) in TRIGGERS.items():
            op.execute(f'DROP TRIGGER {name} ON {table}')
        op.execute('DROP FUNCTION second_look_tell_work()')
