"""What a process of a site begins with: its settings, its log, its name, the time, and a patient garbage collector."""

import gc
import json
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

from pydantic import ValidationError

from screening.settings import Settings
from storage.database import passing_fault

Clock = Callable[[], datetime]
SCAN_EVERY = 10_000
"""New objects between two scans of the youngest; Python's own 700 is for small programs."""
PLAIN = "%(asctime)s %(name)s %(levelname)s %(message)s"
CHATTY = ("procrastinate", "httpx", "httpx2", "httpcore", "anthropic", "apprise")
"""Libraries that would write a line for every job, call or message."""


def begin() -> Settings:
    """The settings, once the log is set up as they say. A process whose settings cannot be read ends with 1, and says
    which: never what they are set to, for keys are among them.
    """
    spare_loaded_objects()
    try:
        settings = Settings()
    except ValidationError as wrong:
        set_up_log("plain")
        logging.getLogger("settings").error("%s", wrong)
        raise SystemExit(1) from None
    set_up_log(settings.log_format)
    return settings


@contextmanager
def exit_without_database(log: logging.Logger) -> Iterator[None]:
    """Ends the process with 1 and a sentence, no traceback, where the database has a fault that may pass by itself."""
    try:
        yield
    except Exception as error:
        if (fault := passing_fault(error)) is None:
            raise
        log.error("the database is %s", fault.value)
        raise SystemExit(1) from None


def system_clock() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


def worker_name(prefix: str = "") -> str:
    """A name of this process for the records and the shared limits.

    Two containers on one host may have its name and the same process number: the end is random, so that neither
    is taken for the other. Nobody who starts again finds its former self by it.
    """
    return f"{prefix}{socket.gethostname()}"[:40] + f"-{os.getpid()}-{secrets.token_hex(6)}"


def spare_loaded_objects() -> None:
    """Exclude what exists now from garbage collection: it lasts as long as the process, and the collector would scan it
    many times a second while there is work. New objects are scanned less often than usual.
    """
    gc.freeze()
    gc.set_threshold(SCAN_EVERY)


class JsonLines(logging.Formatter):
    """One JSON object a line. An exception is told by its kind and place, never by its words."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as a line of JSON."""
        told: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "name": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            told["exception"] = record.exc_info[0].__name__
            told["where"] = f"{record.pathname}:{record.lineno}"
        return json.dumps(told, ensure_ascii=True)


def set_up_log(kind: Literal["plain", "json"]) -> None:
    """Log to standard error, in this format; of what libraries say, warnings and errors.

    The plain handler that a library may have given the root logger (the model library does, where its own logging is
    asked for) goes. Any other handler is somebody's choice: nothing is added beside it.
    """
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
    root = logging.getLogger()
    if any(type(handler) is not logging.StreamHandler for handler in root.handlers):
        return
    handler = logging.StreamHandler()
    handler.addFilter(_is_told)
    handler.setFormatter(JsonLines() if kind == "json" else logging.Formatter(PLAIN))
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


def _is_told(record: logging.LogRecord) -> bool:
    """Not a chatty library's line below a warning. Held where it is written: the model library sets the levels of its
    loggers by itself, at whatever time it is imported.
    """
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] not in CHATTY
