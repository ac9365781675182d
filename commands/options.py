"""A command is a function, and its parameters are its options: each is declared once, with its type and its words.

`Annotated[Path, "words", "FILE"]`: what the option is for, and what stands for its value in the help. Parameters by
keyword alone are options, the others arguments by place. A parameter whose type is a dataclass is a group of options.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from enum import StrEnum
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from screening.settings import Settings
from storage.database import Database, Fault

Command = Callable[..., Any]
Actions = Mapping[str, tuple[Command, str]]
"""The actions of a command that has several, each with what it does."""


def add_command(parser: argparse.ArgumentParser, command: Command | Actions) -> None:
    """Add the options of a command, or of each of its actions, and what is called with them."""
    if isinstance(command, Mapping):
        actions = parser.add_subparsers(required=True, metavar="ACTION")
        for name, (action, words) in command.items():
            add_command(actions.add_parser(name, help=words, description=words), action)
        return
    add_options(parser, command)
    parser.set_defaults(run=lambda given: call(command, given))


def add_options(parser: Any, command: Command) -> None:
    """Add an option for each parameter of a function, or for each field of a dataclass."""
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        if hasattr(hints[name], "add_options"):
            hints[name].add_options(parser)
        elif is_dataclass(hints[name]):
            add_options(parser, hints[name])
        else:
            by_place, required = parameter.kind is not Parameter.KEYWORD_ONLY, parameter.default is Parameter.empty
            how = how_said(hints[name], by_place) | ({} if required else {"default": parameter.default})
            if by_place:
                parser.add_argument(name, **how)
            else:
                parser.add_argument(f"--{name.rstrip('_').replace('_', '-')}", dest=name, required=required, **how)


def call(command: Command, given: argparse.Namespace) -> Any:
    hints = get_type_hints(command, include_extras=True)
    return command(**{name: _value(hints[name], name, given) for name in signature(command).parameters})


def _value(hint: Any, name: str, given: argparse.Namespace) -> Any:
    if hasattr(hint, "add_options"):
        return hint(**vars(given))
    return call(hint, given) if is_dataclass(hint) else getattr(given, name)  # type: ignore[arg-type]


def how_said(hint: Any, by_place: bool = False) -> dict[str, Any]:
    """What argparse is told of a type.

    >>> how_said(Annotated[list[int] | None, "how many", "N"])
    {'help': 'how many', 'metavar': 'N', 'action': 'append', 'type': <class 'int'>}
    >>> how_said(bool), how_said(Literal["a", "b"])
    ({'action': 'store_true'}, {'choices': ['a', 'b']})
    """
    how: dict[str, Any] = {}
    if get_origin(hint) is Annotated:
        hint, *words = get_args(hint)
        how = dict(zip(("help", "metavar"), (words[0].replace("%", "%%"), *words[1:]), strict=False))
    if type(None) in get_args(hint):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    if hint is bool:
        return how | {"action": "store_true"}
    if get_origin(hint) in (list, tuple):
        how |= {"nargs": "+"} if by_place else {"action": "append"}
        hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        return how | {"choices": list(get_args(hint))}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return how | {"choices": list(hint), "type": hint}
    return how if hint is str else how | {"type": hint}


def say(*lines: str) -> None:
    """Tell a person, beside what the command prints."""
    print(*lines, sep="\n", end="\n" if lines else "", file=sys.stderr, flush=True)


# The database that a command works on: the one it is told, else the site's own.

Url = Annotated[str | None, "default: the site's own (DATABASE_URL)", "URL"]


@contextmanager
def opened(url: str | None, *, must_exist: bool = False) -> Iterator[Database]:
    """The database, its tables up to date. ValueError where it must exist and does not."""
    with found(url, must_exist=must_exist) as db:
        db.prepare()
        yield db


@contextmanager
def undamaged(url: str | None, done: str) -> Iterator[Database]:
    """The database as it is, once all of it was read. ValueError that nothing was ``done`` where it is damaged."""
    with found(url, must_exist=True) as db:
        if (damage := db.damage()) is not None:
            raise ValueError(f"nothing was {done}: the database is {Fault.DAMAGED.value} ({damage})")
        yield db


@contextmanager
def found(url: str | None, *, must_exist: bool = False, repeatable: bool = False) -> Iterator[Database]:
    """The database as it is, closed afterwards."""
    db = Database(url or Settings().database_url, repeatable=repeatable)
    try:
        if must_exist and not db.exists():
            raise ValueError("there is no such database")
        yield db
    finally:
        db.close()
