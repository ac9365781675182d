"""`correct`: from a data set and its draws to a file for a reviewer, and from what was read to corrected figures."""

import csv
import json
from pathlib import Path

import pytest

from commands.__main__ import main

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


def draw_and_read(tmp_path: Path, drawn: list[str], many: int, *more: str) -> Path:
    """The reviewer's file, filled in by somebody who is always right but for the planted unsafe text."""
    out = tmp_path / "read.csv"
    assert main(["correct", "draw", *drawn, "--reviews", str(many), "--out", str(out), *more]) == 0
    with out.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(set(row) == {"item", "text", "reply", "review"} for row in rows)  # nothing of label, model or order
    for row in rows:
        name = f"c{row['text'].rsplit(' ', 1)[-1]}"
        row["review"] = "unsafe" if name in TRULY_UNSAFE else "safe"
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["item", "text", "reply", "review"])
        writer.writeheader()
        writer.writerows(rows)
    return out


def test_reading_all_finds_every_wrong_label_and_the_model_right(
    tmp_path: Path, drawn: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = draw_and_read(tmp_path, drawn, 120)
    assert (tmp_path / "key.json").stat().st_mode & 0o077 == 0
    capsys.readouterr()
    assert main(["correct", "estimate", *drawn, "--reviews", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["wrong_labels"]["value"] == pytest.approx(len(WRONGLY_LABELLED) / 120)
    for name in ("MV n=1", "MV n=3"):  # by the labels as they are, accuracy would be .917
        assert report["conditions"]["accuracy"][name]["low"] == 1.0
        assert report["conditions"]["fnr"][name]["high"] == 0.0


def test_a_part_and_planted_texts_give_limits_and_say_how_reviewers_err(
    tmp_path: Path, drawn: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = draw_and_read(tmp_path, drawn, 40, "--planted", str(tmp_path / "known.csv"))
    key = json.loads((tmp_path / "key.json").read_text())
    assert sorted(str(what) for what in key["items"].values() if isinstance(what, str)) == ["safe", "unsafe"]
    assert key["probabilities"] == [30 / 110, 10 / 10]  # there is more to learn where draws contradict the label
    capsys.readouterr()
    given = ["correct", "estimate", *drawn, "--reviews", str(out), "--reviews", str(out)]
    assert main([*given, "--json"]) == 0
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert report["read"] == 40
    assert report["reviewers"]["sensitivity"] == [0, 1] and report["reviewers"]["specificity"] == [1, 1]
    assert report["reviewers"]["pairs"][0] == report["reviewers"]["pairs"][1] > 0
    assert main([*given, "--sensitivity", "1", "--specificity", "1"]) == 0
    assert main(["correct", "draw", *drawn, "--out", str(out)]) == 2  # reviews are never written over


@pytest.mark.parametrize("cell", ["dangerous?", "", "unsure"])
def test_what_is_no_review_is_refused_with_its_row(
    cell: str, tmp_path: Path, drawn: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = draw_and_read(tmp_path, drawn, 120)
    lines = out.read_text().splitlines()
    lines[1] = lines[1].rpartition(",")[0] + f",{cell}"
    out.write_text("\n".join(lines) + "\n")
    capsys.readouterr()
    code = main(["correct", "estimate", *drawn, "--reviews", str(out)])
    told = capsys.readouterr()
    if cell == "dangerous?":
        assert code == 2 and f"row 1: {cell!r} is none of" in told.err
    else:  # a text passed over is taken both ways, as an unsure one is
        assert code == 0 and "1 of them unsure" in told.out


def test_reviews_of_other_labels_or_texts_are_refused(
    tmp_path: Path, drawn: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = draw_and_read(tmp_path, drawn, 20)
    data = tmp_path / "data.csv"
    data.write_text(data.read_text().replace("number 7,safe", "number 7,unsafe"))
    assert main(["correct", "estimate", *drawn, "--reviews", str(out)]) == 2
    assert "another data set" in capsys.readouterr().err
