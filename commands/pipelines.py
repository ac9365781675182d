"""`pipelines`: list, check, export and import the DAGs that texts are screened with."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.agents import unanswerable
from jobs.intake import usual_pipeline
from jobs.port import system_clock
from screening.pipeline.config import PipelineConfig, chain_bound, promises
from screening.pipeline.files import PipelineRefused, read_pipeline, shipped_pipelines, write_pipeline
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.pipelines import UnknownPipeline, active_version, get_version, keep_version, list_versions
from storage.database import Database
from storage.settings_store import settings_now


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("pipelines", help="list, check, export and import pipelines (TOML)")
    parser.add_argument("--database", default=None, metavar="URL", help="else the site's own")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="the pipelines that come with the program, and the site's own")
    exported = actions.add_parser("export", help="print one as TOML")
    exported.add_argument("name", help="a name, or name/number for an older version")
    for action, words in (
        ("check", "say what is wrong with a file, or that it may be used"),
        ("import", "keep a file"),
    ):
        read = actions.add_parser(action, help=words)
        read.add_argument("file", type=Path, metavar="FILE")
        if action == "import":
            read.add_argument("--note", default="", help="what is new in this version")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked; 2 with one sentence that names the place for a file that cannot be used."""
    if arguments.action == "check":
        print(json.dumps(_facts(_answerable(pipeline_in(arguments.file), arguments.file.name, Settings()))))
        return 0
    with _database(arguments.database) as db:
        if arguments.action == "list":
            _list(db)
        elif arguments.action == "export":
            print(write_pipeline(named_pipeline(db, arguments.name)), end="")
        else:
            known = settings_now(db, Settings())
            _import(db, _answerable(pipeline_in(arguments.file), arguments.file.name, known), arguments.note)
    return 0


def chosen_pipeline(word: str, database: str | None, settings: Settings) -> PipelineConfig:
    """What ``--pipeline`` names: a file that exists, else a pipeline's name. Raises PipelineRefused, also where these
    settings name no such server, or their service does not know one of its models.
    """
    file = Path(word)
    if database is None and (file.is_file() or word in shipped_pipelines()):
        found = pipeline_in(file) if file.is_file() else shipped_pipelines()[word]
        return _answerable(found, file.name, settings)
    with _database(database) as db:
        found = pipeline_in(file) if file.is_file() else named_pipeline(db, word)
        return _answerable(found, file.name, settings_now(db, settings))


def pipeline_in_force(db: Database, settings: Settings) -> PipelineConfig:
    """What the database's site screens with now. Raises PipelineRefused as `chosen_pipeline`."""
    found = usual_pipeline(db, settings)
    return _answerable(found, found.name, settings_now(db, settings))


def pipeline_in(file: Path) -> PipelineConfig:
    """The pipeline of a file. Raises PipelineRefused with the file's name and the place."""
    try:
        return read_pipeline(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise PipelineRefused(f"{file.name}: not UTF-8 text") from None
    except PipelineRefused as refused:
        raise PipelineRefused(f"{file.name}: {refused}") from None


def _answerable(pipeline: PipelineConfig, called: str, settings: Settings) -> PipelineConfig:
    """The pipeline, if these settings know its servers, and their service its models. Raises PipelineRefused."""
    if wrong := unanswerable(settings, pipeline):
        raise PipelineRefused(f"{called}: {wrong}")
    return pipeline


def named_pipeline(db: Database, word: str) -> PipelineConfig:
    """The site's pipeline of that name, newest version or the one named, else the one that comes with the program."""
    name, _, number = word.partition("/")
    if number and not number.isdecimal():
        raise PipelineRefused(f"{word}: after the slash stands the number of a version")
    try:
        return get_version(db, name, int(number) if number else None).pipeline
    except UnknownPipeline:
        if name in shipped_pipelines() and not number:
            return shipped_pipelines()[name]
        raise PipelineRefused(f"there is no file and no pipeline {word!r}") from None


def _list(db: Database) -> None:
    active = active_version(db)
    for name, pipeline in shipped_pipelines().items():
        print(f"{name}  comes with the program  {len(pipeline.nodes)} agents  {pipeline.version}")
    for found in list_versions(db, LOCAL_USER):
        mark = "  in force" if found == active else ""
        print(
            f"{found.pipeline.name}/{found.number}  {len(found.pipeline.nodes)} agents  {found.pipeline.version}{mark}"
        )


def _import(db: Database, pipeline: PipelineConfig, note: str) -> None:
    newest = next(iter(list_versions(db, LOCAL_USER, pipeline.name)), None)
    kept = keep_version(db, LOCAL_USER.at(system_clock()), pipeline, note, newest.number if newest else 0)
    same = newest is not None and kept.number == newest.number
    print(
        f"{kept.pipeline.name}/{kept.number}: {'nothing differs from this version' if same else 'kept'}",
        file=sys.stderr,
    )


def _facts(pipeline: PipelineConfig) -> dict[str, object]:
    nodes = {node.name: node.rule.error_bound for node in pipeline.nodes}
    return {
        "name": pipeline.name,
        "nodes": list(nodes),
        "version": pipeline.version,
        "delta": nodes,
        "pipeline_delta": chain_bound(pipeline),
        "contract": promises(pipeline),
    }


@contextmanager
def _database(url: str | None) -> Iterator[Database]:
    db = Database(url or Settings().database_url)
    try:
        db.prepare()
        yield db
    finally:
        db.close()
