"""Start the app and its worker together, start either again if it ends, and stop both together."""

import argparse
import ctypes
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from types import FrameType

from jobs import logs

HERE = Path(__file__).parent
API_PORT, DATABASE = "SECOND_LOOK_API_PORT", "DATABASE_URL"
SQLITE = "sqlite:///"
USUAL_DATABASE = f"{SQLITE}var/second_look.db"
_PR_SET_PDEATHSIG = 1
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
SETTLED_S = 30.0
"""Seconds after its start; a process that ends later than this is started again soon."""
GIVEN_UP_WITHIN_S = 10.0
"""An app that is still ending, such as the one stopped a moment ago, has freed its port by then."""


@cache
def _log() -> logging.Logger:
    """The log, in the format that the settings name. They are read when there is something to log: importing them takes
    processor time that app and worker need to start. The app refuses settings that cannot be read, and says why.
    """
    from pydantic import ValidationError

    from screening.settings import Settings

    try:
        logs.set_up(Settings().log_format)
    except ValidationError:
        logs.set_up("plain")
    return logging.getLogger("serve")


class Ended(Exception):
    """A signal asked the program to end."""


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise Ended


def _end_with_parent() -> None:
    """On Linux: the child is asked to end when its parent dies, however it dies, so that port and lock become free."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *arguments], cwd=HERE, preexec_fn=_end_with_parent)  # noqa: S603 - fixed arguments


def _app(port: int) -> subprocess.Popen[bytes]:
    return _start(str(HERE / "app.py"), "--port", str(port))


def _worker() -> subprocess.Popen[bytes]:
    return _start(str(HERE / "worker.py"))


def _api(port: str) -> subprocess.Popen[bytes]:
    return _start("-m", "screening", "api", "--port", port)


class RestartedProcess:
    """A process that is started again when it ends: soon at first, more slowly while it keeps ending at once."""

    def __init__(self, name: str, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._name, self._start = name, start
        self._pause_s = FIRST_PAUSE_S
        self._again_at: float | None = None
        self._began = time.monotonic()
        self.process = start()

    def look(self) -> None:
        """Start it again where it has ended and its pause is over."""
        now = time.monotonic()
        if self.process.poll() is None:
            return
        if self._again_at is None:
            lived = now - self._began
            self._pause_s = FIRST_PAUSE_S if lived > SETTLED_S else min(LONGEST_PAUSE_S, 2 * self._pause_s)
            self._again_at = now + self._pause_s
            _log().warning(
                "the %s ended (%s): started again in %.0f s", self._name, self.process.returncode, self._pause_s
            )
        elif now >= self._again_at:
            self._again_at, self._began = None, now
            self.process = self._start()

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve(port: int) -> int:
    """Run until a signal comes; 1 where the app cannot even start (its settings are refused, its port is taken)."""
    if _is_taken(port):
        _log().error("port %d is taken by another program: end that, or choose another port (PORT=...)", port)
        return 1
    if (obstacle := obstacle_of(set_to(DATABASE) or USUAL_DATABASE)) is not None:
        _log().error("%s", obstacle)
        return 1
    app, worker = RestartedProcess("app", lambda: _app(port)), RestartedProcess("worker", _worker)
    beside = [worker, RestartedProcess("api", lambda: _api(api_port))] if (api_port := set_to(API_PORT)) else [worker]
    seen = False
    try:
        while True:
            time.sleep(0.5)
            seen = seen or _answers(port)
            if app.process.poll() is not None and not seen:
                return app.process.returncode or 1
            for kept in (app, *beside):
                kept.look()
    finally:
        for kept in (*beside, app):
            kept.stop()


def obstacle_of(database: str) -> str | None:
    """Why an embedded database cannot be used, in one sentence, before app and worker each say so again and again."""
    if not database.startswith(SQLITE):
        return None
    path = HERE / database.removeprefix(SQLITE).partition("?")[0]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("PRAGMA user_version = 0")
            connection.execute("COMMIT")
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return None
        if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return f"{path} is damaged, or no database: keep the file, and restore the last backup into a new one"
        return f"the database {path} cannot be written ({error}): make its folder writable, or free its disk"
    return None


def set_to(name: str) -> str:
    """What an option is set to, empty where it is not: from the environment or from the `.env` that app and worker
    read. Only that file's reader is imported for it, not all settings.
    """
    kept = HERE / ".env"
    if (given := os.environ.get(name)) or not kept.exists():
        return given or ""
    from dotenv import dotenv_values

    found = {key.upper(): value for key, value in dotenv_values(kept).items()}
    return found.get(name) or ""


def _is_taken(port: int) -> bool:
    """Whether another program holds this port."""
    until = time.monotonic() + GIVEN_UP_WITHIN_S
    while (taken := _answers(port)) and time.monotonic() < until:
        time.sleep(0.5)
    return taken


def _answers(port: int) -> bool:
    """Whether something listens on this port."""
    with socket.socket() as there:
        there.settimeout(1)
        return there.connect_ex(("127.0.0.1", port)) == 0


def main() -> int:
    """Read the port and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8501")))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        return serve(parser.parse_args().port)
    except (Ended, KeyboardInterrupt):
        return 0


if __name__ == "__main__":
    sys.exit(main())
