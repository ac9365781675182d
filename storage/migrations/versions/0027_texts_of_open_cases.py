"""texts of open cases are found by an index in the database, which holds numbers for pieces of their words"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0027'
down_revision = '0026'
branch_labels = None
depends_on = None

QUEUED = 'INSERT INTO texts_to_index (case_id) SELECT {case} WHERE NOT EXISTS (SELECT 1 FROM texts_to_index WHERE case_id = {case})'
SQLITE = (
    # numbers only; they are found by whole words, so that no more is kept than which case has which
    "CREATE VIRTUAL TABLE open_text_parts USING fts5(parts, content='', detail=none, columnsize=0, tokenize='ascii')",
    f"""CREATE TRIGGER text_index_in AFTER INSERT ON inbox_entries WHEN NEW.closed_at IS NULL BEGIN
      {QUEUED.format(case='NEW.case_id')};
    END""",
    f"""CREATE TRIGGER text_index_changed AFTER UPDATE OF closed_at ON inbox_entries
    WHEN (OLD.closed_at IS NULL) != (NEW.closed_at IS NULL) BEGIN
      {QUEUED.format(case='NEW.case_id')};
    END""",
    f"""CREATE TRIGGER text_index_out AFTER DELETE ON inbox_entries WHEN OLD.closed_at IS NULL BEGIN
      {QUEUED.format(case='OLD.case_id')};
    END""",
)
CHANGED = """CREATE FUNCTION text_index_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO texts_to_index (case_id) VALUES (CASE TG_OP WHEN 'DELETE' THEN OLD.case_id ELSE NEW.case_id END)
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$"""
CALLS = 'FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION text_index_changed()'
POSTGRESQL = (
    CHANGED,
    'CREATE TRIGGER text_index_in AFTER INSERT ON inbox_entries ' + CALLS.format(when='NEW.closed_at IS NULL'),
    'CREATE TRIGGER text_index_changed AFTER UPDATE OF closed_at ON inbox_entries '
    + CALLS.format(when='(OLD.closed_at IS NULL) IS DISTINCT FROM (NEW.closed_at IS NULL)'),
    'CREATE TRIGGER text_index_out AFTER DELETE ON inbox_entries ' + CALLS.format(when='OLD.closed_at IS NULL'),
)


def _postgresql() -> bool:
    return op.get_bind().dialect.name == 'postgresql'


def upgrade() -> None:
    op.create_table('open_texts',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('case_id', sa.String(length=32), nullable=False),
    sa.Column('parts', sa.JSON().with_variant(postgresql.ARRAY(sa.Integer()), 'postgresql'), nullable=True),
    sa.ForeignKeyConstraint(['case_id'], ['cases.id'], name=op.f('fk_open_texts_case_id_cases')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_open_texts')),
    sa.UniqueConstraint('case_id', name=op.f('uq_open_texts_case_id'))
    )
    op.create_index('ix_open_texts_parts', 'open_texts', ['parts'], unique=False, postgresql_using='gin')
    op.create_table('texts_to_index',
    sa.Column('case_id', sa.String(length=32), nullable=False),
    sa.PrimaryKeyConstraint('case_id', name=op.f('pk_texts_to_index'))
    )
    for statement in POSTGRESQL if _postgresql() else SQLITE:
        op.execute(statement)
    op.execute('INSERT INTO texts_to_index (case_id) SELECT case_id FROM inbox_entries WHERE closed_at IS NULL')


def downgrade() -> None:
    for name in ('in', 'changed', 'out'):
        op.execute(f'DROP TRIGGER text_index_{name}' + (' ON inbox_entries' if _postgresql() else ''))
    op.execute('DROP FUNCTION text_index_changed()' if _postgresql() else 'DROP TABLE open_text_parts')
    op.drop_table('texts_to_index')
    op.drop_index('ix_open_texts_parts', table_name='open_texts')
    op.drop_table('open_texts')
