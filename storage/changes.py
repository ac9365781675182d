"""Whether anything was written to a database: an embedded one counts by itself, a server tells whoever listens."""

import sqlite3
from pathlib import Path

NEW_WORK = "second_look_work"
"""What PostgreSQL tells (`storage.schema.intake`): a case became ready, or something was done to a batch that may
let its cases go on.
"""


class Changes:
    """One connection of its own, for one thread. The counter moves with every commit of any other connection; of a
    database server nothing is known, and anything may have been written.
    """

    def __init__(self, file: Path | None) -> None:
        self._connection: sqlite3.Connection | None = None
        if file is not None:
            address = f"{file.absolute().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(address, uri=True, isolation_level=None)
        self._last = self._counter()

    def poll(self) -> bool:
        """Whether there was a commit since the last call."""
        before, self._last = self._last, self._counter()
        return self._connection is None or before != self._last

    def _counter(self) -> int:
        if self._connection is None:
            return 0
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()
