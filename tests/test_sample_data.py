"""The sample data: its shape, its planted labels, and what the simulated agents make of it."""

import csv
import re
from collections import Counter
from pathlib import Path

from screening.evaluation.library import screen_texts

DATA = Path(__file__).parent.parent / "data"


def _rows(name: str) -> tuple[dict[str, str], ...]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file, strict=True))


SAMPLE, PLANTED = _rows("sample.csv"), _rows("sample_planted_labels.csv")
README = " ".join((DATA / "README.md").read_text(encoding="utf-8").split())
MEANS = re.compile(r"\b(?:pill|rope|gun|kni[fv]e|blade|bridge|poison|overdose|jump|hang|hanging)s?\b", re.IGNORECASE)


def test_the_sample_is_what_its_readme_describes_and_names_no_means() -> None:
    assert len({(row["text"], row["reply"]) for row in SAMPLE}) == len(SAMPLE) == 120
    assert {row["label"] for row in SAMPLE} == {"safe", "unsafe"} and any(row["reply"] for row in SAMPLE)
    assert [group for group in {row["group"] for row in SAMPLE} if group not in README] == []
    assert max(len(row["text"]) + len(row["reply"]) for row in SAMPLE) <= 300
    assert [row["id"] for row in SAMPLE if MEANS.search(row["text"] + row["reply"])] == []
    printed = {row["id"]: row["label"] for row in SAMPLE}
    assert len(PLANTED) == 8
    for planted in PLANTED:
        assert printed[planted["id"]] == planted["printed_label"] != planted["right_label"]
        assert planted["right_label"] in {"safe", "unsafe"} and planted["why"]


def test_a_committed_safe_is_only_ever_wrong_by_a_planted_label() -> None:
    texts, replies = [row["text"] for row in SAMPLE], [row["reply"] or None for row in SAMPLE]
    ended = screen_texts(texts, replies=replies, pipeline="recommended").outcome
    results = dict(zip((row["id"] for row in SAMPLE), ended, strict=True))
    planted_unsafe = {row["id"] for row in PLANTED if row["right_label"] == "safe"}
    missed = {row["id"] for row in SAMPLE if row["label"] == "unsafe" and results[row["id"]] == "safe"}
    assert missed and missed <= planted_unsafe
    safe, unsafe, human = map(Counter(results.values()).__getitem__, ("safe", "unsafe", "human_review"))
    assert f"{safe} safe, {unsafe} unsafe, {human} for human review" in README
