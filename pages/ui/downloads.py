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
from pages.ui.labels import literal
from pages.ui.live import Addresses
from screening.datasets.export import (
    Kind,
    csv_lines,
    json_array_lines,
    jsonl_lines,
    label_studio_task,
    parquet_parts,
    rejected_csv,
)
from screening.labels import Label
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, Forbidden, is_allowed
from screening.words import count_of
from storage.audit_log import record_refusal
from storage.batches.batches import BatchSummary
from storage.batches.results import Result, export_rejected, export_results
from storage.research.reading_table import ReadingTable, export_readings
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
        "Reviews",
        [
            f"{count_of(counts.readings, 'review')}, revisions included, "
            f"by {count_of(len(counts.readers), 'reviewer')} under pseudonyms",
            f"{counts.blind:,} of them first and blinded: given before the AI's result was shown",
        ],
    )
    yield (
        "What the AI said",
        [
            *_count_lines(counts.outcome),
            *(
                f"{number:,} screened with model {literal(model)}; prompts {literal(prompts)}; pipeline "
                f"{literal(pipeline)}; rule {literal(rule)}; {_bound_words(bound)}"
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
    mapped = values.items() if isinstance(values, Mapping) else []
    return "; ".join([f"From: {literal(said)}", *(f"“{literal(value)}” read as {label}" for value, label in mapped)])


def _count_lines(found: Counter[str], before: str = "") -> list[str]:
    return [f"{number:,} {before}{literal(name.replace('_', ' '))}" for name, number in found.most_common()]


Parts = Iterator[str] | Iterator[bytes]
FORMS: Mapping[str, tuple[str, str, str]] = {
    "csv": ("CSV", ".csv", CSV),
    "jsonl": ("JSON lines", ".jsonl", JSONL),
    "parquet": ("Parquet", ".parquet", PARQUET),
    "label-studio": ("Label Studio", "-label-studio.json", JSON),
}
"""By the names that the command line has for them: in words, how a file's name ends, and its media type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """``columns`` of the flat forms with their kinds, those of ``not_in_csv`` among them; ``row`` makes one dictionary,
    nested as in JSON, of what storage gives; ``task`` gives fields, annotations by reviewer and prediction of its task.
    """

    columns: Mapping[str, Kind]
    row: Callable[[Any], dict[str, Any]]
    task: Callable[[Any], tuple[Sequence[str], Mapping[str, str], str | None]]
    not_in_csv: frozenset[str] = frozenset()


def export(kind: Dataset, content: Iterable[Any], form: str) -> Parts:
    """The content as a file of this form. A spreadsheet's formulas are neutralized in CSV; parts are JSON in one cell.

    JSON lines hold everything as it is.
    """
    if form == "label-studio":
        return json_array_lines(_task(kind, one) for one in content)
    rows = map(kind.row, content)
    if form == "jsonl":
        return jsonl_lines(rows)
    names = [name for name in kind.columns if form != "csv" or name not in kind.not_in_csv]
    flat = ({name: _flat(name, row[name]) for name in names} for row in rows)
    if form == "csv":
        return csv_lines(names, (list(row.values()) for row in flat))
    return parquet_parts(kind.columns, flat)


def _task(kind: Dataset, one: Any) -> dict[str, object]:
    row, (names, labels, predicted) = kind.row(one), kind.task(one)
    return label_studio_task(one.row, {name: row[name] for name in names}, labels, predicted)


def _flat(name: str, value: Any) -> Any:
    if name == "tags" and isinstance(value, list):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _plain(value: Any) -> Any:
    """As JSON has it."""
    match value:
        case datetime():
            return value.isoformat()
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
    return value


def _columns(names: str, **others: Kind) -> dict[str, Kind]:
    return {name: others.get(name, "text") for name in names.split()}


def _result(one: Result) -> dict[str, Any]:
    """A pending row's reason is its last error; tags and remarks are lists in JSON."""
    named = {name: getattr(one, name, None) for name in RESULTS.columns}
    noted = {name: json.dumps(getattr(one, name), ensure_ascii=False) for name in ("tags", "remarks")}
    return named | {"id": one.external_id, "reason": one.reason or one.error, "final_label": one.accepted} | noted


def _corrected(one: RelabelledRow) -> dict[str, Any]:
    found = {name: _plain(value) for name, value in asdict(one).items()}
    return {"id": found.pop("external_id"), **found}


RESULTS = Dataset(
    columns=_columns(
        "id row outcome node reason calls cost_usd delta pipeline_delta contract grounds reference reference_value "
        "group hidden tags remarks final_label",
        row="int", calls="int", cost_usd="float", delta="float", pipeline_delta="float", hidden="bool",
    ),
    row=_result,
    task=lambda one: (
        ("id", "row", "reference", "group", "outcome", "reason"),
        {},
        one.outcome if one.outcome in (Label.SAFE, Label.UNSAFE) else None,
    ),
)  # fmt: skip
RELABELLED = Dataset(
    columns=_columns(
        "id row case_id text reply group reference reference_value provenance outcome ratings adjudicated_label "
        "final_label final_source hidden version as_of model prompts pipeline rule pipeline_delta configuration tags",
        row="int", as_of="int", hidden="bool", pipeline_delta="float",
    ),
    row=_corrected,
    task=lambda one: (
        ("id", "text", "reply", "group", "reference", "final_label", "final_source"),
        {rating.reader: rating.label for rating in one.ratings},
        one.outcome,
    ),
    not_in_csv=frozenset({"provenance"}),  # where the labels come from is in the data card
)  # fmt: skip


REVIEWS = _columns("case_id id reader label certainty ideation reading at_random", certainty="int", ideation="int")


def export_reviews(table: ReadingTable, form: str) -> Parts:
    """The blinded first reviews: in CSV a line a case and a column a reviewer, empty where one gave none; in Parquet a
    row a case and reviewer; else an entry a case with all its reviews. Never a text.
    """
    if form == "csv":
        head = ["case_id", "id", *table.readers, "at_random"]
        lines = zip(table.case_ids, table.external_ids, table.labels, table.at_random, strict=True)
        return csv_lines(head, ([case_id, own, *said, str(chosen).lower()] for case_id, own, said, chosen in lines))
    rows = _reviews(table)
    if form == "jsonl":
        return jsonl_lines(named | {"readings": said} for named, said in rows)
    if form == "parquet":
        flat = (named | {"reader": reader} | one for named, said in rows for reader, one in said.items())
        return parquet_parts(REVIEWS | {"at_random": "bool"}, flat)
    return json_array_lines(
        label_studio_task(number, named, {reader: one["label"] for reader, one in said.items()}, None)
        for number, (named, said) in enumerate(rows, start=1)
    )


def _reviews(table: ReadingTable) -> Iterator[tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
    """Of each case what names it, and its reviews by reviewer."""
    parts = {"label": table.labels, "certainty": table.certainties, "ideation": table.ideation, "reading": table.turns}
    for number, case_id in enumerate(table.case_ids):
        said = {
            reader: {name: grid[number][column] for name, grid in parts.items()}
            for column, reader in enumerate(table.readers)
            if table.labels[number][column] is not None
        }
        yield {"case_id": case_id, "id": table.external_ids[number], "at_random": table.at_random[number]}, said


def _offered(title: str, stem: str, made: Callable[[str, Acting], Parts]) -> list[StreamedFile]:
    """A file of each form, made for whoever asks."""

    def parts(form: str) -> Callable[[Actor], Parts]:
        return lambda who: made(form, who.at(context.now()))

    return [
        StreamedFile(label=f"{title} ({words})", name=f"{stem}{ending}", media_type=media, lines=parts(form))
        for form, (words, ending, media) in FORMS.items()
    ]


def relabelled_files(batch_id: str, with_text: bool = True, *, as_of: int | None = None) -> list[StreamedFile]:
    """The files of a batch's relabelled data set, for those who may take data out; as of its first ``as_of`` accepted
    labels, or as it is now.
    """
    key = context.settings().pseudonym_secret

    def rows(by: Acting) -> Iterator[RelabelledRow]:
        return export_relabelled(context.database(), by, batch_id, key, with_text=with_text, as_of=as_of)

    stem = f"relabelled-{batch_id[:12]}" + ("" if as_of is None else f"-as-of-{as_of}")
    card = StreamedFile(
        label="Relabelled (data card)",
        name=f"{stem}-data-card.md",
        media_type=MARKDOWN,
        lines=lambda who: as_data_card(rows(who.at(context.now()))),
    )
    return [*_offered("Relabelled", stem, lambda form, by: export(RELABELLED, rows(by), form)), card]


def review_files(batch_id: str | None) -> list[StreamedFile]:
    """The files of one batch's blinded first reviews, of all with None."""
    key = context.settings().pseudonym_secret
    return _offered(
        "Reviews",
        "readings",
        lambda form, by: export_reviews(export_readings(context.database(), by, key, batch_id), form),
    )


def batch_files(person: Actor, one: BatchSummary) -> None:
    """A row of links, as far as this person may have the files; nothing where they may have none."""
    files, db = list[StreamedFile](), context.database()
    if is_allowed(person, Action.VIEW_RESULTS):
        files = _offered("Results", "results", lambda form, by: export(RESULTS, export_results(db, by, one.id), form))
        if one.progress.rejected:
            files.append(
                StreamedFile(
                    label="Rejected rows",
                    name="rejected.csv",
                    media_type=CSV,
                    lines=lambda who: rejected_csv(export_rejected(db, who.at(context.now()), one.id)),
                )
            )
    if may_export := is_allowed(person, Action.EXPORT):
        files += relabelled_files(one.id)
    if files:
        show_files(files)
        relabelled = " Relabelled: reference, every review, adjudicated and final label." if may_export else ""
        st.caption(f"CSV escapes formulas; use JSON lines for unmodified text.{relabelled}")
