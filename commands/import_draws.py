"""`import-draws`: labels that several models gave each row of a file become recorded draws, to be replayed."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from commands.mapping_options import add_mapping_options, mapped_table
from screening.datasets.labels import map_label
from screening.datasets.mapping import column_named
from screening.datasets.reader import Table
from screening.datasets.rows import NewCase
from screening.engine.draws import Draw, encode_draws
from screening.labels import Label
from screening.research.draw_file import DrawLine
from screening.research.raw import published_rows


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("import-draws", help="columns of models' labels as draws that evaluate replays")
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--node", action="append", required=True, metavar="NAME", help="whose draws; several are fine")
    parser.add_argument("--draw-columns", required=True, metavar="A,B,C", help="one model's labels each, in this order")
    parser.add_argument(
        "--draw-labels", default="", metavar="Yes=unsafe,No=safe,Maybe=escalate", help="what their values stand for"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DRAWS.jsonl")
    add_mapping_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write one line a row and node; ValueError, naming row and column, for a value that stands for no label."""
    table = mapped_table(arguments.file, arguments.file.name, arguments)
    names = [column_named(name.strip(), table.report.columns) for name in arguments.draw_columns.split(",")]
    of_reference = {value.strip().casefold(): label for value, label in table.report.labels.items()}
    labels = of_reference | draw_labels(arguments.draw_labels)
    lines = list(_lines(arguments.file, table, names, labels, arguments.node))
    arguments.out.write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines):,} lines of at most {len(names)} draws; evaluate takes them with --draws", file=sys.stderr)
    return 0


def draw_labels(words: str) -> dict[str, Label]:
    """What ``Yes=unsafe,No=safe`` says, case and outer spaces ignored. ValueError for anything else.

    >>> draw_labels("Yes=unsafe, Maybe=escalate")
    {'yes': <Label.UNSAFE: 'unsafe'>, 'maybe': <Label.ESCALATE: 'escalate'>}
    """
    found: dict[str, Label] = {}
    for part in (one for one in words.split(",") if one.strip()):
        value, _, label = part.rpartition("=")
        if not value.strip() or label.strip().casefold() not in set(Label):
            raise ValueError(f"--draw-labels: {part!r} is not VALUE=safe, VALUE=unsafe or VALUE=escalate")
        found[value.strip().casefold()] = Label(label.strip().casefold())
    return found


def _lines(
    source: Path, table: Table, names: list[str], labels: Mapping[str, Label], nodes: list[str]
) -> Iterator[str]:
    accepted = {row.row: row.external_id for row in table.rows() if isinstance(row, NewCase)}
    for row, fields in published_rows(source, frozenset(names), sheet=table.report.sheet):
        if row not in accepted:
            continue
        cells = [(name, (fields.get(name) or "").strip()) for name in names]
        codes = encode_draws([Draw(label=_label(row, name, cell, labels)) for name, cell in cells if cell])
        for node in nodes if codes else ():
            yield DrawLine(id=accepted[row], node=node, draws=codes).model_dump_json() + "\n"


def _label(row: int, column: str, cell: str, labels: Mapping[str, Label]) -> Label:
    known = labels.get(cell.casefold()) or map_label(cell)
    if known is None and cell.casefold() == Label.ESCALATE.value:
        known = Label.ESCALATE
    if known is None:
        raise ValueError(f"row {row}, column {column!r}: {cell[:40]!r} stands for no label; see --draw-labels")
    return known
