"""`verify-audit`: recompute the chain of the audit log, and compare it with an anchor kept outside."""

import argparse
import json
from pathlib import Path

from screening.settings import Settings
from storage.database import Database
from storage.site.audit_log import Anchor, anchor, verify


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("verify-audit", help="check that the audit log was not changed")
    parser.add_argument("--anchor", type=Path, metavar="FILE", help="an anchor written earlier: finds a cut-off end")
    parser.add_argument("--write-anchor", type=Path, metavar="FILE", help="keep the present end of a whole log here")
    parser.add_argument("--database", metavar="URL", help="default: the site's own")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found as JSON; 0 for a whole log, 1 for a changed one."""
    kept = Anchor.from_json(arguments.anchor.read_text(encoding="utf-8")) if arguments.anchor else None
    db = Database(arguments.database or Settings().database_url)
    if not db.exists():
        raise ValueError("there is no such database")
    try:
        found, end = verify(db, kept), anchor(db)
    finally:
        db.close()
    report = {"ok": found.ok, "events": found.events, "problem": found.problem, "event": found.seq}
    print(json.dumps({**report, "last_hash": found.last_hash, "anchor_compared": kept is not None}))
    if found.ok and arguments.write_anchor:
        arguments.write_anchor.write_text(end.as_json() + "\n", encoding="utf-8")
    return 0 if found.ok else 1
