"""Processes that are forked from one that has everything imported, so that many can be started and killed."""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

ONCE = [
    "tests.jobs.taking_in",
    "tests.jobs.deadly_worker",
    "api.app",
    "jobs.procrastinate",
    "screening.models.batches",
]
"""What is imported once, for all that are forked."""


class Forked:
    """Such a process, with what a `subprocess.Popen` has."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(ONCE)
        self._process: ForkServerProcess = context.Process(target=function, args=arguments, daemon=True)
        self._process.start()
        self.pid = int(self._process.pid or 0)

    def poll(self) -> int | None:
        """What it ended with; None while it lives."""
        return self._process.exitcode

    def send_signal(self, sign: int) -> None:
        """Whether it lives or not."""
        if self.poll() is None:
            os.kill(self.pid, sign)

    def wait(self, timeout: float) -> int | None:
        """Until it has ended, but no longer than so many seconds."""
        self._process.join(timeout)
        return self.poll()


def run_program(arguments: tuple[str, ...], environment: Mapping[str, str], log: Path) -> None:
    """As a python that is started with these arguments."""
    os.environ.clear()
    os.environ.update(environment)
    written = os.open(log, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(written, stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")
