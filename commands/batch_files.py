"""`batches export`: results, readings and the relabelled data set of a batch as files, as the pages give them."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from commands.results_file import private_bytes
from jobs.port import system_clock
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.batches import find_batch
from storage.database import Database

WHAT, FORMATS = ("relabelled", "results", "readings"), ("csv", "jsonl", "parquet", "label-studio")


def add_export(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this action's arguments."""
    parser = actions.add_parser("export", help="results, readings or the relabelled data set as a file")
    parser.add_argument("batch", metavar="BATCH")
    parser.add_argument("--what", choices=WHAT, default="relabelled")
    parser.add_argument("--format", choices=FORMATS, default="jsonl")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--as-of", type=_version, metavar="N", help="of the relabelled data set its state after N accepted labels"
    )
    parser.add_argument("--without-text", action="store_true", help="of the relabelled data set ids and labels alone")
    parser.add_argument("--hide-in-review", action="store_true", help="leave out what the AI made of cases in review")


def export(db: Database, arguments: argparse.Namespace) -> None:
    """Write the file, which its owner alone may read. ValueError for
    an option that the kind of file does not have.
    """
    if arguments.what != "relabelled" and (arguments.as_of is not None or arguments.without_text):
        raise ValueError("--as-of and --without-text are for --what relabelled alone")
    find_batch(db, LOCAL_USER, arguments.batch)
    with private_bytes(arguments.out) as file:
        for part in _parts(db, arguments):
            file.write(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass"))


def _parts(db: Database, arguments: argparse.Namespace) -> Iterator[str] | Iterator[bytes] | Iterator[str | bytes]:
    now, key = system_clock(), Settings().pseudonym_secret
    if arguments.what == "results":
        from pages.batches.exports import RESULTS

        return RESULTS[arguments.format](db, LOCAL_USER.at(now), arguments.batch, hide=arguments.hide_in_review or None)
    if arguments.what == "readings":
        from pages.research.readings_export import as_file
        from storage.research.reading_table import export_readings

        return as_file(export_readings(db, LOCAL_USER.at(now), key, arguments.batch), arguments.format)
    from pages.ui.downloads import WRITTEN
    from storage.research.relabelled import export_relabelled

    text, version = not arguments.without_text, arguments.as_of
    rows = export_relabelled(
        db,
        LOCAL_USER.at(now),
        arguments.batch,
        key,
        with_text=text,
        as_of=version,
        hide=arguments.hide_in_review or None,
    )
    return WRITTEN[arguments.format](rows)


def _version(word: str) -> int:
    if not word.isdecimal():
        raise argparse.ArgumentTypeError("a version is a whole number from 0, the file as it came")
    return int(word)
