"""The sample data: its shape, its planted labels, and what the simulated agents make of it."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from screening.labels import Outcome
from screening.models.simulated import SimulatedSampler
from screening.pipeline.config import preset
from screening.pipeline.draws import ScreenedText
from screening.pipeline.engine import Screening, guard_for, screen
from screening.text.received import receive

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


async def _screened(seed: int) -> dict[str, Screening]:
    sampler, pipeline = SimulatedSampler(seed), preset("recommended")
    results = {}
    for row in SAMPLE:
        text, reply = receive(row["text"]), receive(row["reply"]) if row["reply"] else None
        flags = text.flags | (reply.flags if reply else frozenset())
        shown = ScreenedText(text=text.model_text, reply=reply.model_text if reply else None)
        results[row["id"]] = await screen(shown, guard_for(flags), pipeline, sampler)
    return results


@pytest.mark.parametrize("seed", [0, 1])
async def test_a_committed_safe_is_only_ever_wrong_by_a_planted_label(seed: int) -> None:
    results = await _screened(seed)
    planted_unsafe = {row["id"] for row in PLANTED if row["right_label"] == "safe"}
    missed = {row["id"] for row in SAMPLE if row["label"] == "unsafe" and results[row["id"]].outcome == "safe"}
    assert missed and missed <= planted_unsafe
    if seed == 0:
        outcomes = Counter(screening.outcome for screening in results.values())
        safe, unsafe, human = (outcomes[outcome] for outcome in (Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW))
        assert f"{safe} safe, {unsafe} unsafe, {human} for human review" in README
