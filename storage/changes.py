"""Whether anything was written to an embedded database since it was last asked, by its own counter."""

import sqlite3
from pathlib import Path


class Changes:
    """One connection of its own, for one thread. The counter moves with every commit of any other connection."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        self._last = self._counter()

    def seen(self) -> bool:
        """Whether there was a commit since the last call."""
        before, self._last = self._last, self._counter()
        return before != self._last

    def _counter(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()
