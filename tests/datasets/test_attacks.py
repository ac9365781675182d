"""Files that are packed to fill memory: refused in words, and before they take it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.datasets.attack_files import ATTACKS

MOST_MB = 600


@pytest.mark.slow
def test_no_attack_takes_memory_and_each_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.datasets.attack_files"]
    subprocess.run([*command, "make", str(tmp_path)], check=True)
    read = subprocess.run([*command, "read", str(tmp_path)], check=True, capture_output=True, text=True)
    found = [json.loads(line) for line in read.stdout.splitlines()]
    assert [name for name, _, _ in found] == list(ATTACKS)
    assert {name: said for name, _, said in found if not said.startswith("refused: ")} == {}
    assert max(memory for _, memory, _ in found) < MOST_MB, found
