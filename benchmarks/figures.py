"""The one shape of a figure: its name, its value, its aim, and whether that is met.

Every section prints its figures through `tell`, as rows of a table; `benchmarks.__main__` reads the same rows again.
"""

import re
from dataclasses import dataclass

MET, NOT_MET, NO_AIM, LEFT_OUT = "met", "NOT MET", "", "not measured"
ROW = re.compile(r"^\| (?P<name>[^|]+) \| (?P<value>[^|]+) \| (?P<aim>[^|]*) \| (?P<met>[^|]*) \|$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured; ``aim`` is the most it may be; ``note`` says what belongs to it."""

    name: str
    value: float
    unit: str = ""
    aim: float | None = None
    note: str = ""

    @property
    def met(self) -> str:
        """In words; empty where nothing is aimed at."""
        if self.aim is None:
            return NO_AIM
        return MET if self.value <= self.aim else NOT_MET


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure in words, as it stands in the table."""

    name: str
    value: str
    aim: str
    met: str

    def __str__(self) -> str:
        return f"| {self.name} | {self.value} | {self.aim} | {self.met} |"


def row(figure: Figure) -> Row:
    """
    >>> print(row(Figure(name="poll", value=2.4, unit="ms", aim=5)))
    | poll | 2.40 ms | ≤ 5 ms | met |
    >>> print(row(Figure(name="of the bare loop", value=0.5, aim=0.35, note="2 workers")))
    | of the bare loop | 0.50 (2 workers) | ≤ 0.35 | NOT MET |
    >>> print(row(Figure(name="rows a second", value=12345.6)))
    | rows a second | 12,346 |  |  |
    """
    unit = f" {figure.unit}" if figure.unit else ""
    note = f" ({figure.note})" if figure.note else ""
    aim = "" if figure.aim is None else f"≤ {figure.aim:,g}{unit}"
    return Row(name=figure.name, value=f"{number(figure.value)}{unit}{note}", aim=aim, met=figure.met)


def number(value: float) -> str:
    """Three digits, or all before the point.

    >>> [number(each) for each in (0.0123, 0.3, 2.4, 45.67, 331.2, 1234567.0)]
    ['0.012', '0.30', '2.40', '45.7', '331', '1,234,567']
    """
    digits = 3 if abs(value) < 0.1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{digits}f}"


def tell(figure: Figure) -> None:
    """Print it."""
    print(row(figure), flush=True)


def leave_out(name: str, why: str) -> None:
    """Print that it was not measured here."""
    print(Row(name=name, value=why, aim="", met=LEFT_OUT), flush=True)


def read(line: str) -> Row | None:
    """What `tell` or `leave_out` printed; None for any other line.

    >>> read("| poll | 2.40 ms | ≤ 5 ms | met |").met, read("a remark")
    ('met', None)
    """
    found = ROW.match(line.rstrip("\n"))
    return Row(**found.groupdict()) if found else None
