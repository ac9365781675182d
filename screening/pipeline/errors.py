"""Every kind of error of a case and reason of a stop: whose it is, whether it passes, what a person is told."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from screening.pipeline.draws import TOO_LONG


class Whose(StrEnum):
    MODEL = "model"  # the model, its service, or how it is asked: other texts fail alike
    TEXT = "text"  # this text alone
    SITE = "site"  # the program, its database or what a person decided: nothing of the model


class ErrorKind(NamedTuple):
    """``passes``: it is over by itself, and tried again by itself. ``mend``: what is done before a press helps."""

    whose: Whose
    words: str
    passes: bool = False
    mend: str = ""


NO_LABEL = "no_usable_answer"
_ACCOUNT = "An administrator fixes it in the account or the settings of the model"
_MODEL, _TEXT, _SITE = Whose.MODEL, Whose.TEXT, Whose.SITE

ERROR_KINDS: Mapping[str, ErrorKind] = {
    "connection": ErrorKind(_MODEL, "the model cannot be reached", passes=True),
    "timeout": ErrorKind(_MODEL, "the model does not answer in time", passes=True),
    "deadline": ErrorKind(_MODEL, "the model does not answer in time", passes=True),
    "overloaded": ErrorKind(_MODEL, "the model's service is overloaded", passes=True),
    "server_error": ErrorKind(_MODEL, "the model's service fails", passes=True),
    "rate_limited": ErrorKind(_MODEL, "the model's service accepts no more calls for now", passes=True),
    "malformed": ErrorKind(_MODEL, "the model's service answers nonsense"),
    "authentication": ErrorKind(_MODEL, "the model's service refuses the key", mend=_ACCOUNT),
    "permission": ErrorKind(_MODEL, "the model's service refuses the key", mend=_ACCOUNT),
    "billing": ErrorKind(_MODEL, "the account with the model's service cannot be charged", mend=_ACCOUNT),
    "spend_cap": ErrorKind(_MODEL, "the account's spending limit with the model's service is reached", mend=_ACCOUNT),
    "unknown_model": ErrorKind(_MODEL, "the model's service does not know the model", mend=_ACCOUNT),
    "unknown_server": ErrorKind(_MODEL, "the settings no longer name the server of one of its agents", mend=_ACCOUNT),
    "redirected": ErrorKind(_MODEL, "the model's service points to another address", mend=_ACCOUNT),
    "bad_request": ErrorKind(_MODEL, "the model's service refuses the request"),
    "service": ErrorKind(_MODEL, "calls of the model fail"),
    "preflight_failed": ErrorKind(
        _MODEL,
        "the model failed the probes, and no administrator has allowed it",
        mend="An administrator can allow the model in writing, in Settings",
    ),
    NO_LABEL: ErrorKind(
        _MODEL,
        "the model gives no usable answers",
        mend="Whoever runs the server looks at what the model's service answers",
    ),
    "expired": ErrorKind(_MODEL, "the service did not process it within a day"),
    "canceled": ErrorKind(_MODEL, "the service ended its message batch early"),
    "no_result": ErrorKind(_MODEL, "the service's results left it out"),
    "no_progress": ErrorKind(_MODEL, "the background service runs but makes no progress"),
    TOO_LONG: ErrorKind(_TEXT, "the text is too long for the model"),
    "no_reference": ErrorKind(_TEXT, "it has no reference label, so it is not sent by message batch"),
    "no_worker": ErrorKind(_SITE, "no background service is running"),
    "not_yet": ErrorKind(_SITE, "it is still waiting for the AI"),
    "unwatched": ErrorKind(_SITE, "page closed"),
    "internal_error": ErrorKind(
        _SITE, "an error inside the program", mend="Whoever runs the server looks at the worker's log"
    ),
    "file_refused": ErrorKind(_SITE, "its file cannot be read any further"),
    "nobody_takes_in": ErrorKind(_SITE, "upload stalled for 15 min"),
    "configuration_changed": ErrorKind(
        _SITE,
        "the settings now name other agents than this run began with",
        mend="Whoever runs the server restores the settings that it began with",
    ),
    "configuration_unreadable": ErrorKind(_SITE, "this version of the program cannot read its pipeline"),
    "max_calls": ErrorKind(_SITE, "its cap on calls is reached"),
    "max_cost": ErrorKind(_SITE, "its cap on cost is reached"),
    "cost_unknown": ErrorKind(_SITE, "it has a cap on cost, and the price of its calls is unknown"),
    "withdrawn": ErrorKind(_SITE, "it was broken off: cancelled, at its cap, or the background service ended"),
    "run_lost": ErrorKind(_SITE, "another start of it was first"),
    "connection_lost": ErrorKind(_SITE, "the connection to the database was lost"),
    "no_message_batches": ErrorKind(_SITE, "the agents cannot be asked by message batches"),
}

NOT_THE_MODEL = sorted(kind for kind, known in ERROR_KINDS.items() if known.whose is not _MODEL)


def error_kind(kind: str) -> ErrorKind:
    """What is known of this kind. One that is not listed is the model's, comes again, and is told as it is called.

    >>> error_kind("node_melted")
    ErrorKind(whose=<Whose.MODEL: 'model'>, words='node melted', passes=False, mend='')
    """
    return ERROR_KINDS.get(kind) or ErrorKind(Whose.MODEL, kind.replace("_", " "))
