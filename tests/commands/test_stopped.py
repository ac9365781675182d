"""A command that is stopped ends in order: a sentence, its signal's exit code, and no text left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.processes import ROOT, wait_for
from tests.processes import usual_handlers


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_stopped_screening_leaves_no_text_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Without a database of one's own the texts are in a temporary one meanwhile."""
    temporary, out = tmp_path / "temporary", tmp_path / "out.jsonl"
    temporary.mkdir()
    given = {"TMPDIR": str(temporary), "SECOND_LOOK_SAMPLER": "simulated", "SECOND_LOOK_SIMULATED_LATENCY_S": "5"}
    words = ["-m", "screening", "screen", "data/sample.csv", "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | given,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=usual_handlers,
    ) as started:
        wait_for(lambda: out.exists() or started.poll() is not None, 60)
        assert list(temporary.rglob("screening.db"))
        started.send_signal(number)
        _, said = started.communicate(timeout=60)
    assert (started.returncode, said.splitlines()[-1]) == (128 + number, "python -m screening: stopped before its end")
    assert "Traceback" not in said and not list(temporary.iterdir())
