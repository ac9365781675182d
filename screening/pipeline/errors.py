"""Every kind of error of a case and reason of a stop: whose it is, whether it passes, what a person is told."""

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Whose(StrEnum):
    MODEL = "model"
    TEXT = "text"
    SITE = "site"


class ErrorKind(NamedTuple):
    whose: Whose
    words: str
    passes: bool = False
    mend: str = ""


NO_LABEL = "no_usable_answer"
_TABLE = tomllib.loads(Path(__file__).with_name("errors.toml").read_text(encoding="utf-8"))
ERROR_KINDS: Mapping[str, ErrorKind] = {
    kind: ErrorKind(whose, told["words"], told.get("passes", False), _TABLE["mends"].get(told.get("mend"), ""))
    for whose in Whose
    for kind, told in _TABLE[whose].items()
}
NOT_THE_MODEL = sorted(kind for kind, known in ERROR_KINDS.items() if known.whose is not Whose.MODEL)


def error_kind(kind: str) -> ErrorKind:
    """What is known of this kind. One that is not listed is the model's, comes again, and is told as it is called.

    >>> error_kind("node_melted")
    ErrorKind(whose=<Whose.MODEL: 'model'>, words='node melted', passes=False, mend='')
    """
    return ERROR_KINDS.get(kind) or ErrorKind(Whose.MODEL, kind.replace("_", " "))
