"""What app and worker log, and how: lines for people, or one JSON object a line for a machine."""

import json
import logging
from datetime import UTC, datetime
from typing import Literal

PLAIN = "%(asctime)s %(name)s %(levelname)s %(message)s"
CHATTY = ("procrastinate", "httpx", "httpx2", "httpcore", "anthropic", "apprise")
"""Libraries that would write a line for every job, call or message."""


def _is_told(record: logging.LogRecord) -> bool:
    """Not a chatty library's line below a warning. Held where it is written: the model library sets the levels of its
    loggers by itself, at whatever time it is imported.
    """
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] not in CHATTY


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


def set_up(kind: Literal["plain", "json"]) -> None:
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
