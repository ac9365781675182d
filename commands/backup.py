"""`backup` and `restore`: the whole database into one file, and back into an empty database of either kind."""

import argparse
from pathlib import Path

from jobs.port import system_clock
from screening.settings import Settings
from screening.words import count_of
from storage.database import Database, Fault
from storage.site.backup import Copied, back_up, restore


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add both subcommands' arguments."""
    backup = subcommands.add_parser("backup", help="the whole database into one file, while everybody works")
    backup.add_argument("--to", type=Path, metavar="FILE", help="a new file; default: dated, in the data directory")
    backup.set_defaults(run=run_backup)
    back = subcommands.add_parser("restore", help="a backup into an empty database, SQLite or PostgreSQL")
    back.add_argument("--from", type=Path, required=True, metavar="FILE", dest="source")
    back.set_defaults(run=run_restore)
    for parser in (backup, back):
        parser.add_argument("--database", metavar="URL", help="default: the site's own")


def run_backup(arguments: argparse.Namespace) -> int:
    """Write the backup and print what it holds."""
    settings, now = Settings(), system_clock()
    db = Database(arguments.database or settings.database_url)
    to = arguments.to or settings.data_directory / f"backup-{now:%Y%m%d-%H%M%S}.db"
    try:
        if not db.exists():
            raise ValueError("there is no such database")
        if (damage := db.damage()) is not None:
            raise ValueError(f"nothing was backed up: the database is {Fault.DAMAGED.value} ({damage})")
        print(f"{to}: {_summary(back_up(db, to, now))}")
    finally:
        db.close()
    return 0


def run_restore(arguments: argparse.Namespace) -> int:
    """Restore, and print what was checked."""
    db = Database(arguments.database or Settings().database_url)
    try:
        print(f"restored and checked: {_summary(restore(db, arguments.source, system_clock()))}")
    finally:
        db.close()
    return 0


def _summary(copied: Copied) -> str:
    rows = copied.rows
    held = (count_of(rows[table], word) for table, word in (("cases", "case"), ("ratings", "rating")))
    return (
        f"{count_of(sum(rows.values()), 'row')} in {len(rows)} tables, {', '.join(held)}, "
        f"audit log whole to event {copied.anchor.count:,}"
    )
