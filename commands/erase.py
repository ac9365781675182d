"""`erase`: what people wrote, by case, id or group; `retention`: what is past its time."""

import argparse
import json

from jobs.port import system_clock
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.database import Database
from storage.review.erasure import By, Erasure, Selection, confirm, erase, expire, look, would_go


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add both subcommands' arguments."""
    erasing = subcommands.add_parser("erase", help="erase texts, replies, notes and drafts; hashes and counts stay")
    which = erasing.add_mutually_exclusive_group(required=True)
    which.add_argument("--case", metavar="ID", help="one case, by its id here")
    which.add_argument("--external-id", metavar="ID", help="all cases with this id of the files")
    which.add_argument("--group", metavar="NAME", help="all cases of this group, for example one author")
    which.add_argument("--confirm", metavar="REQUEST", help="carry out what somebody else asked for")
    erasing.add_argument("--reason", default="", help="who asked for it, and when")
    erasing.add_argument("--dry-run", action="store_true", help="only say what would be erased")
    erasing.set_defaults(run=run_erase)
    keeping = subcommands.add_parser("retention", help="erase what is past the times that the site has set")
    keeping.add_argument("--dry-run", action="store_true", help="only say what would go")
    keeping.set_defaults(run=run_retention)
    for parser in (erasing, keeping):
        parser.add_argument("--database", metavar="URL", help="default: the site's own")


def run_erase(arguments: argparse.Namespace) -> int:
    """Erase, ask, confirm or look, and print what came of it as JSON; 3 where a second person has to confirm."""
    db = _open(arguments)
    try:
        if arguments.confirm:
            return _print(confirm(db, LOCAL_USER.at(system_clock()), arguments.confirm), done=True)
        which = _selection(arguments)
        if arguments.dry_run:
            return _print(look(db, LOCAL_USER, which), done=False)
        made = erase(db, LOCAL_USER.at(system_clock()), which, arguments.reason)
        return _print(made, done=made.waits_for is None)
    finally:
        db.close()


def run_retention(arguments: argparse.Namespace) -> int:
    """Erase what is past its time, or say what would go; as JSON, by kind."""
    db, now = _open(arguments), system_clock()
    try:
        gone = dict(would_go(db, LOCAL_USER.at(now))) if arguments.dry_run else _all(db)
    finally:
        db.close()
    print(json.dumps({"dry_run": arguments.dry_run, "gone": gone}))
    return 0


def _all(db: Database) -> dict[str, int]:
    total: dict[str, int] = {}
    while gone := expire(db, system_clock()):
        for name, count in gone.items():
            total[name] = total.get(name, 0) + count
    return total


def _selection(arguments: argparse.Namespace) -> Selection:
    named = {By.CASE: arguments.case, By.EXTERNAL_ID: arguments.external_id, By.GROUP: arguments.group}
    (chosen,) = [Selection(by=by, value=value) for by, value in named.items() if value is not None]
    return chosen


def _open(arguments: argparse.Namespace) -> Database:
    db = Database(arguments.database or Settings().database_url)
    if not db.exists():
        raise ValueError("there is no such database")
    db.prepare()
    return db


def _print(made: Erasure, *, done: bool) -> int:
    told = {"erased": done, "cases": made.cases, "rejected_rows": made.rejected, "waits_for": made.waits_for}
    backups = [moment.isoformat() for moment in made.backups]
    print(json.dumps(told | {"backups_that_may_still_hold_it": backups}))
    return 3 if made.waits_for else 0
