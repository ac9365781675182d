"""What an outcome moves beside its own row: its starts, its place among what waits, and the counts of its batch."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, Update

from storage import kinds
from storage.batches import tallies
from storage.batches.pending import END_STARTS, TAKE_OUT
from storage.kinds import Kind


def end_case(conn: Connection, case: Row[Any], more: tallies.Totals, moved: Mapping[Kind, int], now: datetime) -> None:
    """Close the case's starts, take it out of what waits, and add to its batch's sums and kinds; all in the caller's
    transaction.
    """
    values = {
        "one": case.id,
        "now": now,
        **tallies.values_to_add(case.batch_id, case.row, more),
        **kinds.values_to_add(case.batch_id, case.row, moved),
    }
    if conn.dialect.name == "postgresql":
        conn.execute(_at_once(len(moved)), values)
        return
    for statement in (
        END_STARTS,
        TAKE_OUT,
        tallies.add_statement(),
        kinds.add_statement(conn.dialect.name, len(moved)),
    ):
        conn.execute(statement, values)


@cache
def _at_once(count: int) -> Update:
    """All four in one round trip to the server, which is most of what each of them takes here. They are of four tables
    and none needs what another does.
    """
    others = (END_STARTS.cte("ended"), TAKE_OUT.cte("taken"), kinds.add_statement("postgresql", count).cte("counted"))
    return tallies.add_statement().add_cte(*others)
