"""`pipelines`: list, check, export and import the DAGs that texts are screened with."""

import json
from pathlib import Path
from typing import Annotated

from commands.options import Url, opened, say
from jobs.agents import unanswerable
from jobs.intake import usual_pipeline
from jobs.process import system_clock
from screening.pipeline.config import PipelineConfig, chain_bound, promises
from screening.pipeline.files import PipelineRefused, read_pipeline, shipped_pipelines, write_pipeline
from screening.review.policy import LOCAL_USER
from screening.settings import Settings
from storage.batches.configurations import UnknownPipeline, active_version, get_version, keep_version, list_versions
from storage.database import Database
from storage.settings_store import settings_now

File = Annotated[Path, "a pipeline (TOML)", "FILE"]


def list_all(*, database: Url = None) -> None:
    with opened(database) as db:
        active, kept = active_version(db), list_versions(db, LOCAL_USER)
    for name, pipeline in shipped_pipelines().items():
        print(f"{name}  built-in  {len(pipeline.nodes)} agents  {pipeline.version}")
    for version in kept:
        mark = "  active" if version == active else ""
        pipeline = version.pipeline
        print(f"{pipeline.name}/{version.number}  {len(pipeline.nodes)} agents  {pipeline.version}{mark}")


def check(file: File) -> None:
    """Print what it is as JSON. PipelineRefused, in one sentence that names the place, where it cannot be used."""
    pipeline = _answerable(pipeline_in(file), file.name, Settings())
    nodes = {node.name: node.rule.error_bound for node in pipeline.nodes}
    found = {"name": pipeline.name, "nodes": list(nodes), "version": pipeline.version, "delta": nodes}
    print(json.dumps(found | {"pipeline_delta": chain_bound(pipeline), "contract": promises(pipeline)}))


def export(
    name: Annotated[str, "a name, or name/number for an older version", "NAME"], *, database: Url = None
) -> None:
    with opened(database) as db:
        print(write_pipeline(named_pipeline(db, name)), end="")


def import_(file: File, *, note: Annotated[str, "what is new in this version"] = "", database: Url = None) -> None:
    """Keep the pipeline of a file, unless nothing differs from the newest version of its name."""
    with opened(database) as db:
        pipeline = _answerable(pipeline_in(file), file.name, settings_now(db, Settings()))
        newest = next((version.number for version in list_versions(db, LOCAL_USER, pipeline.name)), 0)
        kept = keep_version(db, LOCAL_USER.at(system_clock()), pipeline, note, newest)
    done = "nothing differs from this version" if kept.number == newest else "kept"
    say(f"{kept.pipeline.name}/{kept.number}: {done}")


ACTIONS = {
    "list": (list_all, "the built-in pipelines, and the site's own (also without an action)"),
    "check": (check, "say what is wrong with a file, or that it may be used"),
    "export": (export, "print one as TOML"),
    "import": (import_, "keep a file"),
}


def chosen_pipeline(db: Database, word: str | None, settings: Settings) -> PipelineConfig:
    """What ``--pipeline`` names: a file, else a pipeline's name; the active one for None. PipelineRefused."""
    if word is None:
        found, called = usual_pipeline(db, settings), "the active pipeline"
    elif Path(word).is_file():
        found, called = pipeline_in(Path(word)), Path(word).name
    else:
        found, called = named_pipeline(db, word), word
    return _answerable(found, called, settings)


def pipeline_in(file: Path) -> PipelineConfig:
    """The pipeline of a file. Raises PipelineRefused with the file's name and the place."""
    try:
        return read_pipeline(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise PipelineRefused(f"{file.name}: not UTF-8 text") from None
    except PipelineRefused as refused:
        raise PipelineRefused(f"{file.name}: {refused}") from None


def _answerable(pipeline: PipelineConfig, called: str, settings: Settings) -> PipelineConfig:
    if wrong := unanswerable(settings, pipeline):
        raise PipelineRefused(f"{called}: {wrong}")
    return pipeline


def named_pipeline(db: Database, word: str) -> PipelineConfig:
    """The site's pipeline of that name, newest version or the one named, else the built-in one."""
    name, _, number = word.partition("/")
    if number and not number.isdecimal():
        raise PipelineRefused(f"{word}: after the slash stands the number of a version")
    try:
        return get_version(db, name, int(number) if number else None).pipeline
    except UnknownPipeline:
        if name in shipped_pipelines() and not number:
            return shipped_pipelines()[name]
        raise PipelineRefused(f"there is no file and no pipeline {word!r}") from None
