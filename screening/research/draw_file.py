"""Recorded draws as a file: JSON lines, one case and node a line, so that an experiment can be repeated offline."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from screening.engine.draws import decode_draws
from screening.research.recording import DrawBook, Item, NodeDraws


class DrawLine(BaseModel):
    """One line: the item's id, the node, its draws as codes in request order, their tokens and cost where known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    node: str
    draws: str
    tokens: int | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0)

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
        if (places[read.id], read.node) in book.nodes:
            raise ValueError(f"line {number}: {read.node} stands twice for one id")
        book.nodes[places[read.id], read.node] = NodeDraws(codes=read.draws, tokens=read.tokens, cost_usd=read.cost_usd)
    return book


def draw_lines(book: DrawBook, items: Sequence[Item]) -> Iterator[str]:
    """The book as lines, cases in the order of the data set."""
    for (case, node), drawn in sorted(book.nodes.items()):
        if drawn.codes:
            line = DrawLine(
                id=items[case].id, node=node, draws=drawn.codes, tokens=drawn.tokens, cost_usd=drawn.cost_usd
            )
            yield line.model_dump_json() + "\n"


def _places(items: Sequence[Item]) -> Mapping[str, int]:
    places = {item.id: place for place, item in enumerate(items)}
    if len(places) != len(items):
        raise ValueError("two items share an id")
    return places
