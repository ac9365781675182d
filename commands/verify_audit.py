"""`verify-audit`: recompute the chain of the audit log and its seals, and compare it with anchors kept outside."""

import argparse
import json
from pathlib import Path

from jobs.audit_anchors import kept_anchors, read_anchors
from screening.settings import Settings
from storage.audit_log import anchor
from storage.database import Database, Fault
from storage.site.audit_check import verify

WHOLE, CHANGED, NOT_PROVEN = 0, 1, 3


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("verify-audit", help="check that the audit log was not changed")
    parser.add_argument(
        "--anchor", type=Path, metavar="FILE", help="anchors kept outside; default: the site's own file"
    )
    parser.add_argument("--write-anchor", type=Path, metavar="FILE", help="keep the present end of a whole log here")
    parser.add_argument("--database", metavar="URL", help="default: the site's own")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
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
