"""A file is read, rejected or refused in the same way on the page, by the command and through the API."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from commands.file_options import FileReading, mapped_table
from jobs.intake import receiver
from pages.batches.file_check import check, profile, read_mapped
from screening.datasets.mapping import FileMapping, read_mapping
from screening.datasets.reader import Table
from screening.datasets.rows import FileRefused, NewCase
from screening.settings import Settings
from storage.schema import cases
from tests.api.test_api import TABLES, Site, site

__all__ = ["site"]

FIELD = Path(__file__).parent.parent / "fixtures" / "field"
Read = tuple[int, int, list[str | None]] | str
"""Accepted, rejected, labels of the accepted ones; or words of the refusal."""


def by_page(path: Path, kept: FileMapping, _saved: Path | None) -> Table:
    if kept.columns is not None:
        table = read_mapped(path, path.name, None, kept.columns)
    elif isinstance(table := profile(path, path.name, None), FileRefused):
        raise table
    assert check(table, _receive).accepted == sum(isinstance(row, NewCase) for row in table.rows(_receive))
    return table.with_labels(kept.labels)


def by_command(path: Path, _kept: FileMapping, saved: Path | None) -> Table:
    parser = argparse.ArgumentParser()
    FileReading.add_options(parser)
    return mapped_table(path, parser.parse_args(["--mapping", str(saved)] if saved else []))


def of_table(read: Callable[[Path, FileMapping, Path | None], Table], *given: Any) -> Read:
    try:
        rows = list(read(*given).rows(_receive))
    except FileRefused as refused:
        return str(refused)
    taken = [row for row in rows if isinstance(row, NewCase)]
    return len(taken), len(rows) - len(taken), [row.reference and row.reference.value for row in taken]


def by_api(site: Site, content: bytes, mapping: str | None) -> Read:
    made = site.made()
    answer = site.file(made, "file", content, **({} if mapping is None else {"mapping": mapping}))
    if answer.status_code == 422:
        return str(answer.json()["error"])
    found = site.ended(made, answer.json()["id"])
    return found["accepted"], found["rejected"], list(site.db.values(select(cases.c.reference).order_by(cases.c.row)))


_receive = receiver(Settings())


@pytest.mark.parametrize("file", TABLES["file"])
def test_every_file_is_read_alike_on_page_by_command_and_through_the_api(
    site: Site, tmp_path: Path, file: dict[str, Any]
) -> None:
    path, saved, mapping, kept = FIELD / file.get("name", ""), None, None, FileMapping()
    if "content" in file:
        path = tmp_path / "invented"
        path.write_text(file["content"])
    if "said" in file:
        mapping, saved = json.dumps({"second_look_mapping": 1} | file["said"]), tmp_path / "mapping.json"
        kept = read_mapping(mapping)
        saved.write_text(mapping)
    accepted, rejected, labels = file.get("read", (0, 0, []))
    owed: Read = file.get("refused") or (accepted, rejected, [label or None for label in labels])
    every = [of_table(read, path, kept, saved) for read in (by_page, by_command)]
    for found in (*every, by_api(site, path.read_bytes(), mapping)):
        assert owed in found if isinstance(owed, str) and isinstance(found, str) else found == owed
