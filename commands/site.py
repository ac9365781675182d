"""What whoever runs a site does: `api`, `backup`, `restore`, `erase`, `retention`, `verify-audit`."""

import argparse
import ipaddress
import json
from pathlib import Path
from typing import Any

from jobs import logs
from jobs.audit_anchors import kept_anchors, read_anchors
from jobs.port import system_clock
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.words import count_of
from storage.audit_log import anchor
from storage.database import Database, Fault
from storage.review.erasure import By, Erasure, Selection, confirm, erase, expire, look, would_go
from storage.site.audit_check import verify
from storage.site.backup import Copied, back_up, restore

PORT = 8601


def add_api(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("api", help="serve /api/v1 to programs")
    parser.add_argument("--host", default="127.0.0.1", help="where it listens; tokens need TLS in front of it")
    parser.add_argument("--port", type=int, help=f"default: the one set (SECOND_LOOK_API_PORT), else {PORT}")
    parser.add_argument(
        "--behind-tls", action="store_true", help="listen to other machines: something in front of it speaks TLS"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes. ValueError for an address that others reach without TLS in front."""
    import uvicorn

    from api.app import create_app
    from api.connections import LARGEST_HEAD, ImpatientProtocol

    if not arguments.behind_tls and not _loopback(arguments.host):
        raise ValueError("tokens must not go over a line in the clear: listen on 127.0.0.1, or say --behind-tls")
    settings = Settings()
    logs.set_up(settings.log_format)
    port = arguments.port or settings.api_port or PORT
    db = Database(settings.database_url, repeatable=True)
    try:
        db.prepare()
        app = create_app(db, settings, system_clock)
        uvicorn.run(
            app,
            host=arguments.host,
            port=port,
            http=ImpatientProtocol,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            log_level="warning",
            access_log=False,
        )
    finally:
        db.close()
    return 0


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def add_backup(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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


def add_erase(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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


WHOLE, CHANGED, NOT_PROVEN = 0, 1, 3


def add_verify_audit(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("verify-audit", help="check that the audit log was not changed")
    parser.add_argument(
        "--anchor", type=Path, metavar="FILE", help="anchors kept outside; default: the site's own file"
    )
    parser.add_argument("--write-anchor", type=Path, metavar="FILE", help="keep the present end of a whole log here")
    parser.add_argument("--database", metavar="URL", help="default: the site's own")
    parser.set_defaults(run=run_verify_audit)


def run_verify_audit(arguments: argparse.Namespace) -> int:
    """Print what was found as JSON; 0 for a log proven whole, 1 for a changed one, 3 where nothing is proven."""
    settings = Settings()
    kept = read_anchors(arguments.anchor) if arguments.anchor else ()
    if not arguments.anchor and not arguments.database:
        kept = kept_anchors(settings)
    db = Database(arguments.database or settings.database_url)
    if not db.exists():
        raise ValueError("there is no such database")
    try:
        if (damage := db.damage()) is not None:
            raise ValueError(f"nothing was checked: the database is {Fault.DAMAGED.value} ({damage})")
        found, end = verify(db, kept), anchor(db)
    finally:
        db.close()
    verdict = "whole" if found.proven else "not proven" if found.ok else "changed"
    report = {"verdict": verdict, "ok": found.ok, "events": found.events, "problem": found.problem, "event": found.seq}
    more = {"doubt": found.doubt, "anchored_to": found.anchored, "anchors": len(kept), "last_hash": found.last_hash}
    print(json.dumps(report | more))
    if found.ok and arguments.write_anchor:
        arguments.write_anchor.write_text(end.as_json() + "\n", encoding="utf-8")
    return WHOLE if found.proven else NOT_PROVEN if found.ok else CHANGED


def add_to(subcommands: Any) -> None:
    """Add the subcommands of this file."""
    add_api(subcommands)
    add_backup(subcommands)
    add_erase(subcommands)
    add_verify_audit(subcommands)
