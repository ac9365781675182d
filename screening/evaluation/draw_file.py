"""Recorded draws as a file: JSON lines, one case and node a line, so that an experiment can be repeated offline.

While it is recorded each answer is appended as it comes, with its number (``at``); at the end the file is written anew.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TextIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from screening.evaluation.recording import DrawBook, Item, NodeDraws
from screening.pipeline.draws import decode_draws


class DrawLine(BaseModel):
    """One line: the item's id, the node, its draws as codes in request order, their tokens and cost where known. With
    ``at`` it is one answer, which has this number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    node: str
    draws: str
    tokens: int | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0)
    at: int | None = Field(default=None, ge=0)

    @field_validator("draws")
    @classmethod
    def _codes(cls, draws: str) -> str:
        decode_draws(draws)
        return draws


def read_draws(lines: Iterable[str], items: Sequence[Item]) -> DrawBook:
    """The draws of these items. Lines of other ids are passed over; ValueError for a line that is none or a repeat."""
    book, places = DrawBook(len(items)), _places(items)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            read = DrawLine.model_validate_json(line)
        except ValidationError as problem:
            raise ValueError(f"line {number} is no record of draws: {problem.errors()[0]['msg']}") from None
        if read.id not in places:
            continue
        drawn = NodeDraws(codes=read.draws, tokens=read.tokens, cost_usd=read.cost_usd)
        if read.at is not None:
            if len(read.draws) != 1:
                raise ValueError(f"line {number} has a number (at) and {len(read.draws)} draws instead of one")
            book.of(places[read.id], read.node).keep(read.at, drawn)
        elif (places[read.id], read.node) in book.nodes:
            raise ValueError(f"line {number}: {read.node} stands twice for one id")
        else:
            book.nodes[places[read.id], read.node] = drawn
    return book


def draw_lines(book: DrawBook, items: Sequence[Item]) -> Iterator[str]:
    """The book as lines, cases in the order of the data set."""
    for (case, node), drawn in sorted(book.nodes.items(), key=lambda each: each[0]):
        if drawn.codes:
            yield _line(items[case].id, node, drawn)
        for at, answer in sorted(drawn.ahead.items(), key=lambda each: each[0]):
            yield _line(items[case].id, node, answer, at)


def _line(identity: str, node: str, drawn: NodeDraws, at: int | None = None) -> str:
    line = DrawLine(id=identity, node=node, draws=drawn.codes, tokens=drawn.tokens, cost_usd=drawn.cost_usd, at=at)
    return line.model_dump_json(exclude={"at"} if at is None else None) + "\n"


@dataclass(slots=True)
class GrowingFile:
    """A file that every answer is appended to, and that is written anew when all are there. A process that is killed
    leaves what it was answered, and at most half a last line, which `read_growing` passes over.
    """

    path: Path
    items: Sequence[Item]
    book: DrawBook
    _file: TextIO | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        self.rewrite()
        self._file = self.path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        self.rewrite()

    def keep(self, case: int, node: str, number: int, answer: NodeDraws) -> None:
        """Append one answer: it is in the file before anything else happens."""
        if self._file is not None:
            self._file.write(_line(self.items[case].id, node, answer, number))
            self._file.flush()

    def rewrite(self) -> None:
        """The whole book in the place of the file, which is never without it."""
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.write_text("".join(draw_lines(self.book, self.items)), encoding="utf-8")
        beside.replace(self.path)


def read_growing(path: Path, items: Sequence[Item]) -> DrawBook:
    """The draws in a file that a recording may have been cut off in."""
    lines = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    return read_draws(lines if not lines or lines[-1].endswith("\n") else lines[:-1], items)


def _places(items: Sequence[Item]) -> Mapping[str, int]:
    places = {item.id: place for place, item in enumerate(items)}
    if len(places) != len(items):
        raise ValueError("two items share an id")
    return places
