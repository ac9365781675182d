"""Where each example of a machine has its site."""

from contextlib import nullcontext
from pathlib import Path
from uuid import uuid4

import pytest

from tests.databases import copy_of, postgresql_database
from tests.storage.machine import Sites


@pytest.fixture(
    params=[pytest.param("sqlite", marks=pytest.mark.slow), pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def sites(request: pytest.FixtureRequest, tmp_path: Path) -> Sites:
    """Gives the URL of one more database, migrated and empty."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql_server")
        return lambda: postgresql_database(server)
    template = request.getfixturevalue("sqlite_template")
    return lambda: nullcontext(copy_of(template, tmp_path / f"{uuid4().hex}.db"))
