"""Options of a command that reads a file: how its columns, labels and conversations are read."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from screening.datasets.mapping import (
    ColumnMapping,
    ConversationReading,
    FileMapping,
    Shape,
    find_column,
    mapping_json,
    pairs,
    propose_mapping,
    propose_turns,
    read_mapping,
    rivals,
    speakers_said,
)
from screening.datasets.reader import FileReport, Table, columns_of, read_table
from screening.datasets.sources import ColumnsUnclear, Source
from screening.datasets.validation import chosen_mapping
from screening.labels import Label
from screening.text.conversation import CONTEXT_TOKENS, Judged, Question
from screening.words import count_of

ROLES = ("id", "title", "reply", "label", "group", "where")
ROLE_WORDS = {
    "title": ", put before the text",
    "where": ": where to act, a link or contact reference, kept with the case",
}


def add_mapping_options(parser: argparse.ArgumentParser) -> None:
    """Add these options to a parser."""
    of_file = parser.add_argument_group("how the file is read; what is left out is proposed by the columns' names")
    of_file.add_argument(
        "--text-column", action="append", metavar="NAME", help="the text; given again, the columns are joined in order"
    )
    for role in ROLES:
        words = f"the {role}{ROLE_WORDS.get(role, ' (an empty NAME: none)')}"
        of_file.add_argument(f"--{role}-column", default=None, metavar="NAME", help=words)
    of_file.add_argument(
        "--unread-column", action="append", metavar="NAME", help="a column that stays unread, on purpose"
    )
    of_file.add_argument("--labels", default=None, metavar="A=unsafe,B=safe,C=none", help="values of the label column")
    of_file.add_argument("--join-lists", action="store_true", help="join texts that are lists of strings")
    of_file.add_argument("--sheet", default=None, metavar="NAME", help="the sheet of a workbook")
    of_file.add_argument("--mapping", type=Path, default=None, metavar="FILE", help="a saved mapping to begin with")
    of_file.add_argument("--save-mapping", type=Path, default=None, metavar="FILE", help="keep the mapping used here")
    add_conversation_options(parser)


def mapped_table(source: Source, name: str, arguments: argparse.Namespace) -> Table:
    """The file, read as the options say. FileRefused as `read_table`, ValueError for words that are no labels."""
    kept = read_mapping(arguments.mapping.read_bytes()) if arguments.mapping else FileMapping()
    sheet = arguments.sheet or kept.sheet
    columns = _columns(source, sheet, kept.columns, arguments)
    id_said = kept.columns is not None or arguments.id_column is not None
    table = read_table(source, name, mapping=columns, sheet=sheet, id_confirmed=id_said)
    if columns is not None and arguments.group_column is not None:  # an id that rows share does not take its place
        table = table.with_mapping(replace(table.report.mapping, group=columns.group))
    given = label_values(arguments.labels, table.report.label_values) if arguments.labels else {}
    return table.with_labels({**kept.labels, **given})


def save_mapping(report: FileReport, arguments: argparse.Namespace) -> None:
    """Write down the mapping that was used, where that was asked for."""
    if arguments.save_mapping is not None:
        arguments.save_mapping.write_text(mapping_json(mapping_used(report)), encoding="utf-8")


def mapping_used(report: FileReport) -> FileMapping:
    """How a file was read, so that another one like it is read in the same way."""
    labels = {value: report.labels.get(value) for value in report.label_values if value.strip()}
    return FileMapping(columns=report.mapping, labels=labels, sheet=report.sheet if len(report.sheets) > 1 else None)


def mapping_lines(report: FileReport) -> Iterator[str]:
    """How the file is read, line by line, for whoever is about to pay for it."""
    mapping = report.mapping
    yield f"text: {' + '.join(map(repr, mapping.text_columns()))}" + (", lists joined" if mapping.lists else "")
    yield from conversation_words(mapping.conversation)
    for role in ("id", "reply", "label", "group", "where"):
        column = getattr(mapping, role)
        yield f"{role}: {'none' if column is None else repr(column)}" + (
            " (the row number)" if role == "id" and column is None else ""
        )
    if report.unread:
        yield report.unread_words
    for value, count in report.label_values.items():
        if value.strip():
            yield f"  {value!r} ({count_of(count, 'row')}) is {report.labels.get(value) or 'no reference'}"


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
    source: Source, sheet: str | None, kept: ColumnMapping | None, arguments: argparse.Namespace
) -> ColumnMapping | None:
    """The columns to read; None where nothing was said of them, so that all are proposed."""
    named = {role: given for role in ROLES if (given := getattr(arguments, f"{role}_column")) is not None}
    own = arguments.text_column or arguments.unread_column
    if not (named or own or arguments.join_lists or has_conversation_options(arguments)):
        return kept
    columns = columns_of(source, sheet)
    begun = kept or _propose(columns, {*named, *(["text"] if arguments.text_column else [])})
    chosen: Mapping[str, str | None] = {
        role: find_column(name, columns) if name else None for role, name in named.items()
    }
    mapping = replace(begun, **chosen, lists=begun.lists or arguments.join_lists)  # type: ignore[arg-type]
    if arguments.text_column:
        text, *joined = (find_column(name, columns) for name in arguments.text_column)
        mapping = replace(mapping, text=text, joined=tuple(joined))
    if arguments.unread_column:
        mapping = replace(mapping, unread=tuple(find_column(name, columns) for name in arguments.unread_column))
    return replace(mapping, conversation=conversation_of(mapping, columns, arguments))


def _propose(columns: tuple[str, ...], named: set[str]) -> ColumnMapping:
    """The proposal to change. ColumnsUnclear where nobody has said which of several columns it is."""
    for role, names in rivals(columns).items():
        if role not in named:
            sentence = f"{len(names)} columns could be the {role}: {', '.join(names)}. Say which."
            raise ColumnsUnclear(sentence, columns=columns)
    proposal = propose_mapping(columns)
    if proposal is None and "text" not in named:
        chosen_mapping(columns, None)  # says which columns there are
    return proposal or propose_mapping((*columns, "text")) or ColumnMapping(text="text")


OF_A_TURN = ("role", "order", "time", "turn_id")
ASKED = {"text": (Question.TEXT,), "reply": (Question.REPLY,), "both": (Question.TEXT, Question.REPLY)}


def add_conversation_options(parser: argparse.ArgumentParser) -> None:
    """Add these options to a parser."""
    group = parser.add_argument_group("conversations")
    shapes = (
        "a list of messages a row, a turn a row (the id column names the conversation), or `Name: text` transcripts"
    )
    group.add_argument("--conversations", choices=list(Shape), type=Shape, default=None, help=shapes)
    group.add_argument(
        "--judged",
        choices=list(Judged),
        type=Judged,
        default=None,
        help="which turn: the user's last (usual), each, all",
    )
    group.add_argument(
        "--ask-about", choices=list(ASKED), default=None, help="the user's risk (text), what the chatbot did, or both"
    )
    for part in OF_A_TURN:
        words = "the order of turns (an empty NAME: the file's)" if part == "order" else f"a turn's {part}"
        group.add_argument(f"--{part.replace('_', '-')}-column", default=None, metavar="NAME", help=words)
    group.add_argument(
        "--reply-label-column", default=None, metavar="NAME", help="reference label of what the chatbot did"
    )
    group.add_argument(
        "--speakers", default=None, metavar="ANNA=user,BEN=assistant", help="who of the file's names is what"
    )
    context = f"most tokens of turns that are not judged; the oldest are left out first (usual: {CONTEXT_TOKENS:,})"
    group.add_argument("--context-tokens", type=int, default=None, metavar="N", help=context)


def has_conversation_options(arguments: argparse.Namespace) -> bool:
    """Whether any of these options was given."""
    names = ("conversations", "judged", "ask_about", "speakers", "context_tokens", "reply_label_column")
    return any(getattr(arguments, name) is not None for name in (*names, *(f"{part}_column" for part in OF_A_TURN)))


def conversation_of(
    mapping: ColumnMapping, columns: tuple[str, ...], arguments: argparse.Namespace
) -> ConversationReading | None:
    """How conversations are read, begun from what the mapping says; None for a file of texts. Raises ValueError."""
    kept = mapping.conversation
    if arguments.conversations is None and kept is None:
        if has_conversation_options(arguments):
            raise ValueError("say how the file keeps conversations: --conversations messages, rows or transcript")
        return None
    shape = arguments.conversations or (kept.shape if kept else Shape.MESSAGES)
    begun = kept if kept and kept.shape is shape else ConversationReading(shape=shape)
    reading = replace(begun, **_reading_options(arguments, columns))
    return _with_turn_columns(reading, columns, arguments) if shape is Shape.ROWS and columns else reading


def conversation_words(reading: ConversationReading | None) -> Iterator[str]:
    """How conversations are read, line by line."""
    if reading is None:
        return
    asked = " and ".join(
        {Question.TEXT: "the user's risk", Question.REPLY: "the chatbot"}[one] for one in reading.questions
    )
    yield f"conversations: {reading.shape}, judged: {reading.judged}, asked about: {asked}"
    if reading.shape is Shape.ROWS:
        order = "that of the file" if reading.order is None else repr(reading.order)
        yield f"  role: {reading.role!r}, order: {order}, time: {reading.time!r}"


def _reading_options(arguments: argparse.Namespace, columns: tuple[str, ...]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if arguments.judged is not None:
        said["judged"] = arguments.judged
    if arguments.ask_about is not None:
        said["questions"] = ASKED[arguments.ask_about]
    if arguments.speakers is not None:
        said["speakers"] = speakers_said(arguments.speakers)
    if arguments.context_tokens is not None:
        said["context_tokens"] = arguments.context_tokens
    if arguments.reply_label_column is not None:
        said["reply_label"] = find_column(arguments.reply_label_column, columns)
    return said


def _with_turn_columns(
    reading: ConversationReading, columns: tuple[str, ...], arguments: argparse.Namespace
) -> ConversationReading:
    proposed = propose_turns(columns)
    named: dict[str, Any] = {}
    for part in OF_A_TURN:
        given, kept = getattr(arguments, f"{part}_column"), getattr(reading, part)
        named[part] = (find_column(given, columns) if given else None) if given is not None else kept or proposed[part]
    if named["role"] is None:
        raise ValueError("no column is known to say who speaks: say which with --role-column")
    if named["order"] is None and arguments.order_column is None:
        raise ValueError('no column is known to order the turns: --order-column NAME, or "" for the order of the file')
    return replace(reading, **named)


def add_to(subcommands: Any) -> None:
    """Add the subcommands of this file."""
    add_conversation_options(subcommands)
    add_mapping_options(subcommands)
