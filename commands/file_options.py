"""Options of a command that reads a file: how its columns, labels and conversations are read."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

from commands.options import how_said
from screening.datasets.formats import file_layout
from screening.datasets.mapping import (
    ASKED,
    JUDGED,
    OF_A_TURN,
    OPTIONS,
    ROLES,
    SHAPES,
    ColumnMapping,
    ConversationReading,
    FileMapping,
    Shape,
    begun_reading,
    find_column,
    mapping_json,
    pairs,
    proposed_mapping,
    read_mapping,
    speakers_said,
)
from screening.datasets.reader import Table, read_table
from screening.labels import Label
from screening.words import count_of

FLAGS = {"lists": "--join-lists", "shape": "--conversations", "questions": "--ask-about"}
"""Options that are called otherwise than their field."""
QUESTIONS = {"both" if len(asked) > 1 else str(asked[0]): asked for asked in ASKED}
COLUMNS = (*ROLES, *OF_A_TURN, "reply_label")
"""Fields that are one column each, or none."""
SEVERAL = ("text", "unread")
"""Fields that are columns."""
HOW: Mapping[str, Mapping[str, Any]] = {
    "text": {"action": "append"},
    "questions": {"action": "store", "type": str, "choices": list(QUESTIONS)},
    "speakers": {"action": "store", "type": str, "metavar": "ANNA=user,BEN=assistant"},
}
"""What is said otherwise than its type tells."""
CHOICES: Mapping[str, Mapping[Any, str]] = {
    "shape": SHAPES,
    "judged": JUDGED,
    "questions": {name: ASKED[asked] for name, asked in QUESTIONS.items()},
}
OF_CONVERSATIONS = tuple(get_type_hints(ConversationReading))


class FileReading(argparse.Namespace):
    """The options of a command that reads a file, as they were given."""

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        of_file = parser.add_argument_group("how the file is read; what is left out is proposed by the columns' names")
        of_talks = parser.add_argument_group("conversations")
        for model, group in ((ColumnMapping, of_file), (ConversationReading, of_talks)):
            for name, hint in get_type_hints(model).items():
                if name in ("joined", "conversation"):
                    continue
                is_column = name in (*COLUMNS, *SEVERAL)
                flag = FLAGS.get(name, f"--{name.replace('_', '-')}" + ("-column" if is_column else ""))
                how: dict[str, Any] = {"metavar": "NAME"} if is_column else {}
                how |= {**how_said(hint), **HOW.get(name, {}), "default": None, "help": _help(name)}
                group.add_argument(flag, dest=name, **how)
        of_file.add_argument("--labels", metavar="A=unsafe,B=safe,C=none", help="values of the label column")
        of_file.add_argument("--sheet", metavar="NAME", help="the sheet of a workbook")
        of_file.add_argument("--mapping", type=Path, metavar="FILE", help="a saved mapping to begin with")
        of_file.add_argument("--save-mapping", type=Path, metavar="FILE", help="keep the mapping used here")


def _help(name: str) -> str:
    label, words = OPTIONS[name]
    choices = "; ".join(f"{choice}: {meaning}" for choice, meaning in CHOICES.get(name, {}).items())
    sentences = ". ".join(part for part in (label, words.rstrip("."), choices) if part)
    return sentences + (" (an empty NAME: none)" if name in COLUMNS else "")


def mapped_table(path: Path, arguments: argparse.Namespace) -> Table:
    """The file, read as the options say, which is written down where that was asked for. FileRefused as `read_table`,
    ValueError for words that are no labels.
    """
    kept = read_mapping(arguments.mapping.read_bytes()) if arguments.mapping else FileMapping()
    sheet = arguments.sheet or kept.sheet
    columns = _columns(path, sheet, kept.columns, arguments)
    named = {role for role in ("id", "group") if getattr(arguments, role) is not None}
    named |= {"id"} if kept.columns else set()
    table = read_table(path, path.name, mapping=columns, sheet=sheet, named=named)
    given = label_values(arguments.labels, table.label_values) if arguments.labels else {}
    table = table.with_labels({**kept.labels, **given})
    if arguments.save_mapping is not None:
        labels = {value: table.labels.get(value) for value in table.label_values if value.strip()}
        sheet = table.layout.sheet if len(table.layout.sheets) > 1 else None
        used = FileMapping(columns=table.mapping, labels=labels, sheet=sheet)
        arguments.save_mapping.write_text(mapping_json(used), encoding="utf-8")
    return table


def mapping_lines(table: Table) -> Iterator[str]:
    """How the file is read, line by line, for whoever is about to pay for it."""
    mapping = table.mapping
    yield f"text: {' + '.join(map(repr, mapping.text_columns()))}" + (", lists joined" if mapping.lists else "")
    if reading := mapping.conversation:
        asked = " and ".join(ASKED[(question,)] for question in reading.questions)
        yield f"conversations: {reading.shape}, judged: {reading.judged}, asked about: {asked}"
        if reading.shape is Shape.ROWS:
            order = "that of the file" if reading.order is None else repr(reading.order)
            yield f"  role: {reading.role!r}, order: {order}, time: {reading.time!r}"
    for role in ("id", "reply", "label", "group", "where"):
        column = getattr(mapping, role)
        yield f"{role}: {'none' if column is None else repr(column)}" + (
            " (the row number)" if role == "id" and column is None else ""
        )
    if table.unread:
        yield table.unread_words
    for value, count in table.label_values.items():
        if value.strip():
            yield f"  {value!r} ({count_of(count, 'row')}) is {table.labels.get(value) or 'no reference'}"


def label_values(words: str, seen: Iterable[str]) -> dict[str, Label | None]:
    """What ``A=unsafe,B=safe,C=none`` says of the values seen, case and outer spaces ignored.

    Raises ValueError for a value that the file does not have or that is named twice, and for a label that is none.

    >>> label_values("ideation=unsafe,Supportive=none", ["Ideation", "Supportive"])
    {'Ideation': <Label.UNSAFE: 'unsafe'>, 'Supportive': None}
    >>> label_values("No, not at all=safe", ["No, not at all"])
    {'No, not at all': <Label.SAFE: 'safe'>}
    """
    values, found = list(seen), dict[str, Label | None]()
    for name, label in pairs(words, ("safe", "unsafe", "none"), "--labels"):
        fits = [value for value in values if value.strip().casefold() == name.strip().casefold()]
        if not fits:
            raise ValueError(f"--labels: no row has the label {name.strip()!r}")
        if found.keys() & set(fits):
            raise ValueError(f"--labels: {name.strip()!r} is named twice")
        found.update(dict.fromkeys(fits, None if label == "none" else Label(label)))
    return found


def _columns(
    path: Path, sheet: str | None, kept: ColumnMapping | None, arguments: argparse.Namespace
) -> ColumnMapping | None:
    """The columns to read; None where nothing was said of them, so that all are proposed."""
    asked = (*get_type_hints(ColumnMapping), *OF_CONVERSATIONS)
    said = {name: value for name in asked if (value := getattr(arguments, name, None)) is not None}
    if not said:
        return kept
    columns = file_layout(path, sheet).columns
    for name, value in said.items():
        if name in COLUMNS:
            said[name] = find_column(value, columns) if value else None
        elif name in SEVERAL:
            said[name] = tuple(find_column(each, columns) for each in value)
    begun = kept or proposed_mapping(columns, said)
    if "text" in said:
        said["text"], *said["joined"] = said["text"]
    of_talks = {name: said.pop(name) for name in OF_CONVERSATIONS if name in said}
    return replace(begun, **said, conversation=_conversation(begun.conversation, columns, of_talks))


def _conversation(
    kept: ConversationReading | None, columns: tuple[str, ...], said: dict[str, Any]
) -> ConversationReading | None:
    """How conversations are read, begun from what was kept; None for a file of texts. Raises ValueError."""
    if kept is None and "shape" not in said:
        if said:
            raise ValueError("say how the file keeps conversations: --conversations messages, rows or transcript")
        return None
    shape = said.get("shape") or (kept.shape if kept else Shape.MESSAGES)
    if "questions" in said:
        said["questions"] = QUESTIONS[said["questions"]]
    if "speakers" in said:
        said["speakers"] = speakers_said(said["speakers"])
    unused = () if shape is Shape.ROWS else OF_A_TURN
    told = {name: value for name, value in said.items() if name not in unused}
    reading = replace(begun_reading(kept, shape, columns), **told)
    if shape is Shape.ROWS and reading.role is None:
        raise ValueError("no column is known to say who speaks: say which with --role-column")
    if shape is Shape.ROWS and reading.order is None and "order" not in said:
        raise ValueError('no column is known to order the turns: --order-column NAME, or "" for the order of the file')
    return reading
