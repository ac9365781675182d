"""The processes that are measured: the app on a free port, a browser's switches, and what a process has used."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from tests.processes import free_port

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

ROOT: Final = Path(__file__).parent.parent
BROWSER_ARGUMENTS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@contextmanager
def stub_server(latency: float) -> Iterator[str]:
    """The address of a stub of the Messages API in a process of its own, which takes so many seconds to answer."""
    command = [sys.executable, "-m", "tests.stub_server", "--port", "0", "--jitter", "0", "--latency", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[6]
        finally:
            process.terminate()


async def ask_bare(client: "AsyncAnthropic", model: str, prompt: str, text: str, temperature: float) -> None:
    """One call as the sampler makes it, by the library alone."""
    await client.messages.create(
        model=model,
        max_tokens=10,
        system=[{"type": "text", "text": prompt}, {"type": "text", "text": "One record."}],
        messages=[{"role": "user", "content": json.dumps({"text": text})}],
        thinking={"type": "disabled"},
        extra_headers={"anthropic-version": "2023-06-01"},
        extra_body={"temperature": temperature},
    )


@contextmanager
def app_process(url: str, **named: str) -> Iterator[tuple[str, int]]:
    """The app beside a database, with these settings; its address and the number of its process."""
    address = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "app.py", "--port", address.rpartition(":")[2]]
    environment = os.environ | {"DATABASE_URL": url, "SECOND_LOOK_SAMPLER": "simulated"} | named
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=silent, stderr=silent) as process:
        try:
            until_healthy(f"{address}/_stcore/health")
            yield address, process.pid
        finally:
            process.terminate()


def until_healthy(address: str, seconds: int = 120) -> None:
    """Wait until a server answers there. Raises RuntimeError when it has not by then."""
    for _ in range(10 * seconds):
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"no answer from {address}")


def processor_s(pid: int) -> float:
    """Seconds of processor time of a process so far, the kernel's part among them."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system
