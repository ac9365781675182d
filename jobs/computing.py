"""Long computations of the research pages, in one process beside the server, so that they never hold up clinicians.

The process starts when there is something to compute, does one thing after the other, keeps what it read last, and ends
after a while without work, or with the server: it reads its tasks from a socket that then closes.
"""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar, TypeVarTuple

from storage.database import Database

PROGRAM = Path(__file__).parent.parent
IDLE_S, ENDS_AFTER_S = 300.0, 330.0
"""Without work for so long, the process is not asked any more, and ends by itself."""
POLITE = 5
"""The process's niceness: pages come before computations."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
log = logging.getLogger(__name__)
Function = Callable[..., Any]
Wanted = tuple[Function, str, tuple[Any, ...]]
"""The function to compute, the URL of its database, and its arguments."""


class NotComputed(Exception):
    """The computation failed; the words say why."""


class Cache(Generic[T]):
    """The ``most`` values used last. Two threads that ask for the same value at once make it once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.RLock()

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """Made unless it is kept. What cannot be made is not kept."""
        with self._lock:
            if key not in self._values:
                while len(self._values) >= self._most:  # before, so that both are not held at once
                    self._values.popitem(last=False)
                self._values[key] = make()
            self._values.move_to_end(key)
            return self._values[key]

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: T) -> None:
        self.of(key, lambda: value)

    def forget(self, key: Hashable, value: T | None = None) -> None:
        """Keep it no longer; with ``value`` only where that one is kept."""
        with self._lock:
            if value is None or self._values.get(key) is value:
                self._values.pop(key, None)


class Computation(Future[Any]):
    """``words`` say what is done just now."""

    words = "Waiting for another computation to end"

    def wait(self, seconds: float) -> bool:
        return bool(wait([self], seconds).done)


class SideProcess:
    """One process for all that is asked for, begun when something is and ended by `stop`, a failure or long idleness.
    It imports the functions by name and is sent their arguments and results pickled.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._last = 0.0

    def begin(self, function: Function, url: str, *args: Any) -> Computation:
        """Compute ``function(database, *args)`` when its turn comes."""
        computation = Computation()
        threading.Thread(target=self._run, args=((function, url, args), computation), daemon=True).start()
        return computation

    def stop(self) -> None:
        process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.kill()
            process.wait()

    def _run(self, wanted: Wanted, computation: Computation) -> None:
        with self._turn:
            try:
                kind, told = self._ask(wanted, computation)
            except Exception as error:  # whatever it is, whoever waits is told
                log.error("the process for long computations ended, or takes no task: %s", type(error).__name__)
                self.stop()
                kind, told = "failed", f"it could not be handed over ({type(error).__name__})"
                if isinstance(error, (EOFError, OSError)):
                    told = "the process that computes ended before it was done, perhaps for want of memory"
            self._last = time.monotonic()
        if kind == "result":
            computation.set_result(told)
        else:
            computation.set_exception(NotComputed(told))

    def _ask(self, wanted: Wanted, computation: Computation) -> tuple[str, Any]:
        computation.words = "Starting"
        pipe = self._ensure_started()
        pipe.send(wanted)
        while True:
            kind, told = pipe.recv()
            if kind != "words":
                return kind, told
            computation.words = told

    def _ensure_started(self) -> Connection:
        idle = time.monotonic() - self._last > IDLE_S
        if self._pipe is None or self._process is None or self._process.poll() is not None or idle:
            self.stop()
            ours, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, "-m", "jobs.computing", str(theirs.fileno())]
                path = os.pathsep.join(filter(None, (str(PROGRAM), os.environ.get("PYTHONPATH"))))
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    command,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": path},
                    stdin=subprocess.DEVNULL,
                )
            self._pipe = Connection(ours.detach())
        return self._pipe


_listener: list[Connection] = []


def tell(words: str) -> None:
    """Tell whoever waits what is being done now; does nothing in the server's own process."""
    for pipe in _listener:
        pipe.send(("words", words))


def without_database(_: Database, function: Callable[[*Ts], T], *args: *Ts) -> T:
    return function(*args)


def _serve(pipe: Connection) -> None:
    """Compute what is asked for, one after the other, until the server is gone or asks nothing for a while."""
    _listener.append(pipe)
    databases: Cache[Database] = Cache(1)
    while pipe.poll(ENDS_AFTER_S):
        function, url, args = pipe.recv()
        try:
            told = function(databases.of(url, partial(Database, url)), *args)
            pipe.send(("result", told))
        except Exception as error:
            if isinstance(error, (BrokenPipeError, ConnectionError)):
                raise  # nobody waits any more
            place = traceback.extract_tb(error.__traceback__)[-1]  # never the words: they may quote a text
            log.error("a computation failed: %s at %s:%s", type(error).__name__, place.filename, place.lineno)
            words = f"it failed ({type(error).__name__}); the app's log says where"
            pipe.send(("failed", words))


def main(descriptor: str) -> None:
    """The process: its end of the socket is its one argument."""
    import signal

    from jobs.process import begin

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server's end ends it
    os.nice(POLITE)
    begin()
    try:
        _serve(Connection(int(descriptor)))
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    # under its own name, so that what it computes with and what it tells is one module
    from jobs import computing

    computing.main(sys.argv[1])
