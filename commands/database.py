"""The database that a command works on: the one it is told, else the site's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from screening.settings import Settings
from storage.database import Database, Fault

Url = Annotated[str | None, "default: the site's own (DATABASE_URL)", "URL"]


@contextmanager
def opened(url: str | None, *, must_exist: bool = False) -> Iterator[Database]:
    """The database, its tables up to date. ValueError where it must exist and does not."""
    with found(url, must_exist=must_exist) as db:
        db.prepare()
        yield db


@contextmanager
def undamaged(url: str | None, done: str) -> Iterator[Database]:
    """The database as it is, once all of it was read. ValueError that nothing was ``done`` where it is damaged."""
    with found(url, must_exist=True) as db:
        if (damage := db.damage()) is not None:
            raise ValueError(f"nothing was {done}: the database is {Fault.DAMAGED.value} ({damage})")
        yield db


@contextmanager
def found(url: str | None, *, must_exist: bool = False, repeatable: bool = False) -> Iterator[Database]:
    """The database as it is, closed afterwards."""
    db = Database(url or Settings().database_url, repeatable=repeatable)
    try:
        if must_exist and not db.exists():
            raise ValueError("there is no such database")
        yield db
    finally:
        db.close()
