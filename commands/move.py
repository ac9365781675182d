"""`move`: a site's embedded database into an empty PostgreSQL."""

import argparse

from jobs.local import AlreadyRunning, only_worker
from jobs.port import system_clock
from screening.settings import Settings
from screening.words import count_of
from storage.database import Database
from storage.site.moving import move


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("move", help="a site's embedded database into an empty PostgreSQL")
    parser.add_argument("--to", required=True, metavar="URL", help="postgresql://user:password@host/name")
    parser.add_argument("--database", metavar="URL", help="where from; default: the site's own")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Move, and print what was checked. ValueError where it is refused, as it is while a worker works."""
    source, target = Database(arguments.database or Settings().database_url), Database(arguments.to)
    try:
        if not source.exists():
            raise ValueError("there is no such database to move from")
        with only_worker(source.lock_file):
            source.prepare()
            moved = move(source, target, system_clock())
    except AlreadyRunning as running:
        raise ValueError("a worker works on this database: stop app and worker first") from running
    finally:
        source.close()
        target.close()
    print(
        f"moved and checked: {count_of(sum(moved.rows.values()), 'row')} in {len(moved.rows)} tables, "
        f"{count_of(moved.rows['cases'], 'case')}, audit log whole to event {moved.anchor.count:,}. "
        "Set DATABASE_URL for app and workers, and keep the data directory: its keys belong to this site."
    )
    return 0
