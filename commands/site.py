"""What whoever runs a site does: settings, audit log, backup and restore, erasure, and the API's own process."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

from commands.options import Url, found, opened, undamaged
from jobs.notify import kept_anchors, read_anchors
from jobs.process import begin, is_loopback, system_clock
from screening.review.policy import LOCAL_USER
from screening.settings import Settings, option_words
from screening.words import count_of
from storage.audit_log import anchor, verify
from storage.review import erasure
from storage.review.erasure import By, Erasure, Selection, expire, look, would_go
from storage.site import backup as copies

PORT = 8601
DryRun = Annotated[bool, "only say what would be erased"]


def settings() -> None:
    """Print every option as a Markdown table. What one is set to stays out of it: some are keys."""
    set_here, told = Settings().model_fields_set, option_words()
    print("| option | default | set here | what it does |\n|---|---|---|---|")
    for name, field in Settings.model_fields.items():
        option = field.validation_alias or f"SECOND_LOOK_{name.upper()}"
        default = field.get_default(call_default_factory=True, validated_data={})
        words = told[name].replace("|", r"\|")
        print(f"| `{option}` | {default} | {'yes' if name in set_here else ''} | {words} |")


def api(
    *,
    host: Annotated[str, "where it listens; tokens need TLS in front of it"] = "127.0.0.1",
    port: Annotated[int | None, f"default: the one set (SECOND_LOOK_API_PORT), else {PORT}"] = None,
    behind_tls: Annotated[bool, "listen to other machines: something in front of it speaks TLS"] = False,
) -> None:
    """Serve until a signal comes. ValueError for an address that others reach without TLS in front."""
    import uvicorn

    from api.app import create_app
    from api.door import LARGEST_HEAD, ImpatientProtocol

    if not behind_tls and not is_loopback(host):
        raise ValueError("tokens must not go over a line in the clear: listen on 127.0.0.1, or say --behind-tls")
    settings = begin()
    with found(None, repeatable=True) as db:
        db.prepare()
        uvicorn.run(
            create_app(db, settings, system_clock),
            host=host,
            port=port or settings.api_port or PORT,
            http=ImpatientProtocol,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            log_level="warning",
            access_log=False,
        )


def backup(
    *,
    to: Annotated[Path | None, "a new file; default: dated, in the data directory", "FILE"] = None,
    database: Url = None,
) -> None:
    now = system_clock()
    to = to or Settings().data_directory / f"backup-{now:%Y%m%d-%H%M%S}.db"
    with undamaged(database, "backed up") as db:
        print(f"{to}: {_summary(copies.back_up(db, to, now))}")


def restore(*, from_: Annotated[Path, "the backup", "FILE"], database: Url = None) -> None:
    with found(database) as db:
        print(f"restored and checked: {_summary(copies.restore(db, from_, system_clock()))}")


def _summary(copied: copies.Copied) -> str:
    rows, end = copied
    return (
        f"{count_of(sum(rows.values()), 'row')} in {len(rows)} tables, {count_of(rows['cases'], 'case')}, "
        f"{count_of(rows['reviews'], 'review')}, audit log whole to event {end.count:,}"
    )


def erase(
    *,
    case: Annotated[str | None, "one case, by its id here", "ID"] = None,
    external_id: Annotated[str | None, "all cases with this id of the files", "ID"] = None,
    group: Annotated[str | None, "all cases of this group, for example one author", "NAME"] = None,
    confirm: Annotated[str | None, "carry out what somebody else asked for", "REQUEST"] = None,
    reason: Annotated[str, "who asked for it, and when"] = "",
    dry_run: DryRun = False,
    database: Url = None,
) -> int:
    """Erase, ask, confirm or look, and print what came of it as JSON; 3 where a second person has to confirm."""
    named = {By.CASE: case, By.EXTERNAL_ID: external_id, By.GROUP: group, None: confirm}
    given = [(by, value) for by, value in named.items() if value is not None]
    if len(given) != 1:
        raise ValueError("name what to erase by one of --case, --external-id, --group and --confirm")
    ((column, value),) = given
    by = LOCAL_USER.at(system_clock())
    with opened(database, must_exist=True) as db:
        if column is None:
            return _told(erasure.confirm(db, by, value), done=True)
        which = Selection(by=column, value=value)
        if dry_run:
            return _told(look(db, LOCAL_USER, which), done=False)
        made = erasure.erase(db, by, which, reason)
        return _told(made, done=made.waits_for is None)


def _told(made: Erasure, *, done: bool) -> int:
    told = {"erased": done, "cases": made.cases, "rejected_rows": made.rejected, "waits_for": made.waits_for}
    print(json.dumps(told | {"backups_that_may_still_hold_it": [moment.isoformat() for moment in made.backups]}))
    return 3 if made.waits_for else 0


def retention(*, dry_run: DryRun = False, database: Url = None) -> None:
    """Erase what is past its time, or say what would go; as JSON, by kind."""
    gone = Counter[str]()
    with opened(database, must_exist=True) as db:
        if dry_run:
            gone.update(would_go(db, LOCAL_USER.at(system_clock())))
        else:
            while expired := expire(db, system_clock()):
                gone.update(expired)
    print(json.dumps({"dry_run": dry_run, "gone": gone}))


def verify_audit(
    *,
    anchor_: Annotated[Path | None, "anchors kept outside; default: the site's own file", "FILE"] = None,
    write_anchor: Annotated[Path | None, "keep the present end of a whole log here", "FILE"] = None,
    database: Url = None,
) -> int:
    """Print what was found as JSON; 0 for a log proven whole, 1 for a changed one, 3 where nothing is proven."""
    kept = read_anchors(anchor_) if anchor_ else () if database else kept_anchors(Settings())
    with undamaged(database, "checked") as db:
        seen, end = verify(db, kept), anchor(db)
    verdict, code = ("whole", 0) if seen.proven else ("not proven", 3) if seen.ok else ("changed", 1)
    report = {"verdict": verdict, "ok": seen.ok, "events": seen.events, "problem": seen.problem, "event": seen.seq}
    more = {"doubt": seen.doubt, "anchored_to": seen.anchored, "anchors": len(kept), "last_hash": seen.last_hash}
    print(json.dumps(report | more))
    if seen.ok and write_anchor:
        write_anchor.write_text(end.as_json() + "\n", encoding="utf-8")
    return code
