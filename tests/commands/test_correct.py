"""`correct`: from a data set and its draws to a file for a reviewer, and from what was read to corrected figures."""

import csv
import json
from pathlib import Path

import pytest

from tests.commands.conftest import Run

TRULY_UNSAFE = {f"c{number}" for number in range(0, 120, 3)}
WRONGLY_LABELLED = {f"c{number}" for number in range(0, 120, 12)}


@pytest.fixture
def drawn(tmp_path: Path) -> list[str]:
    """The options of `correct`: every twelfth label of the data set is wrong, and the agents are always right."""
    rows, draws = ["id,text,label"], []
    for number in range(120):
        name = f"c{number}"
        labelled = (name in TRULY_UNSAFE) != (name in WRONGLY_LABELLED)
        rows.append(f"{name},This is text number {number},{'unsafe' if labelled else 'safe'}")
        draws.append(json.dumps({"id": name, "node": "worker", "draws": "UUUUU" if name in TRULY_UNSAFE else "SSSSS"}))
    (tmp_path / "data.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "draws.jsonl").write_text("\n".join(draws) + "\n")
    (tmp_path / "known.csv").write_text("id,text,label\nk1,Known to be unsafe,unsafe\nk2,Known to be safe,safe\n")
    return [
        str(tmp_path / "data.csv"), "--format", "csv", "--draws", str(tmp_path / "draws.jsonl"),
        "--conditions", "MV n=1,MV n=3", "--key", str(tmp_path / "key.json"),
    ]  # fmt: skip


def draw_and_read(run: Run, tmp_path: Path, drawn: list[str], many: int, *more: object) -> Path:
    """The reviewer's file, filled in by somebody who is always right but for the planted unsafe text."""
    out = tmp_path / "read.csv"
    assert run("correct", "draw", *drawn, "--reviews", many, "--out", out, *more).code == 0
    with out.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(set(row) == {"item", "text", "reply", "review"} for row in rows)  # nothing of label, model or order
    for row in rows:
        row["review"] = "unsafe" if f"c{row['text'].rsplit(' ', 1)[-1]}" in TRULY_UNSAFE else "safe"
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["item", "text", "reply", "review"])
        writer.writeheader()
        writer.writerows(rows)
    return out


def test_reading_all_finds_every_wrong_label_and_what_is_no_review_of_it_is_refused(
    tmp_path: Path, drawn: list[str], run: Run
) -> None:
    out = draw_and_read(run, tmp_path, drawn, 120)
    estimate = ("correct", "estimate", *drawn, "--reviews", out)
    assert (tmp_path / "key.json").stat().st_mode & 0o077 == 0
    report = run(*estimate, "--json").report
    assert report["wrong_labels"]["value"] == pytest.approx(len(WRONGLY_LABELLED) / 120)
    for name in ("MV n=1", "MV n=3"):  # by the labels as they are, accuracy would be .917
        assert report["conditions"]["accuracy"][name]["low"] == 1.0
        assert report["conditions"]["fnr"][name]["high"] == 0.0

    lines = out.read_text().splitlines()
    for cell in ("", "unsure"):  # a text passed over is taken both ways, as an unsure one is
        out.write_text("\n".join([lines[0], lines[1].rpartition(",")[0] + f",{cell}", *lines[2:]]) + "\n")
        assert "1 of them unsure" in run(*estimate).out
    out.write_text("\n".join([lines[0], lines[1] + "?", *lines[2:]]) + "\n")
    said = run(*estimate)
    assert said.code == 2 and "row 1: " in said.err and "is none of" in said.err
    out.write_text("\n".join(lines) + "\n")
    data = tmp_path / "data.csv"
    data.write_text(data.read_text().replace("number 7,safe", "number 7,unsafe"))
    said = run(*estimate)
    assert said.code == 2 and "another data set" in said.err


def test_a_part_and_planted_texts_give_limits_and_say_how_reviewers_err(
    tmp_path: Path, drawn: list[str], run: Run
) -> None:
    out = draw_and_read(run, tmp_path, drawn, 40, "--planted", tmp_path / "known.csv")
    key = json.loads((tmp_path / "key.json").read_text())
    assert sorted(str(what) for what in key["items"].values() if isinstance(what, str)) == ["safe", "unsafe"]
    assert key["probabilities"] == [30 / 110, 10 / 10]  # there is more to learn where draws contradict the label
    given = ["correct", "estimate", *drawn, "--reviews", out, "--reviews", out]
    report = run(*given, "--json").report
    assert report["read"] == 40
    assert report["reviewers"]["sensitivity"] == [0, 1] and report["reviewers"]["specificity"] == [1, 1]
    assert report["reviewers"]["pairs"][0] == report["reviewers"]["pairs"][1] > 0
    told = run(*given, "--sensitivity", "1", "--specificity", "1")
    assert told.code == 0 and "taken to be right" in told.out
    assert run(*given, "--baseline", "MV n=7").code == 2
    assert run("correct", "draw", *drawn, "--out", out).code == 2, "reviews are never written over"
