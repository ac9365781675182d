"""The command line: the same work as the pages, without a browser and for large files."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, TextIO, cast

COMMANDS = {
    "screen": ("screen.screen", "screen a file: CSV, JSON, xlsx, Parquet, a saved data set, or a tool's export"),
    "batches": ("batches.ACTIONS", "list, show, pause, resume, cancel, retry batches, and write their results"),
    "pipelines": ("pipelines.ACTIONS", "list, check, export and import pipelines (TOML)"),
    "evaluate": ("evaluate.evaluate", "the paper's conditions and ours on a labeled data set"),
    "correct": ("correct.ACTIONS", "accuracy, FNR and FPR corrected for wrong reference labels"),
    "import-draws": ("import_draws.import_draws", "labels that models gave elsewhere as draws to replay"),
    "rule": ("tools.rule", "run a stopping rule on given draws"),
    "certify": ("tools.certify", "prove the certificates anew"),
    "metrics": ("tools.metrics", "metrics of a CSV file with columns reference and outcome"),
    "settings": ("site.settings", "every option, its default, and which are set here, as a table"),
    "verify-audit": ("site.verify_audit", "check that the audit log was not changed"),
    "backup": ("site.backup", "the whole database into one file, while everybody works"),
    "restore": ("site.restore", "a backup into an empty database, SQLite or PostgreSQL"),
    "erase": ("site.erase", "erase texts, replies, notes and drafts; hashes and counts stay"),
    "retention": ("site.retention", "erase what is past the times that the site has set"),
    "api": ("site.api", "serve /api/v1 to programs"),
}
"""Each command's function, or its actions, and what it is for. Only the module of the one asked for is imported."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its exit code (2 for input or a database that cannot be used, with a sentence on stderr)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m screening", description=__doc__)
    subcommands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = given[0] if given else None
    for name, (place, words) in COMMANDS.items():
        subcommand = subcommands.add_parser(name, help=words)
        if name == asked:
            from commands.options import add_command

            module, _, called = place.partition(".")
            command = getattr(import_module(f"commands.{module}"), called)
            add_command(subcommand, command)
            no_action = not given[1:] or (given[1].startswith("--") and given[1] != "--help")
            if isinstance(command, dict) and "list" in command and no_action:
                given.insert(1, "list")
    # what goes into a file or another program stays as it is
    out = cast(TextIO, _Visible(sys.stdout)) if sys.stdout.isatty() else sys.stdout
    with _stopped_in_order(), redirect_stderr(_Visible(sys.stderr)), redirect_stdout(out):
        parsed = parser.parse_args(given)
        return _run(parser.prog, lambda: parsed.run(parsed))


class _Visible:
    """A stream that shows control characters, of a file's name or a column's, instead of obeying them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        from screening.text.display import visible

        return self._stream.write(words if words.isascii() and words.isprintable() else visible(words))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _stopped_in_order() -> Iterator[None]:
    """SIGTERM and a terminal that is closed stop a command as Ctrl+C does: what it kept in a temporary place goes."""
    here = current_thread() is main_thread()
    numbers = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if here and signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


_stopped_by: list[int] = []


def _interrupt(number: int, frame: FrameType | None) -> None:
    """As Ctrl+C: an event loop cancels its task for that, and is not torn apart in the middle of one."""
    _stopped_by[:] = [number]
    as_for_ctrl_c = signal.getsignal(signal.SIGINT)  # ignored where the command was started in the background
    (as_for_ctrl_c if callable(as_for_ctrl_c) else signal.default_int_handler)(signal.SIGINT, frame)


def _run(program: str, command: Callable[[], int | None]) -> int:
    from screening.datasets.rows import FileRefused

    code = 2
    _stopped_by.clear()
    try:
        return command() or 0
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        code, why = 128 + next(iter(_stopped_by), int(signal.SIGINT)), "stopped before its end"
    except FileNotFoundError as missing:
        why = f"there is no file {missing.filename}"
    except (FileRefused, ValueError, OSError) as problem:
        why = str(problem)
    except Exception as error:
        from storage.batches.batch_state import UnknownBatch
        from storage.database import passing_fault

        fault = passing_fault(error)
        if fault is None and not isinstance(error, UnknownBatch):
            raise
        why = f"nothing more was done: the database is {fault.value}" if fault else f"there is no batch {error}"
    print(f"{program}: {why}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
