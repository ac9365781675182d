"""`python -m tests.guarded_program LOG MODULE …`: run a module that may reach nothing but this machine, and note what
it tried beyond: one host a line in LOG. It finds what it would without an internet: each attempt fails.
"""

import runpy
import sys
from pathlib import Path

from tests.socket_guard import NotLoopback, SocketGuard

if __name__ == "__main__":
    log, module = Path(sys.argv[1]), sys.argv[2]
    guard = SocketGuard()

    def noted(event: str, arguments: tuple[object, ...]) -> None:
        """The guard, with its refusals on disk."""
        try:
            guard(event, arguments)
        except NotLoopback:
            with log.open("a", encoding="utf-8") as lines:
                lines.write(f"{event} {guard.refused[-1]}\n")
            raise

    log.touch()
    sys.addaudithook(noted)
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
