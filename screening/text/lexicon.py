"""Lists of wordings in a file: expressions by kind, with words that stand for others, compiled once a process."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_NAMED = re.compile("@([A-Za-z_]+)@")


class Lexicon:
    """The file of this name beside this one.

    ``@name@`` in an expression stands for the entry of ``[words]`` with that name, which may hold others.
    """

    def __init__(self, name: str) -> None:
        text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
        self.table: Mapping[str, Any] = tomllib.loads(text)

    def whole(self, expression: str) -> str:
        """The expression with every name replaced; KeyError for one that the file does not have."""
        while _NAMED.search(expression):
            expression = _NAMED.sub(lambda named: self.table["words"][named[1]], expression)
        return expression

    def entries(self, *sections: str) -> Iterator[tuple[str, str]]:
        """Kind and whole expression of all entries of these sections, in the order of the file."""
        for section in sections:
            for kind, expressions in self.table[section].items():
                for expression in expressions:
                    yield kind, self.whole(expression)
