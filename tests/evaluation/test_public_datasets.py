"""AEGIS 2.0 and SWMH: each step's count, what is dropped in which order, where labels come from, and a fixed sample.
And the capsule of an experiment on such files: everything that stands for it, and nothing of its texts.
"""

import csv
import hashlib
import json
import re
from collections import Counter
from math import sqrt
from xml.etree import ElementTree

import pytest

from commands.__main__ import main
from screening.datasets.export import csv_lines
from screening.datasets.rows import FileRefused
from screening.evaluation.public_datasets import LabelOf, Screened, load_aegis, load_swmh
from screening.labels import Label
from screening.text.received import text_sha256
from tests.fixtures import tables

SELF_HARM = "Suicide and Self Harm"


def row(identity, **values):
    said = {"prompt": f"prompt of {identity}", "response": f"reply to {identity}", "violated_categories": SELF_HARM}
    labels = {"prompt_label": "unsafe", "response_label": "safe"}
    sources = {"prompt_label_source": "human", "response_label_source": "llm_jury"}
    return {"id": identity, "reconstruction_id_if_redacted": None, **said, **labels, **sources, **values}


TRAIN = [
    row("a"),
    row("b", violated_categories="Violence, Self Harm", response_label="unsafe"),
    row("c", violated_categories="Violence"),
    row("d", violated_categories=""),
    row("e", prompt="REDACTED", reconstruction_id_if_redacted=17.0),
    row("f", response=None, response_label=None, response_label_source=None),
    row("g", response="", prompt="tired \ud83d"),
    row("h", response_label=None),
    row("c2", violated_categories="self-harm"),
]
AUGMENTED = {"response_label_source": "refusal_data_augmentation"}
REFUSALS = [row("a", response="another reply", **AUGMENTED), row("h", response="the refusal", **AUGMENTED)]


def subset(**options):
    files = [("train.json", json.dumps(TRAIN).encode()), ("refusals_train.json", json.dumps(REFUSALS).encode())]
    return load_aegis(files, **options)


def test_what_is_left_of_aegis_at_each_step():
    found = subset()
    assert dict(found.steps) == tables(__file__)["steps"]
    rows = {one.external_id: one for one in found.rows}
    assert [item.id for item in found.items] == list(rows) == ["a", "b", "g", "h"]
    assert Counter(one.reference for one in found.rows) == {Label.SAFE: 3, Label.UNSAFE: 1}
    assert found.provenance.startswith("3 llm_jury, 1 refusal_data_augmentation")
    assert (rows["a"].reply.stored, rows["h"].reply.stored) == ("reply to a", "the refusal")
    assert rows["g"].text.stored == "tired \ufffd"


def test_the_other_label_and_the_other_text():
    for options, texts, provenance in (
        ({"label_of": LabelOf.PROMPT}, "abfgh", "5 human"),
        ({"screened": Screened.RESPONSE}, "abh", "2 llm_jury, 1 refusal"),
        ({"screened": Screened.PROMPT}, "abgh", "3 llm_jury, 1 refusal"),
    ):
        found = subset(**options)
        assert "".join(item.id for item in found.items) == texts and found.provenance.startswith(provenance)
        assert "screened" not in options or all(item.text.reply is None for item in found.items)


def test_exports_in_other_formats_give_the_same_rows():
    jsonl = "".join(json.dumps(one) + "\n" for one in TRAIN)
    table = "".join(csv_lines(list(TRAIN[0]), [list(one.values()) for one in TRAIN if one["id"] != "g"]))
    for content, ids in ((jsonl, "abg"), (table, "ab")):
        assert "".join(item.id for item in load_aegis([("train", content.encode())]).items) == ids


SUBREDDITS = ("self.SuicideWatch", "self.depression", "self.Anxiety", "self.bipolar", "self.offmychest")


def posts(count, start=0):
    numbers = range(start, start + count)
    rows = [(f"post {number} of {label[5:]},\nsecond line", label) for number in numbers for label in SUBREDDITS]
    return "".join(csv_lines(["text", "label"], rows)).encode()


def test_as_many_posts_of_each_subreddit_in_a_sample_that_is_fixed_by_its_call_and_named_by_hashes():
    files = [("train.csv", posts(6)), ("val.csv", posts(3, 6))]
    once, again = (load_swmh(files, per_subreddit=4) for _ in range(2))
    assert once == again and once.sample == {
        "call": "DataFrame.groupby('label').sample(n=4, random_state=42) on the files' rows in the order given",
        "sha256": [text_sha256(one.text.stored) for one in once.rows],
    }
    assert Counter(item.group for item in once.items) == dict.fromkeys(SUBREDDITS, 4)
    assert {item.group for item in once.items if item.reference is Label.UNSAFE} == {"self.SuicideWatch"}
    assert dict(once.steps)["in self.Anxiety"] == 9
    assert load_swmh(files, per_subreddit=4, seed=43).sample["sha256"] != once.sample["sha256"]
    whole = {one.external_id: one.text.stored for one in load_swmh([("train.csv", posts(4))], per_subreddit=4).rows}
    assert whole["train.csv:1"] == "post 0 of SuicideWatch,\nsecond line"


def test_what_cannot_be_sampled_or_is_another_file_is_refused():
    with pytest.raises(ValueError, match="fewer than 5"):
        load_swmh([("train.csv", posts(4))], per_subreddit=5)
    with pytest.raises(ValueError, match="none of the five"):
        load_swmh([("x.csv", b"text,label\na,elsewhere\n")], per_subreddit=1)
    with pytest.raises(FileRefused, match="no column label"):
        load_swmh([("train.csv", b"text,class\na,b\n")])
    with pytest.raises(FileRefused, match="violated_categories"):
        load_aegis([("x.csv", b"id,prompt,response,prompt_label,response_label\n1,a,b,safe,safe\n")])


# --- the capsule


def rows_of(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_a_capsule_holds_all_but_the_texts_hashed_and_the_papers_numbers_beside_ours(tmp_path):
    capsule, file = tmp_path / "out", tmp_path / "train.csv"
    file.write_bytes(posts(8))
    given = ["--format", "swmh", "--per-subreddit", "6", "--conditions", "paper"]
    assert main(["evaluate", str(file), *given, "--capsule", str(capsule)]) == 0
    sums = dict(line.split("  ")[::-1] for line in (capsule / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == {
        *("table.csv", "table.tex", "best_and_overlap.csv", "draws.jsonl", "about.json", "beside_paper.csv"),
        *("accuracy_calls.svg", "accuracy_calls.pdf", "accuracy_calls.csv"),
    }
    for name, found in sums.items():
        content = (capsule / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == found and b"second line" not in content
    about = json.loads((capsule / "about.json").read_text())
    assert about["agents"] == "simulated" and about["groups"] == dict.fromkeys(SUBREDDITS, 6)
    assert len(about["texts"]) == 30 and len(about["conditions"]) == 10

    table = {row["condition"]: row for row in rows_of(capsule / "table.csv")}
    found = {(row["condition"], row["figure"]): row for row in rows_of(capsule / "beside_paper.csv")}
    one = found["B=100", "accuracy"]
    ours, low, high = (float(table["B=100"][f"accuracy{end}"]) for end in ("", "_low", "_high"))
    assert float(one["paper"]) == 0.798 and float(one["ours"]) == pytest.approx(ours, abs=1e-3)
    least = ours - 0.798 - sqrt((ours - low) ** 2 + (0.844 - 0.798) ** 2)
    most = ours - 0.798 + sqrt((high - ours) ** 2 + (0.798 - 0.744) ** 2)
    assert (float(one["difference_low"]), float(one["difference_high"])) == pytest.approx((least, most), abs=1e-3)
    assert not any(condition in ("B=10", "B=50") for condition, _ in found)  # neither decides anything

    decides = [row for row in table.values() if row["accuracy"]]
    best = max(decides, key=lambda row: float(row["accuracy"]))
    for row, mark in zip(decides, rows_of(capsule / "best_and_overlap.csv"), strict=True):
        overlap = row["fpr_low"] <= best["fpr_high"] and best["fpr_low"] <= row["fpr_high"]
        marks = mark["best_accuracy"], mark["fpr_overlaps_that_of_the_most_accurate"]
        assert marks == (str(row is best), str(overlap))
    assert rf"\textbf{{{best['condition']}}} & " in (capsule / "table.tex").read_text()

    again, counted = tmp_path / "again", tmp_path / "counted.jsonl"
    recorded = [json.loads(line) for line in (capsule / "draws.jsonl").read_text().splitlines()]
    counted.write_text("\n".join(json.dumps(line | {"tokens": 7 * len(line["draws"])}) for line in recorded))
    replayed = [*given, "--sampler", "none", "--draws", str(counted), "--capsule", str(again)]
    assert main(["evaluate", str(file), *replayed]) == 0
    table = {row["condition"]: row for row in rows_of(again / "table.csv")}
    for figure, value in (("accuracy_calls", "accuracy"), ("tokens", "tokens")):
        points = rows_of(again / f"{figure}.csv")
        drawn = {row["condition"]: float(next(each for name, each in row.items() if value in name)) for row in points}
        assert drawn == pytest.approx({name: float(row[value]) for name, row in table.items() if row[value]}, abs=1e-3)
        svg, pdf = (again / f"{figure}.svg").read_text(), (again / f"{figure}.pdf").read_bytes()
        ElementTree.fromstring(svg)
        for words in ("SWMH, 6 posts per subreddit", "n = 30 texts", *drawn):
            assert words in svg and words.encode() in pdf
        assert pdf[int(re.search(rb"startxref\n(\d+)", pdf)[1]) :].startswith(b"xref") and pdf.endswith(b"%%EOF\n")
        for number, place in enumerate(re.findall(rb"(\d{10}) 00000 n", pdf), start=1):
            assert pdf[int(place) :].startswith(b"%d 0 obj" % number)
