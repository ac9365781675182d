"""Files of any size for the browser, written while they are made: Streamlit's own downloads lie in memory whole.

A page offers a file and gets an address that nobody can guess, good only for the browser it was offered to. Who asks
for it is looked up again when it is asked for, and the file is made for them with the roles they have then.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial
from html import escape
from itertools import chain
from typing import Any

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from pages.ui import context
from pages.ui.auth import Unidentified, browser_of, who_asks
from pages.ui.context import singleton
from pages.ui.http import FILES
from pages.ui.live import Addresses
from screening.datasets.columnar import Kind, parquet_parts
from screening.datasets.export import csv_lines, json_array_lines, jsonl_lines, label_studio_task
from screening.review.actors import Actor
from screening.review.policy import Forbidden
from screening.text.display import visible
from screening.words import count_of
from storage.audit_log import record_refusal
from storage.research.relabelled import RelabelledRow, export_relabelled
from storage.site.accounts import SessionEnded

MOST_OFFERS = 10_000
LINES_AT_ONCE, CHARACTERS_AT_ONCE = 500, 1_000_000
CSV, JSONL = "text/csv; charset=utf-8", "application/x-ndjson"
JSON, PARQUET = "application/json", "application/vnd.apache.parquet"
MARKDOWN = "text/markdown; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedFile:
    """A file on offer: ``name`` is what it is saved as, ``lines`` makes it for whoever asks.

    It may refuse with Forbidden, and with FileNotFoundError where what it is made from was put away. An offer may
    outlive its page by hours: ``lines`` holds what names the content, never the content.
    """

    label: str
    name: str
    media_type: str
    lines: Callable[[Actor], Iterator[str | bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A file, the browser that may have it, and who is asking from there."""

    file: StreamedFile
    browser: str
    who: Callable[[], Actor]


class Offers(Addresses[Offer]):
    """What the pages of this process offer."""

    def __init__(self, most: int = MOST_OFFERS) -> None:
        super().__init__(FILES, most)

    def offer(self, file: StreamedFile, browser: str, who: Callable[[], Actor]) -> str:
        """The address under which ``browser``, and nobody else, may have this file."""
        return self.take(Offer(file=file, browser=browser, who=who))


@singleton
def offers() -> Offers:
    """Those of this process."""
    return Offers()


def show_files(files: Sequence[StreamedFile]) -> None:
    """A row of links on the page; each asks again who this is when it is followed."""
    browser, who = browser_of(st.context.cookies.to_dict()), who_asks()
    links = "".join(
        f'<a href="{offers().offer(file, browser, who)}" download="{escape(file.name, quote=True)}" '
        f'target="_self">⤓ {escape(file.label)}</a>'
        for file in files
    )
    st.html(f'<div class="sl-files">{links}</div>')


def show_export(files: Callable[[bool], Sequence[StreamedFile]], key: str, note: str) -> None:
    """One button with the forms of a data set, without its texts unless they are asked for."""
    with st.popover("Export", icon=":material/download:"):
        show_files(files(st.toggle("With texts", value=False, key=f"{key}_texts")))
        st.caption(note)


async def _serve(request: Request) -> Response:
    offer = offers().find(request.path_params["token"], browser_of(request.cookies))
    if offer is None:
        return PlainTextResponse("This link has expired. Reload the page.", status_code=404)
    try:
        parts = await run_in_threadpool(_begin, offer)
    except (SessionEnded, Unidentified):
        return PlainTextResponse("Your session has ended: sign in again.", status_code=401)
    except Forbidden:
        return PlainTextResponse("Your role does not let you have this file.", status_code=403)
    except FileNotFoundError:
        return PlainTextResponse("This link has expired. Reload the page.", status_code=410)
    name = _ascii(offer.file.name)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(parts, media_type=offer.file.media_type, headers=headers)


def _begin(offer: Offer) -> Iterator[bytes]:
    """The file's parts; the first is made at once, so that a refusal is an answer and not half a file."""
    who = offer.who()
    parts = _parts(offer.file.lines(who))
    try:
        return chain([next(parts, b"")], parts)
    except Forbidden as refused:
        record_refusal(context.database(), who.at(context.now()), refused.action)
        raise


def _parts(lines: Iterator[str | bytes]) -> Iterator[bytes]:
    """So many lines, fewer where they are long: texts may be."""
    part, characters = list[str | bytes](), 0
    for line in lines:
        part.append(line)
        characters += len(line)
        if len(part) == LINES_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield _encode(part)
            part, characters = [], 0
    if part:
        yield _encode(part)


def _encode(part: Sequence[str | bytes]) -> bytes:
    return b"".join(one if isinstance(one, bytes) else one.encode("utf-8", "replace") for one in part)


def _ascii(name: str) -> str:
    return "".join(letter for letter in name if letter.isascii() and letter.isprintable() and letter not in '"\\')


FILES_ROUTE = Route(f"{FILES}/{{token}}", _serve)


_MARKUP = "\\`*_[]<>!#|"


@dataclass(slots=True)
class _Counts:
    """What the card says, counted row by row."""

    rows: int = 0
    first: RelabelledRow | None = None
    reference: Counter[str] = field(default_factory=Counter)
    final: Counter[str] = field(default_factory=Counter)
    source: Counter[str] = field(default_factory=Counter)
    outcome: Counter[str] = field(default_factory=Counter)
    group: Counter[str] = field(default_factory=Counter)
    tag: Counter[str] = field(default_factory=Counter)
    screened_with: Counter[tuple[str, str, str, str, float | None]] = field(default_factory=Counter)
    readers: set[str] = field(default_factory=set)
    readings: int = 0
    blind: int = 0
    changed: int = 0
    withdrawn: int = 0
    hidden: int = 0

    def add(self, row: RelabelledRow) -> None:
        self.rows += 1
        self.first = self.first or row
        self.reference[row.reference or "none"] += 1
        self.final[row.final_label or "none"] += 1
        self.source[row.final_source] += 1
        self.outcome["hidden" if row.hidden else row.outcome or "not screened"] += 1
        self.tag.update(row.tags)
        if row.group is not None:
            self.group[row.group] += 1
        if row.model and row.prompts and row.pipeline and row.rule:
            self.screened_with[row.model, row.prompts, row.pipeline, row.rule, row.pipeline_delta] += 1
        self._add_readings(row)

    def _add_readings(self, row: RelabelledRow) -> None:
        self.readers.update(one.reader for one in row.ratings)
        self.readings += len(row.ratings)
        self.blind += sum(one.blind and one.version == 1 for one in row.ratings)
        decided = row.adjudicated_label in ("safe", "unsafe")
        self.changed += bool(decided and row.reference and row.adjudicated_label != row.reference)
        self.withdrawn += bool(row.adjudicated_label and not decided and row.reference)
        self.hidden += row.hidden


def as_data_card(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """The card as Markdown, of exactly the rows that the other files of this version hold."""
    counts = _Counts()
    for row in rows:
        counts.add(row)
    if counts.first is None:
        yield "# Data card\n\nThe data set has no rows.\n"
        return
    yield f"# Data card: relabelled data set, version {counts.first.version}\n\n"
    yield f"As of {count_of(counts.first.as_of, 'accepted label')}; version 0 is the file as it came.\n"
    for title, lines in _sections(counts, counts.first):
        yield f"\n## {title}\n\n" + "".join(f"- {line}\n" for line in lines)


def _sections(counts: _Counts, first: RelabelledRow) -> Iterator[tuple[str, list[str]]]:
    yield "Rows", [count_of(counts.rows, "text"), *_count_lines(counts.group, "of group ")]
    yield "Labels as they came", [_source(first.provenance), *_count_lines(counts.reference)]
    yield (
        "Final labels",
        [
            *_count_lines(counts.final),
            *_count_lines(counts.source, "from: "),
            f"{count_of(counts.changed, 'label')} changed by clinicians",
            f"{count_of(counts.withdrawn, 'label')} withdrawn: too little information in the text",
        ],
    )
    yield (
        "Readings",
        [
            f"{count_of(counts.readings, 'reading')}, revisions included, by {count_of(len(counts.readers), 'reader')} "
            "under pseudonyms",
            f"{counts.blind:,} of them first and blind: given before the engine's view was served",
        ],
    )
    yield (
        "What the engine said",
        [
            *_count_lines(counts.outcome),
            *(
                f"{number:,} screened with model {_literal(model)}; prompts {_literal(prompts)}; pipeline "
                f"{_literal(pipeline)}; rule {_literal(rule)}; {_bound_words(bound)}"
                for (model, prompts, pipeline, rule, bound), number in counts.screened_with.most_common()
            ),
        ],
    )
    if counts.tag:
        yield "Tags of researchers", _count_lines(counts.tag)
    yield "Limits", _limits(counts)


def _bound_words(value: float | None) -> str:
    return "no bound for the whole pipeline" if value is None else f"whole pipeline: any wrong label at most {value:g}"


def _limits(counts: _Counts) -> list[str]:
    return [
        "A label speaks of a text, not of a person.",
        "A final label without an adjudication is the file's own: nobody here has read it.",
        f"{count_of(counts.hidden, 'text')} in review with outcome, reviews and tags hidden.",
        "Texts were chosen for review by the engine, by an audit sample or by researchers: those read are no random "
        "sample of the file unless they are taken from the audit alone.",
    ]


def _source(provenance: Mapping[str, Any]) -> str:
    said = provenance.get("provenance") or "who gave the labels is not stated"
    values = provenance.get("labels")
    mapped = [f"“{value}” read as {label}" for value, label in values.items()] if isinstance(values, Mapping) else []
    return _literal("; ".join([f"From: {said}", *mapped]))


def _count_lines(found: Counter[str], before: str = "") -> list[str]:
    return [f"{number:,} {before}{_literal(name.replace('_', ' '))}" for name, number in found.most_common()]


def _literal(words: str) -> str:
    """Words from outside, escaped so that nothing in them is Markdown."""
    return "".join(f"\\{letter}" if letter in _MARKUP else letter for letter in visible(words))


Written = Iterator[str] | Iterator[bytes]
HEADER = (
    *("id", "row", "case_id", "text", "reply", "group", "reference", "reference_value", "provenance", "outcome"),
    *("ratings", "adjudicated_label", "final_label", "final_source", "hidden", "version", "as_of"),
    *("model", "prompts", "pipeline", "rule", "pipeline_delta", "configuration", "tags"),
)

CSV_HEADER = tuple(name for name in HEADER if name != "provenance")

OTHERS: Mapping[str, Kind] = {"row": "int", "as_of": "int", "hidden": "bool", "pipeline_delta": "float"}


def relabelled_files(batch_id: str, *, with_text: bool = True, as_of: int | None = None) -> list[StreamedFile]:
    """The files of a batch's relabelled data set, for those who may take data out; as of its first ``as_of`` accepted
    labels, or as it is now.
    """
    key = context.settings().pseudonym_secret

    def lines(written: Callable[[Iterable[RelabelledRow]], Written], who: Actor) -> Written:
        now = context.now()
        rows = export_relabelled(context.database(), who.at(now), batch_id, key, with_text=with_text, as_of=as_of)
        return written(rows)

    stem = f"relabelled-{batch_id[:12]}" + ("" if as_of is None else f"-as-of-{as_of}")
    return [
        StreamedFile(
            label=f"Relabelled ({words})", name=f"{stem}{ending}", media_type=media, lines=partial(lines, made)
        )
        for words, ending, media, made in KINDS
    ]


def as_csv(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """One line a case; the ratings stand in one cell as JSON, formulas neutralised. Where the labels come from is in
    the data card.
    """
    return csv_lines(CSV_HEADER, map(_cells, rows))


def as_jsonl(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """One JSON object a case, with everything that the row holds."""
    return jsonl_lines(map(_plain_row, rows))


def as_parquet(rows: Iterable[RelabelledRow]) -> Iterator[bytes]:
    """One row a case; ratings and provenance stand in one column each as JSON."""
    return parquet_parts({name: OTHERS.get(name, "text") for name in HEADER}, map(_flat, rows))


def as_label_studio(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """Tasks for Label Studio: one annotation a reader, the engine's outcome as a prediction."""
    return json_array_lines(map(_task, rows))


def _task(row: RelabelledRow) -> dict[str, object]:
    plain = _plain_row(row)
    data = {name: plain[name] for name in ("id", "text", "reply", "group", "reference", "final_label", "final_source")}
    latest = {one.reader: one.label for one in row.ratings}
    return label_studio_task(row.row, data, latest, row.outcome)


def _cells(row: RelabelledRow) -> list[object]:
    plain = _flat(row)
    return [plain[name] for name in CSV_HEADER]


def _flat(row: RelabelledRow) -> dict[str, object]:
    """The row with what has parts as JSON."""
    plain = _plain_row(row)
    for name in ("ratings", "provenance"):
        plain[name] = json.dumps(plain[name], ensure_ascii=False)
    return plain | {"tags": ", ".join(row.tags)}


def _plain_row(row: RelabelledRow) -> dict[str, object]:
    found = {name: _plain(value) for name, value in asdict(row).items()}
    return {"id": found.pop("external_id"), **found}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


KINDS: tuple[tuple[str, str, str, Callable[[Iterable[RelabelledRow]], Written]], ...] = (
    ("CSV", ".csv", CSV, as_csv),
    ("JSON lines", ".jsonl", JSONL, as_jsonl),
    ("Parquet", ".parquet", PARQUET, as_parquet),
    ("Label Studio", "-label-studio.json", JSON, as_label_studio),
    ("data card", "-data-card.md", MARKDOWN, as_data_card),
)
WRITTEN: Mapping[str, Callable[[Iterable[RelabelledRow]], Written]] = {
    "csv": as_csv, "jsonl": as_jsonl, "parquet": as_parquet, "label-studio": as_label_studio,
}  # fmt: skip
"""By the names that the command line has for them."""
