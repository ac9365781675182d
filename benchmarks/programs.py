"""1,000 texts a minute from a program, on two cores, beside a reviewer who takes the next case again and again.

    python -m benchmarks.programs [--minute 20] [--url postgresql://...]

The API runs in a process of its own, as at a site; so does whoever submits. Told are the submissions answered, their
median and 95th percentile, the same of taking the next case alone and meanwhile, and the processor time that the API
took for each text. Nothing is asserted.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from benchmarks.figures import Figure, tell
from benchmarks.inbox import WHO, add_cases
from benchmarks.processes import processor_s, until_healthy
from screening.review.actors import LOCAL_USER
from storage.database import Database
from storage.review.claims import claim_next
from storage.site.programs import Scope, make_program
from tests.free_port import free_port

PER_MINUTE = 1_000
AIM = 0.98 * PER_MINUTE
WAITING = 20_000
SENDERS = 4
TEXT = "We walked along the river and talked about nothing in particular. " * 6


def submit(port: int, token: str, first: int, count: int, pace_s: float, took: list[float]) -> None:
    """So many texts at this pace, over one connection."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number * pace_s - time.monotonic()))
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"{first + number}"}
        body = json.dumps({"text": f"{TEXT}{first + number}"})
        at = time.perf_counter()
        line.request("POST", "/api/v1/texts", body, headers | {"Content-Type": "application/json"})
        answer = line.getresponse()
        said = answer.read()
        if answer.status != 202:
            print(f"{answer.status}: {said.decode()}", file=sys.stderr)
        else:
            took.append(time.perf_counter() - at)


def claims(db: Database, until: float) -> list[float]:
    """How long each took to take the next case."""
    took = []
    while time.monotonic() < until:
        at = time.perf_counter()
        claim_next(db, WHO.at(datetime.now(UTC)))
        took.append(time.perf_counter() - at)
        time.sleep(0.05)
    return took


def tell_times(name: str, took: list[float]) -> None:
    """Median and 95th percentile, in milliseconds."""
    late = quantiles(took, n=20)[-1]
    tell(
        Figure(
            name=f"{name}, p50",
            value=1000 * median(took),
            unit="ms",
            note=f"p95 {1000 * late:.0f} ms, n = {len(took):,}",
        )
    )


def serve(url: str, seconds: float) -> None:
    """The measurement on this database."""
    db, port = Database(url), free_port()
    db.prepare()
    add_cases(db, 0, WAITING)
    made = make_program(db, LOCAL_USER.at(datetime.now(UTC)), "bench", [Scope.SUBMIT], 10_000)
    command = [sys.executable, "-W", "ignore", "-m", "screening", "api", "--port", str(port)]
    process = subprocess.Popen(command, env=os.environ | {"DATABASE_URL": url, "SECOND_LOOK_SAMPLER": "simulated"})
    try:
        until_healthy(f"http://127.0.0.1:{port}/healthz")
        tell_times("take the next case, alone", claims(db, time.monotonic() + seconds / 6))
        _submit_all(db, port, made.token, process.pid, seconds)
    finally:
        process.terminate()
        process.wait(timeout=20)
        db.close()


def _submit_all(db: Database, port: int, token: str, pid: int, seconds: float) -> None:
    took: list[float] = []
    each = int(PER_MINUTE * seconds / 60 / SENDERS)
    threads = [
        threading.Thread(target=submit, args=(port, token, place * each, each, seconds / each, took))
        for place in range(SENDERS)
    ]
    before, began = processor_s(pid), time.monotonic()
    for thread in threads:
        thread.start()
    beside = claims(db, began + seconds)
    for thread in threads:
        thread.join()
    spent, lasted = processor_s(pid) - before, time.monotonic() - began
    tell_times("take the next case, meanwhile", beside)
    tell_times("submit a text", took)
    of_it = f"{spent / lasted:.0%} of one core"
    tell(Figure(name="processor time of the API a text", value=1000 * spent / len(took), unit="ms", note=of_it))
    tell(Figure(name="texts a minute that were taken", value=60 * len(took) / lasted, aim=AIM, at_least=True))


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minute", type=float, default=20.0, help="seconds of submitting")
    parser.add_argument("--url", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        serve(given.url or f"sqlite:///{Path(folder) / 'bench.db'}", given.minute)


if __name__ == "__main__":
    main()
