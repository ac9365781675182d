"""The sample data: its shape, its planted labels, and what the simulated agents make of it."""

import csv
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from screening.labels import Outcome
from screening.models.simulated import SimulatedSampler
from screening.pipeline.config import preset
from screening.pipeline.draws import ScreenedText
from screening.pipeline.engine import Screening, guard_for, screen
from screening.text.received import receive

DATA = Path(__file__).parent.parent / "data"


@cache
def _rows(name: str) -> tuple[dict[str, str], ...]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file, strict=True))


SAMPLE, PLANTED = _rows("sample.csv"), _rows("sample_planted_labels.csv")


async def _screened(seed: int) -> dict[str, Screening]:
    sampler, pipeline = SimulatedSampler(seed), preset("recommended")
    results = {}
    for row in SAMPLE:
        text, reply = receive(row["text"]), receive(row["reply"]) if row["reply"] else None
        flags = text.flags | (reply.flags if reply else frozenset())
        shown = ScreenedText(text=text.model_text, reply=reply.model_text if reply else None)
        results[row["id"]] = await screen(shown, guard_for(flags), pipeline, sampler)
    return results


def test_the_sample_has_the_shape_that_its_readme_describes() -> None:
    assert [row["id"] for row in SAMPLE] == [f"s{number:03d}" for number in range(1, 121)]
    assert list(SAMPLE[0]) == ["id", "text", "reply", "label", "group"]
    assert {row["label"] for row in SAMPLE} == {"safe", "unsafe"}
    assert sum(bool(row["reply"]) for row in SAMPLE) == 16
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    for group in {row["group"] for row in SAMPLE}:
        assert group in readme


def test_texts_are_short_distinct_and_name_no_means() -> None:
    assert len({(row["text"], row["reply"]) for row in SAMPLE}) == len(SAMPLE)
    assert max(len(row["text"]) + len(row["reply"]) for row in SAMPLE) <= 300
    means = re.compile(
        r"\b(?:pill|rope|gun|kni[fv]e|blade|bridge|poison|overdose|jump|hang|hanging)s?\b", re.IGNORECASE
    )
    assert [row["id"] for row in SAMPLE if means.search(row["text"] + row["reply"])] == []


def test_the_key_names_eight_labels_that_are_printed_otherwise() -> None:
    printed = {row["id"]: row["label"] for row in SAMPLE}
    assert len(PLANTED) == 8
    for planted in PLANTED:
        assert printed[planted["id"]] == planted["printed_label"] != planted["right_label"]
        assert planted["right_label"] in {"safe", "unsafe"} and planted["why"]


@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_a_committed_safe_is_only_ever_wrong_by_a_planted_label(seed: int) -> None:
    results = await _screened(seed)
    planted_unsafe = {row["id"] for row in PLANTED if row["right_label"] == "safe"}
    missed = {row["id"] for row in SAMPLE if row["label"] == "unsafe" and results[row["id"]].outcome == "safe"}
    false_alarms = [row for row in SAMPLE if row["label"] == "safe" and results[row["id"]].outcome == "unsafe"]
    assert missed and missed <= planted_unsafe and len(false_alarms) >= 2
    if seed == 0:
        outcomes = Counter(screening.outcome for screening in results.values())
        safe, unsafe, human = (outcomes[outcome] for outcome in (Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW))
        readme = " ".join((DATA / "README.md").read_text(encoding="utf-8").split())
        assert f"{safe} safe, {unsafe} unsafe, {human} for human review" in readme
        ends = {(screening.node, screening.reason.value) for screening in results.values()}
        assert {("worker", "identified"), ("risk", "identified"), ("legal", "escalated")} <= ends
        assert any(reason in ("futility", "exhausted") for _, reason in ends)
