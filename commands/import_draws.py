"""`import-draws`: labels that several models gave each row of a file become recorded draws, to be replayed.

They stand in columns of the file, or in outputs of Message Batches, of OpenAI batches, or in Inspect logs beside it.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from commands.mapping_options import add_mapping_options, mapped_table
from screening.datasets.labels import map_label
from screening.datasets.mapping import find_column
from screening.datasets.reader import Table
from screening.datasets.rows import NewCase
from screening.engine.draws import Draw, encode_draws
from screening.labels import Label
from screening.research.answers_elsewhere import answers_in
from screening.research.draw_file import DrawLine
from screening.research.raw import rows_beside
from screening.words import count_of


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("import-draws", help="labels that models gave elsewhere as draws to replay")
    parser.add_argument("file", type=Path, metavar="FILE", help="the data set")
    parser.add_argument("--node", action="append", required=True, metavar="NAME", help="whose draws; several are fine")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--draw-columns", metavar="A,B,C", help="one model's labels each, in this order")
    source.add_argument(
        "--outputs",
        action="append",
        type=Path,
        metavar="ANSWERS",
        help="output of a Message Batch or an OpenAI batch, or an Inspect log; several are several models",
    )
    parser.add_argument(
        "--draw-labels", default="", metavar="Yes=unsafe,No=safe,Maybe=escalate", help="what their values stand for"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DRAWS.jsonl")
    add_mapping_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write one line a row and node; ValueError, naming the place, for what cannot be a draw, and nothing written."""
    table = mapped_table(arguments.file, arguments.file.name, arguments)
    given = draw_labels(arguments.draw_labels)
    lines = list(
        _of_columns(arguments, table, given) if arguments.draw_columns else _of_outputs(arguments, table, given)
    )
    arguments.out.write_text("".join(line.model_dump_json() + "\n" for line in lines), encoding="utf-8")
    most = max((len(line.draws) for line in lines), default=0)
    print(
        f"{count_of(len(lines), 'line')} of at most {count_of(most, 'draw')}; evaluate takes them with --draws",
        file=sys.stderr,
    )
    return 0


def _of_columns(arguments: argparse.Namespace, table: Table, given: Mapping[str, Label]) -> Iterator[DrawLine]:
    names = [find_column(name.strip(), table.report.columns) for name in arguments.draw_columns.split(",")]
    of_reference = {value.strip().casefold(): label for value, label in table.report.labels.items()}
    return _lines(arguments.file, table, names, of_reference | dict(given), arguments.node)


def _of_outputs(arguments: argparse.Namespace, table: Table, given: Mapping[str, Label]) -> Iterator[DrawLine]:
    """The answers of all files: of one row in the order of their numbers, then of the files."""
    known = {row.external_id for row in table.rows() if isinstance(row, NewCase)}
    drawn: dict[tuple[str, str], list[Draw]] = {}
    strange = unanswered = 0
    for path in arguments.outputs:
        for one in sorted(answers_in(path, given), key=lambda each: each.number or 0):
            if one.case not in known or (one.node is not None and one.node not in arguments.node):
                strange += 1
            elif one.draw is None:
                unanswered += 1
            else:
                for node in [one.node] if one.node else arguments.node:
                    drawn.setdefault((one.case, node), []).append(one.draw)
    print(
        f"{count_of(strange, 'answer')} of other rows or nodes, {count_of(unanswered, 'request')} without an answer",
        file=sys.stderr,
    )
    return (_line(case, node, draws) for (case, node), draws in drawn.items())


def _line(case: str, node: str, draws: list[Draw]) -> DrawLine:
    tokens = sum(one.usage.input_tokens + one.usage.output_tokens for one in draws)
    return DrawLine(id=case, node=node, draws=encode_draws(draws), tokens=tokens or None)


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
) -> Iterator[DrawLine]:
    accepted = {row.row: row.external_id for row in table.rows() if isinstance(row, NewCase)}
    for row, fields in rows_beside(source, table, "the labels in --draw-columns", frozenset(names)):
        if row not in accepted:
            continue
        cells = [(name, (fields.get(name) or "").strip()) for name in names]
        codes = encode_draws([Draw(label=_label(row, name, cell, labels)) for name, cell in cells if cell])
        for node in nodes if codes else ():
            yield DrawLine(id=accepted[row], node=node, draws=codes)


def _label(row: int, column: str, cell: str, labels: Mapping[str, Label]) -> Label:
    known = labels.get(cell.casefold()) or map_label(cell)
    if known is None and cell.casefold() == Label.ESCALATE.value:
        known = Label.ESCALATE
    if known is None:
        raise ValueError(f"row {row}, column {column!r}: {cell[:40]!r} stands for no label; see --draw-labels")
    return known
