"""A file is read, rejected or refused in the same way on the page, by the command and through the API."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from commands.file_options import FileReading, mapped_table
from jobs.intake import receiver
from pages.batches.file_check import check, profile, read_mapped
from screening.datasets.mapping import (
    ColumnMapping,
    ConversationReading,
    FileMapping,
    Shape,
    mapping_json,
    read_mapping,
)
from screening.datasets.reader import Table
from screening.datasets.rows import NewCase
from screening.datasets.sources import FileRefused
from screening.labels import Label
from screening.settings import Settings
from screening.text.conversation import Role
from storage.schema import cases
from tests.api.test_api import Site, site

__all__ = ["site"]

FIELD = Path(__file__).parent.parent / "fixtures" / "field"
SPEAKERS = (("Reed", Role.USER), ("Moss", Role.ASSISTANT))


def said(text: str, shape: Shape | None = None, labels: dict[str, Label | None] | None = None, **more: str) -> str:
    reading = ConversationReading(shape=shape, speakers=SPEAKERS) if shape else None
    columns = ColumnMapping(text=text, conversation=reading, **more)  # type: ignore[arg-type]
    return mapping_json(FileMapping(columns=columns, labels=labels or {}))


TALK = said("transcript", Shape.TRANSCRIPT, id="id")
CATEGORY = said("text", labels={"0": Label.SAFE, "1": Label.UNSAFE}, id="id", label="category")
YES_NO = said("text", labels={"No, not at all": Label.SAFE, "Yes, in the past month": Label.UNSAFE}, label="label")
S, U = "safe", "unsafe"

Read = tuple[int, int, list[str | None]] | str
"""Accepted, rejected, labels of the accepted ones; or words of the refusal."""

TABLE: list[tuple[str | bytes, str | None, Read]] = [  # what is read of each file alone is in the golden files
    ("f04_transcripts.csv", TALK, (1, 1, [None])),
    ("f08_qualtrics.csv", None, "text"),
    ("f08_qualtrics.csv", said("Q3_TEXT", id="ResponseId"), (2, 2, [None, None])),
    ("f09_ls_two_questions.json", None, "could be the label"),
    ("f12_labels.csv", YES_NO, (2, 0, [S, U])),
    ("f13_spark.csv", None, "backslash"),
    ("f15_category.csv", CATEGORY, (3, 0, [S, U, S])),
    ("f16_whatsapp_ios.txt", None, "'Reed' speaks"),
    ("f16_whatsapp_ios.txt", said("transcript", Shape.TRANSCRIPT), (1, 0, [None])),
    ("id,text\n1,caf\u00e9 tonight\n".encode("utf-7"), None, "UTF-7"),
    (b"id,text,label\n(n),(text),(0/1)\n1,soup,safe\n", None, (1, 1, [S])),
    *[(f"id,text,{name}\n1,soup,{a}\n2,rain,{b}\n".encode(), None, f"could be the label, and would not be read: {name}")
      for name, a, b in (("suicidal", 0, 1), ("x", "safe", "unsafe"))],
    (b"id,text,kind,phone\n1,me+you-all,a,+4471-2\n2,REST+API and ribs+BBQ-,b,1\n", None, (2, 0, [None, None])),
]  # fmt: skip


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
    return mapped_table(path, path.name, parser.parse_args(["--mapping", str(saved)] if saved else []))


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


@pytest.mark.parametrize(("file", "mapping", "owed"), TABLE)
def test_every_file_is_read_alike_on_page_by_command_and_through_the_api(
    site: Site, tmp_path: Path, file: str | bytes, mapping: str | None, owed: Read
) -> None:
    path, saved, kept = FIELD / str(file), None, FileMapping() if mapping is None else read_mapping(mapping)
    if isinstance(file, bytes):
        path = tmp_path / "invented"
        path.write_bytes(file)
    if mapping is not None:
        saved = tmp_path / "mapping.json"
        saved.write_text(mapping)
    every = [of_table(read, path, kept, saved) for read in (by_page, by_command)]
    for found in (*every, by_api(site, path.read_bytes(), mapping)):
        assert owed in found if isinstance(owed, str) and isinstance(found, str) else found == owed
