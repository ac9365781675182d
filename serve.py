"""Start the app and its worker together, start the worker again if it ends, and stop both together."""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

HERE = Path(__file__).parent
_PR_SET_PDEATHSIG = 1
RESTART_PAUSE_S = 2.0


class Ended(Exception):
    """A signal asked the program to end."""


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise Ended


def _with_us() -> None:
    """On Linux: this child is told to end when its parent dies, however that dies, and leaves port and lock free."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *arguments], cwd=HERE, preexec_fn=_with_us)  # noqa: S603 - fixed arguments


def _app(port: int) -> subprocess.Popen[bytes]:
    return _start("-m", "streamlit", "run", str(HERE / "app.py"), "--server.port", str(port), "--server.headless=true")


def _worker() -> subprocess.Popen[bytes]:
    return _start(str(HERE / "worker.py"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def serve(port: int) -> int:
    """Run until the app ends or a signal comes; the app's exit code, 0 after a signal."""
    app, worker = _app(port), _worker()
    try:
        while (code := app.poll()) is None:
            time.sleep(0.5)
            if worker.poll() is not None:
                time.sleep(RESTART_PAUSE_S)
                worker = _worker()
        return code
    except (Ended, KeyboardInterrupt):
        return 0
    finally:
        _stop(worker)
        _stop(app)


def main() -> int:
    """Read the port and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8501")))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    return serve(parser.parse_args().port)


if __name__ == "__main__":
    sys.exit(main())
