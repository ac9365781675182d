"""`metrics`: the paper's table from its counts, and what is undefined."""

import json
from pathlib import Path
from typing import Any

import pytest

from commands.__main__ import main


def _metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[tuple[str, str]]) -> dict[str, Any]:
    file = tmp_path / "outcomes.csv"
    file.write_text("reference,outcome\n" + "".join(f"{one},{other}\n" for one, other in rows), encoding="utf-8")
    assert main(["metrics", str(file)]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_what_is_undefined_is_null_and_not_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = _metrics(tmp_path, capsys, [("safe", "human_review"), ("unsafe", "human_review")])
    for name in ("accuracy", "fpr", "fnr"):
        assert (printed[name]["value"], printed[name]["low"], printed[name]["denominator"]) == (None, None, 0)
    assert printed["escalation_rate"]["value"] == 1.0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("reference,outcome\nsafe,maybe\n", "row 1: outcome"),
        ("reference,outcome\nsafe,safe\nunsfae,safe\n", "row 2: reference"),
        ("label,outcome\nsafe,safe\n", "no column reference"),
        ("reference,outcome\nsafe,safe,\n", "row 1 does not fit"),
        ("reference,outcome\nsafe,safe\nsafe,safe\n", "every row needs an id of its own"),
    ],
)
def test_a_faulty_file_is_refused_with_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    file = tmp_path / "outcomes.csv"
    file.write_text(content, encoding="utf-8")
    assert main(["metrics", str(file), "--against", str(file)]) == 2
    assert words in capsys.readouterr().err


def test_another_file_of_the_same_cases_is_compared_case_by_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten unsafe texts: the first file misses four, the other two of these; one case is in one file alone."""
    first, other = tmp_path / "first.csv", tmp_path / "other.jsonl"
    outcomes = ["safe"] * 4 + ["unsafe"] * 6
    lines = [f"u{place},unsafe,{outcome},10" for place, outcome in enumerate(outcomes)]
    first.write_text("id,reference,outcome,calls\n" + "\n".join([*lines, "x,safe,safe,10"]) + "\n", encoding="utf-8")
    rows = [
        {"id": f"u{place}", "reference": None, "outcome": "safe" if place < 2 else "unsafe", "calls": 13}
        for place in range(10)
    ]
    other.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["metrics", str(first), "--against", str(other)]) == 0
    found = json.loads(capsys.readouterr().out)["against"]
    assert (found["shared"], found["not_in_both"]) == (10, 1)
    assert (found["right_in_the_first_alone"], found["right_in_the_other_alone"]) == (0, 2)
    assert found["mcnemar_p"] == 0.5  # 2 of 2 either way: 2 / 4
    missed = found["differences"]["False negative (missed)"]
    assert missed["value"] == pytest.approx(-0.2) and missed["low"] < -0.2 < missed["high"]
    calls = found["differences"]["Calls a text"]
    assert (calls["value"], calls["low"], calls["high"]) == (3, None, None), "files do not say how many it can be"


def test_a_carriage_return_in_a_text_makes_no_second_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "outcomes.csv"
    file.write_bytes(b"id,reference,outcome,text\n1,safe,safe,a day\rin two lines\n2,unsafe,unsafe,b\n")
    assert main(["metrics", str(file)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n"], found["pending"], found["without_reference"]) == (2, 0, 0)
