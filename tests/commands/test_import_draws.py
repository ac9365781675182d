"""`import-draws`: labels of several models become draws, and the paper's conditions are replayed on them."""

import json
from pathlib import Path

import pytest

from commands.__main__ import main

HEADER = "id,text,label,gpt,claude,llama\n"
ROWS = (
    "1,a quiet day,safe,safe,safe,safe\n"
    "2,I want to die,unsafe,unsafe,Yes,unsafe\n"
    "3,some days are hard,unsafe,safe,maybe,\n"
)


def imported(tmp_path: Path, content: str, *options: str) -> tuple[int, Path, Path]:
    file, out = tmp_path / "five.csv", tmp_path / "draws.jsonl"
    file.write_text(content, encoding="utf-8")
    code = main(["import-draws", str(file), "--node", "worker", "--draw-columns", "gpt,claude,LLAMA", "--out", str(out),
                 *options])  # fmt: skip
    return code, file, out


def test_the_labels_of_models_are_draws_that_are_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, file, out = imported(tmp_path, HEADER + ROWS, "--draw-labels", "yes=unsafe, Maybe=escalate")
    assert code == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["id"], line["node"], line["draws"]) for line in lines] == [
        ("1", "worker", "SSS"), ("2", "worker", "UUU"), ("3", "worker", "SE"),
    ]  # fmt: skip
    capsys.readouterr()
    replayed = ["evaluate", str(file), "--format", "csv", "--conditions", "MV n=3", "--draws", str(out)]
    assert main([*replayed, "--sampler", "none", "--json"]) == 0
    (condition,) = json.loads(capsys.readouterr().out.splitlines()[-1])["conditions"]
    assert condition


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (HEADER + ROWS, (), "row 2, column 'claude': 'Yes' stands for no label"),
        (HEADER + ROWS, ("--draw-labels", "yes=perhaps"), "is not VALUE=safe"),
        ("id,text,gpt,claude\n1,a,safe,safe\n", (), "no column 'LLAMA'"),
    ],
)
def test_what_is_no_label_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, options: tuple[str, ...], words: str
) -> None:
    code, _file, out = imported(tmp_path, content, *options)
    assert code == 2 and words in capsys.readouterr().err and not out.exists()
