"""The command line: the same work as the pages, without a browser and for large files."""

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, TextIO

COMMANDS = {
    "screen": ("screen", "screen a file: CSV, JSON, xlsx, Parquet, a saved data set, or a tool's export"),
    "batches": ("batches", "list, show, pause, resume, cancel, retry batches, and write their results"),
    "pipelines": ("pipelines", "list, check, export and import pipelines (TOML)"),
    "evaluate": ("evaluate", "the paper's conditions and ours on a labelled data set"),
    "correct": ("correct", "accuracy, FNR and FPR corrected for wrong reference labels"),
    "import-draws": ("evaluate", "labels that models gave elsewhere as draws to replay"),
    "rule": ("rule", "run a stopping rule on given draws"),
    "certify": ("rule", "prove the certificates anew, or find the levels of another"),
    "metrics": ("metrics", "metrics of a CSV file with columns reference and outcome"),
    "verify-audit": ("site", "check that the audit log was not changed"),
    "backup": ("site", "the whole database into one file, while everybody works"),
    "restore": ("site", "a backup into an empty database, SQLite or PostgreSQL"),
    "erase": ("site", "erase texts, replies, notes and drafts; hashes and counts stay"),
    "retention": ("site", "erase what is past the times that the site has set"),
    "api": ("site", "serve /api/v1 to programs"),
}
"""Each subcommand's module and what it is for. The module of the one that is asked for is imported, and no other."""


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; its exit code (2 for input or a database that cannot be used, with a sentence on stderr)."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m screening", description=__doc__)
    subcommands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in given if not word.startswith("-")), None)
    module = COMMANDS[asked][0] if asked in COMMANDS else None
    if module is not None:
        import_module(f"commands.{module}").add_to(subcommands)
    for name, (other, words) in COMMANDS.items():
        if other != module:
            subcommands.add_parser(name, help=words)
    with _stopped_in_order(), redirect_stderr(_Visible(sys.stderr)), redirect_stdout(_for_terminal(sys.stdout)):
        return _run(parser, parser.parse_args(given))


class _Visible:
    """A stream that shows control characters, of a file's name or a column's, instead of obeying them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        """Write them, made visible."""
        from screening.text.display import visible

        return self._stream.write(words if words.isascii() and words.isprintable() else visible(words))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _for_terminal(stream: TextIO) -> Any:
    """What goes into a file or another program stays as it is."""
    return _Visible(stream) if stream.isatty() else stream


@contextmanager
def _stopped_in_order() -> Iterator[None]:
    """SIGTERM and a terminal that is closed stop a command as Ctrl+C does: what it kept in a temporary place goes."""
    here = current_thread() is main_thread()
    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if here and signal.getsignal(one) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(number)


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> int:
    from screening.datasets.sources import FileRefused

    try:
        code: int = parsed.run(parsed)
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt as stopped:
        print(f"{parser.prog}: stopped before its end", file=sys.stderr)
        return 128 + next(iter(stopped.args), int(signal.SIGINT))
    except FileNotFoundError as missing:
        print(f"{parser.prog}: there is no file {missing.filename}", file=sys.stderr)
        return 2
    except (FileRefused, ValueError, OSError) as problem:
        print(f"{parser.prog}: {problem}", file=sys.stderr)
        return 2
    except Exception as error:
        from storage.database import passing_fault

        if (fault := passing_fault(error)) is None:
            raise
        print(f"{parser.prog}: nothing more was done: the database is {fault.value}", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
