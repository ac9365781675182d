"""`import-draws`: labels that models gave elsewhere, as draws to replay with `evaluate --draws`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from commands.file_options import FileReading, mapped_table
from commands.options import say
from screening.datasets.mapping import find_column, pairs
from screening.datasets.reader import Table
from screening.datasets.rows import NewCase, map_label
from screening.evaluation.imported_answers import answers_in
from screening.evaluation.public_datasets import rows_beside
from screening.evaluation.recording import DrawLine
from screening.labels import Label
from screening.pipeline.draws import Draw, encode_draws
from screening.words import count_of


def import_draws(
    file: Annotated[Path, "the data set", "FILE"],
    *,
    node: Annotated[list[str], "whose draws; several are fine", "NAME"],
    draw_columns: Annotated[str | None, "one model's labels each, in this order", "A,B,C"] = None,
    outputs: Annotated[
        list[Path] | None,
        "output of a Message Batch or an OpenAI batch, or an Inspect log; several are several models",
        "ANSWERS",
    ] = None,
    draw_labels: Annotated[str, "what their values stand for", "Yes=unsafe,No=safe,Maybe=escalate"] = "",
    out: Annotated[Path, "the draws", "DRAWS.jsonl"],
    reading: FileReading,
) -> None:
    """Write one line a row and node; ValueError, naming the place, for what cannot be a draw, and nothing written."""
    if bool(draw_columns) == bool(outputs):
        raise ValueError("say where the draws are: --draw-columns, or --outputs")
    columns = [name.strip() for name in (draw_columns or "").split(",") if name]
    if columns:  # read as draws, so nobody is asked whether one is the label
        reading.unread = [*(reading.unread or ()), *columns]
    table = mapped_table(file, reading)
    said = pairs(draw_labels.strip(), list(Label), "--draw-labels")
    given = {value.strip().casefold(): Label(label) for value, label in said}
    if columns:
        drawn = _of_columns(table, [find_column(name, table.layout.columns) for name in columns], given)
        lines = [_line(case, each, draws) for case, draws in drawn for each in node]
    else:
        by_node = _of_outputs(outputs or [], table, node, given)
        lines = [_line(case, each, draws) for (case, each), draws in by_node.items()]
    out.write_text("".join(line.model_dump_json() + "\n" for line in lines), encoding="utf-8")
    most = max((len(line.draws) for line in lines), default=0)
    say(f"{count_of(len(lines), 'line')} of at most {count_of(most, 'draw')}; evaluate takes them with --draws")


def _of_columns(table: Table, columns: list[str], given: Mapping[str, Label]) -> Iterator[tuple[str, list[Draw]]]:
    """What stands in columns of the data set; ValueError, naming row and column, for what is no label."""
    words = {Label.ESCALATE.value: Label.ESCALATE, **table.labels, **given}
    labels = {value.strip().casefold(): label for value, label in words.items()}
    accepted = {row.row: row.external_id for row in table.rows() if isinstance(row, NewCase)}
    for row, fields in rows_beside(table, "the labels in --draw-columns", frozenset(columns)):
        draws = list[Draw]()
        for name in columns if row in accepted else ():
            if cell := (fields.get(name) or "").strip():
                label = labels.get(cell.casefold()) or map_label(cell)
                if label is None:
                    raise ValueError(
                        f"row {row}, column {name!r}: {cell[:40]!r} stands for no label; see --draw-labels"
                    )
                draws.append(Draw(label=label))
        if draws:
            yield accepted[row], draws


def _of_outputs(
    outputs: list[Path], table: Table, nodes: list[str], given: Mapping[str, Label]
) -> dict[tuple[str, str], list[Draw]]:
    """The answers of all files by row and node: of one row in the order of their numbers, then of the files."""
    known = {row.external_id for row in table.rows() if isinstance(row, NewCase)}
    drawn: dict[tuple[str, str], list[Draw]] = {}
    strange = unanswered = 0
    for path in outputs:
        for answer in sorted(answers_in(path, given), key=lambda each: each.number or 0):
            if answer.case not in known or (answer.node is not None and answer.node not in nodes):
                strange += 1
            elif answer.draw is None:
                unanswered += 1
            else:
                for node in [answer.node] if answer.node else nodes:
                    drawn.setdefault((answer.case, node), []).append(answer.draw)
    say(f"{count_of(strange, 'answer')} of other rows or nodes, {count_of(unanswered, 'request')} without an answer")
    return drawn


def _line(case: str, node: str, draws: list[Draw]) -> DrawLine:
    tokens = sum(draw.usage.input_tokens + draw.usage.output_tokens for draw in draws)
    return DrawLine(id=case, node=node, draws=encode_draws(draws), tokens=tokens or None)
