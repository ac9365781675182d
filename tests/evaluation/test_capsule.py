"""The capsule: everything that stands for an experiment, and nothing of its texts."""

import csv
import hashlib
import json
import re
from math import sqrt
from xml.etree import ElementTree

import pytest

from commands.__main__ import main

NAMES = ("SuicideWatch", "depression", "Anxiety", "bipolar", "offmychest")


@pytest.fixture(scope="module")
def capsule(tmp_path_factory):
    where = tmp_path_factory.mktemp("capsule")
    lines = [f"An ordinary secret post number {number} of {name},self.{name}" for name in NAMES for number in range(8)]
    (where / "train.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    given = ["--format", "swmh", "--per-subreddit", "6", "--sampler", "simulated", "--conditions", "paper"]
    assert main(["evaluate", str(where / "train.csv"), *given, "--capsule", str(where / "out")]) == 0
    return where / "out"


def rows_of(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_all_is_there_hashed_and_holds_no_text(capsule):
    sums = dict(line.split("  ")[::-1] for line in (capsule / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == {path.name for path in capsule.iterdir()} - {"SHA256SUMS"}
    for name, found in sums.items():
        content = (capsule / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == found
        assert b"secret post" not in content
    assert {"table.csv", "table.tex", "draws.jsonl", "about.json", "beside_paper.csv", "accuracy_calls.pdf"} <= set(
        sums
    )
    about = json.loads((capsule / "about.json").read_text())
    assert about["agents"] == "simulated" and about["groups"] == {f"self.{name}": 6 for name in NAMES}
    assert len(about["texts"]) == 30 and len(about["conditions"]) == 10


def test_the_paper_s_number_stands_beside_ours_with_the_interval_of_the_difference(capsule):
    table = {row["condition"]: row for row in rows_of(capsule / "table.csv")}
    found = {(row["condition"], row["figure"]): row for row in rows_of(capsule / "beside_paper.csv")}
    one = found["B=100", "accuracy"]
    ours, low, high = (float(table["B=100"][f"accuracy{end}"]) for end in ("", "_low", "_high"))
    assert float(one["paper"]) == 0.798 and float(one["ours"]) == pytest.approx(ours, abs=1e-3)
    least = ours - 0.798 - sqrt((ours - low) ** 2 + (0.844 - 0.798) ** 2)
    most = ours - 0.798 + sqrt((high - ours) ** 2 + (0.798 - 0.744) ** 2)
    assert (float(one["difference_low"]), float(one["difference_high"])) == pytest.approx((least, most), abs=1e-3)
    assert not any(condition in ("B=10", "B=50") for condition, _ in found)  # neither decides anything


def test_figures_name_data_set_and_n_and_the_best_is_marked_and_what_overlaps_it(capsule):
    points = rows_of(capsule / "accuracy_calls.csv")
    svg, pdf = (capsule / "accuracy_calls.svg").read_text(), (capsule / "accuracy_calls.pdf").read_bytes()
    ElementTree.fromstring(svg)
    for words in ("SWMH, 6 posts per subreddit", "n = 30 texts", *(row["condition"] for row in points)):
        assert words in svg and words.encode() in pdf
    assert pdf[int(re.search(rb"startxref\n(\d+)", pdf)[1]) :].startswith(b"xref") and pdf.endswith(b"%%EOF\n")
    for place in re.findall(rb"(\d{10}) 00000 n", pdf):
        assert re.match(rb"\d+ 0 obj", pdf[int(place) :])
    table = [row for row in rows_of(capsule / "table.csv") if row["accuracy"]]
    best = max(table, key=lambda row: float(row["accuracy"]))
    for row, mark in zip(table, rows_of(capsule / "best_and_overlap.csv"), strict=True):
        overlap = row["fpr_low"] <= best["fpr_high"] and best["fpr_low"] <= row["fpr_high"]
        marks = mark["best_accuracy"], mark["fpr_overlaps_that_of_the_most_accurate"]
        assert marks == (str(row is best), str(overlap))
    assert rf"\textbf{{{best['condition']}}} & " in (capsule / "table.tex").read_text()
