"""Every control of the hazard log names a test that exists; licence and notices are there and whole."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOG = (ROOT / "docs" / "safety" / "hazard-log.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_control_names_a_test_that_exists() -> None:
    missing = [
        f"{file}::{name}"
        for file, name in NAMED.findall(LOG)
        if not (ROOT / file).exists()
        or not re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert not missing


def test_every_hazard_is_rated_and_has_controls_and_each_control_a_test() -> None:
    hazards = re.split(r"^## (?=H\d+\.)", LOG, flags=re.MULTILINE)[1:]
    assert [int(re.match(r"H(\d+)\.", one)[1]) for one in hazards] == list(range(1, len(hazards) + 1))  # type: ignore[index]
    for hazard in hazards:
        controls = [line for line in hazard.splitlines() if line.startswith("- ")]
        assert re.search(r"^Severity [1-5], likelihood [1-5]\.", hazard, re.MULTILINE) and controls, hazard[:60]
        assert all(NAMED.search(line) for line in controls), hazard[:60]


def test_the_licence_is_there_and_the_notices_name_every_package_that_runs() -> None:
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    lock = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    names = set(re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE))
    notices = (ROOT / "docs" / "third-party-notices.md").read_text(encoding="utf-8")
    assert names and names <= set(re.findall(r"^\| ([A-Za-z0-9._-]+) \|", notices, re.MULTILINE))
