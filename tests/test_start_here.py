"""What docs/start-here.md names is there."""

import re
from pathlib import Path

from storage.schema import metadata

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "start-here.md").read_text(encoding="utf-8")


def test_the_ten_functions_are_where_it_says() -> None:
    named = re.findall(r"\| `(\w+)` in `([\w/]+\.py)`", TEXT)
    assert len(named) == 10
    missing = [
        name
        for name, path in named
        if not re.search(rf"^\s*(async )?def {name}\b", (ROOT / path).read_text(encoding="utf-8"), re.M)
    ]
    assert missing == []


def test_the_tables_of_the_picture_exist() -> None:
    picture = re.search(r"```mermaid\n(.*?)```", TEXT, re.S)
    assert picture is not None
    drawn = set(re.findall(r"\b([a-z]+_?[a-z]+s)\b(?= [|}])|(?<=\S{2} )([a-z]+_?[a-z]+s)(?= :)", picture[1]))
    assert {name for pair in drawn for name in pair if name} <= set(metadata.tables)


def test_its_files_exist() -> None:
    paths = {path for path in re.findall(r"`((?:\w+/)+[\w.]+)`", TEXT) if "." in path.rsplit("/", 1)[-1]}
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []
