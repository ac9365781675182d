"""Start the app and its worker together, start either again if it ends, and stop both together."""

import argparse
import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from jobs.process import begin
from screening.settings import Settings

HERE = Path(__file__).parent
_PR_SET_PDEATHSIG = 1
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
SETTLED_S = 30.0  # a process that ends later than this after its start is started again soon
GIVEN_UP_WITHIN_S = 10.0
"""An app that is still ending, such as the one stopped a moment ago, has freed its port by then."""

log = logging.getLogger("serve")


def commands(settings: Settings, port: int) -> dict[str, tuple[str, ...]]:
    """What is started, by name; the API for programs where its port is set."""
    api = {"api": ("-m", "screening", "api", "--port", str(settings.api_port))} if settings.api_port else {}
    return {"app": ("app.py", "--port", str(port)), "worker": ("worker.py",), **api}


class RestartedProcess:
    """A process that is started again when it ends: soon at first, more slowly while it keeps ending at once."""

    def __init__(self, name: str, arguments: tuple[str, ...]) -> None:
        self.name, self._command = name, (sys.executable, *arguments)
        self._pause_s = FIRST_PAUSE_S
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(self._command, cwd=HERE, preexec_fn=_end_with_parent)  # noqa: S603 - our own
        self._began = time.monotonic()
        self._again_at: float | None = None

    def look(self) -> None:
        now = time.monotonic()
        if self.process.poll() is None:
            return
        if self._again_at is None:
            settled = now - self._began > SETTLED_S
            self._pause_s = FIRST_PAUSE_S if settled else min(LONGEST_PAUSE_S, 2 * self._pause_s)
            self._again_at = now + self._pause_s
            log.warning("the %s ended (%s): started again in %.0f s", self.name, self.process.returncode, self._pause_s)
        elif now >= self._again_at:
            self._start()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _end_with_parent() -> None:
    """On Linux: the child is asked to end when its parent dies, however it dies, so that port and lock become free."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def serve(settings: Settings, port: int) -> int:
    """Run until a signal comes; 1 where the app cannot even start (its options are refused, its port is taken, its
    database cannot be used): it says why.
    """
    until = time.monotonic() + GIVEN_UP_WITHIN_S
    while (taken := _answers(port)) and time.monotonic() < until:
        time.sleep(0.5)
    if taken:
        log.error("port %d is taken by another program: end that, or choose another port (PORT=...)", port)
        return 1
    app, *beside = [RestartedProcess(*command) for command in commands(settings, port).items()]
    answered = False
    try:
        while True:
            time.sleep(0.5)
            answered = answered or _answers(port)
            if app.process.poll() is not None and not answered:
                return app.process.returncode or 1
            for kept in (app, *beside):
                kept.look()
    finally:
        for kept in (*beside, app):
            kept.stop()


def _answers(port: int) -> bool:
    with socket.socket() as there:
        there.settimeout(1)
        return there.connect_ex(("127.0.0.1", port)) == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8501")))
    port = parser.parse_args().port
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    os.chdir(HERE)  # as its processes, which read the `.env` there
    try:
        return serve(begin(), port)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
