"""Files of any size for the browser, written while they are made: Streamlit's own downloads lie in memory whole.

A page offers a file and gets an address that nobody can guess, good only for the browser it was offered to. Who asks
for it is looked up again when it is asked for, and the file is made for them with the roles they have then.
"""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from jobs.computing import Cache
from pages.ui import auth, context, html, http
from pages.ui.context import singleton
from pages.ui.words import literal
from screening.datasets import export as datasets
from screening.datasets.rows import RejectedRow
from screening.labels import Label
from screening.review.policy import Acting, Action, Actor, Forbidden, is_allowed
from screening.words import count_of
from storage.audit_log import record_refusal
from storage.batches.batches import BatchSummary
from storage.batches.results import Result, export_rejected, export_results
from storage.research.corrected_labels import CorrectedRow, export_corrected_labels
from storage.research.review_table import ReviewedCase, collect_reviews, reviewers_of
from storage.site.accounts import SessionEnded
from storage.visibility import hides_in_review

MOST_OFFERS = 10_000
LINES_AT_ONCE, CHARACTERS_AT_ONCE = 500, 1_000_000
CSV, JSONL = "text/csv; charset=utf-8", "application/x-ndjson"
JSON, PARQUET = "application/json", "application/vnd.apache.parquet"
MARKDOWN = "text/markdown; charset=utf-8"


@dataclass(frozen=True, slots=True)
class StreamedFile:
    """A file on offer: ``name`` is what it is saved as, ``lines`` makes it for whoever asks, or raises Forbidden, and
    FileNotFoundError where what it is made from was put away. An offer may outlive its page by hours: ``lines`` holds
    what names the content, never the content.
    """

    label: str
    name: str
    media_type: str
    lines: Callable[[Acting], Iterator[str | bytes]]


Offer = tuple[str, StreamedFile, Callable[[], Actor]]
"""The browser that a file is for, the file, and what says who asks for it from there."""


@singleton
def offers() -> Cache[Offer]:
    """What the pages of this process offer, by addresses that nobody can guess; the oldest are forgotten first."""
    return Cache(MOST_OFFERS)


def offer_file(browser: str, file: StreamedFile, who: Callable[[], Actor]) -> str:
    """The address of this file from now on, for this browser alone; ``who`` says who is asking from it."""
    token = secrets.token_urlsafe(24)
    offers().put(token, (browser, file, who))
    return f"{http.FILES}/{token}"


def show_files(files: Sequence[StreamedFile]) -> None:
    """A row of links; each asks again who this is when it is followed."""
    browser, who = auth.browser_of(st.context.cookies.to_dict()), auth.who_asks()
    links = [html.Link(f"⤓ {file.label}", offer_file(browser, file, who), download=file.name) for file in files]
    st.html(html.links_html(links))


COUNTS_AS_SEEN = (
    "Cases in review whose outcome you see here or export count as seen: your later review of them is stored as not "
    "blinded and left out of the estimates on Reliability."
)


def show_export(files: Callable[[bool], Sequence[StreamedFile]], key: str, note: str) -> None:
    """One button with the forms of a data set, without its texts unless they are asked for."""
    with st.popover("Export", icon=":material/download:"):
        show_files(files(st.toggle("With texts", value=False, key=f"{key}_texts")))
        st.caption(note)
        db, person = context.database(), context.actor()
        with db.read() as conn:
            if is_allowed(person, Action.CLAIM_NEXT) and not hides_in_review(conn, person):
                st.caption(COUNTS_AS_SEEN)


async def _serve(request: Request) -> Response:
    offer = offers().get(request.path_params["token"])
    if offer is None or offer[0] != auth.browser_of(request.cookies):
        return PlainTextResponse("This link has expired. Reload the page.", status_code=404)
    _, file, who = offer
    try:
        parts = await run_in_threadpool(_begin, file, who)
    except (SessionEnded, auth.Unidentified):
        return PlainTextResponse("Your session has ended: sign in again.", status_code=401)
    except Forbidden:
        return PlainTextResponse("Your role does not let you have this file.", status_code=403)
    except FileNotFoundError:
        return PlainTextResponse("This link has expired. Reload the page.", status_code=410)
    name = "".join(one for one in file.name if one.isascii() and one.isprintable() and one not in '"\\')
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(parts, media_type=file.media_type, headers=headers)


def _begin(file: StreamedFile, ask: Callable[[], Actor]) -> Iterator[bytes]:
    """The file's parts; the first is made at once, so that a refusal is an answer and not half a file."""
    by = ask().at(context.now())
    try:
        parts = _parts(file.lines(by))
        return chain([next(parts, b"")], parts)
    except Forbidden as refused:
        record_refusal(context.database(), by, refused.action)
        raise


def _parts(lines: Iterator[str | bytes]) -> Iterator[bytes]:
    """So many lines, fewer where they are long: texts may be."""
    part, characters = list[bytes](), 0
    for line in lines:
        part.append(line if isinstance(line, bytes) else line.encode("utf-8", "replace"))
        characters += len(line)
        if len(part) == LINES_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield b"".join(part)
            part, characters = [], 0
    if part:
        yield b"".join(part)


FILES_ROUTE = Route(f"{http.FILES}/{{token}}", _serve)


def as_data_card(rows: Iterable[CorrectedRow]) -> Iterator[str]:
    """The card as Markdown, of exactly the rows that the other files of this version hold, counted row by row."""
    first: CorrectedRow | None = None
    found = {name: Counter[str]() for name in ("reference", "final", "source", "outcome", "tag", "group")}
    screened = Counter[tuple[str, str, str, str, float | None]]()
    n, reviewers = Counter[str](), set[str]()
    for row in rows:
        first = first or row
        found["reference"][row.reference or "none"] += 1
        found["final"][row.final_label or "none"] += 1
        found["source"][row.final_source] += 1
        found["outcome"]["hidden" if row.hidden else row.outcome or "not screened"] += 1
        found["tag"].update(row.tags)
        found["group"].update(() if row.group is None else [row.group])
        if row.model and row.prompts and row.pipeline and row.rule:
            screened[row.model, row.prompts, row.pipeline, row.rule, row.pipeline_delta] += 1
        reviewers.update(one["reviewer"] for one in row.reviews)
        decided = row.adjudicated_label in ("safe", "unsafe")
        n["rows"] += 1
        n["reviews"] += len(row.reviews)
        n["blind"] += sum(one["blind"] and one["version"] == 1 for one in row.reviews)
        n["changed"] += bool(decided and row.reference and row.adjudicated_label != row.reference)
        n["withdrawn"] += bool(row.adjudicated_label and not decided and row.reference)
        n["hidden"] += row.hidden
    card = html.TEMPLATES.get_template("data_card.md")
    yield card.render(
        first=first, found=found, screened=screened, n=n, reviewers=reviewers, literal=literal, count_of=count_of
    )


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

    columns: Mapping[str, datasets.Kind]
    row: Callable[[Any], dict[str, Any]]
    task: Callable[[Any], tuple[Sequence[str], Mapping[str, str], str | None]]
    not_in_csv: frozenset[str] = frozenset()


def export(kind: Dataset, content: Iterable[Any], form: str) -> Parts:
    """The content as a file of this form. A spreadsheet's formulas are neutralized in CSV; parts are JSON in one cell.
    JSON lines hold everything as it is.
    """

    def task(one: Any) -> dict[str, object]:
        row, (names, labels, predicted) = kind.row(one), kind.task(one)
        return datasets.label_studio_task(one.row, {name: row[name] for name in names}, labels, predicted)

    def flat(name: str, value: Any) -> Any:
        if name == "tags" and isinstance(value, tuple):
            return ", ".join(value)
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | tuple) else value

    if form == "label-studio":
        return datasets.json_array_lines(map(task, content))
    rows = map(kind.row, content)
    if form == "jsonl":
        return datasets.jsonl_lines(rows)
    if form == "parquet":
        return datasets.parquet_parts(
            kind.columns, ({name: flat(name, row[name]) for name in kind.columns} for row in rows)
        )
    names = [name for name in kind.columns if name not in kind.not_in_csv]
    return datasets.csv_lines(names, ([flat(name, row[name]) for name in names] for row in rows))


def _columns(names: str, **others: datasets.Kind) -> dict[str, datasets.Kind]:
    return {name: others.get(name, "text") for name in names.split()}


def _result(one: Result) -> dict[str, Any]:
    """A pending row's reason is its last error; tags and remarks are lists in JSON."""
    named = {name: getattr(one, name, None) for name in RESULTS.columns}
    noted = {name: json.dumps(getattr(one, name), ensure_ascii=False) for name in ("tags", "remarks")}
    return named | {"id": one.external_id, "reason": one.reason or one.error, "final_label": one.accepted} | noted


def _corrected(one: CorrectedRow) -> dict[str, Any]:
    return {"id": one.external_id} | {
        name: _plain(value) for name, value in asdict(one).items() if name != "external_id"
    }


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case tuple() | list():
            return tuple(map(_plain, value))
    return value


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
CORRECTED_LABELS = Dataset(
    columns=_columns(
        "id row case_id text reply group reference reference_value provenance outcome reviews adjudicated_label "
        "final_label final_source hidden version as_of model prompts pipeline rule pipeline_delta configuration tags",
        row="int", as_of="int", hidden="bool", pipeline_delta="float",
    ),
    row=_corrected,
    task=lambda one: (
        ("id", "text", "reply", "group", "reference", "final_label", "final_source"),
        {review["reviewer"]: review["label"] for review in one.reviews},
        one.outcome,
    ),
    not_in_csv=frozenset({"provenance"}),  # where the labels come from is in the data card
)  # fmt: skip


REVIEWS = _columns(
    "case_id id reviewer label certainty ideation review at_random", certainty="int", ideation="int", at_random="bool"
)


def export_reviews(table: Sequence[ReviewedCase], form: str) -> Parts:
    """The blinded first reviews, never a text; in CSV a line a case and a column a reviewer."""
    reviewers = reviewers_of(table)
    if form == "csv":
        labels = ([case.reviews.get(each, {}).get("label") for each in reviewers] for case in table)
        lines = (
            [case.case_id, case.external_id, *said, str(case.at_random).lower()]
            for case, said in zip(table, labels, strict=True)
        )
        return datasets.csv_lines(["case_id", "id", *reviewers, "at_random"], lines)
    rows = [
        (
            {"case_id": case.case_id, "id": case.external_id, "at_random": case.at_random},
            {each: case.reviews[each] for each in reviewers if each in case.reviews},
        )
        for case in table
    ]
    if form == "jsonl":
        return datasets.jsonl_lines(named | {"reviews": said} for named, said in rows)
    if form == "parquet":
        flat = (named | {"reviewer": reviewer, **one} for named, said in rows for reviewer, one in said.items())
        return datasets.parquet_parts(REVIEWS, flat)
    labeled = ((named, {reviewer: one["label"] for reviewer, one in said.items()}) for named, said in rows)
    return datasets.json_array_lines(
        datasets.label_studio_task(number, *of_case, None) for number, of_case in enumerate(labeled, start=1)
    )


def _offered(title: str, stem: str, made: Callable[[str, Acting], Parts]) -> list[StreamedFile]:
    """A file of each form, made for whoever asks."""
    return [
        StreamedFile(f"{title} ({words})", f"{stem}{ending}", media, partial(made, form))
        for form, (words, ending, media) in FORMS.items()
    ]


def corrected_label_files(batch_id: str, with_text: bool = True, *, as_of: int | None = None) -> list[StreamedFile]:
    """The corrected data set, as of its first ``as_of`` accepted labels or as it is now."""
    key = context.settings().pseudonym_secret

    def rows(by: Acting) -> Iterator[CorrectedRow]:
        return export_corrected_labels(context.database(), by, batch_id, key, with_text=with_text, as_of=as_of)

    stem = f"corrected-{batch_id[:12]}" + ("" if as_of is None else f"-as-of-{as_of}")
    title, name = "Corrected labels (data card)", f"{stem}-data-card.md"
    card = StreamedFile(title, name, MARKDOWN, lambda by: as_data_card(rows(by)))
    return [*_offered("Corrected labels", stem, lambda form, by: export(CORRECTED_LABELS, rows(by), form)), card]


def review_files(batch_id: str | None) -> list[StreamedFile]:
    db, key = context.database(), context.settings().pseudonym_secret
    return _offered("Reviews", "reviews", lambda form, by: export_reviews(collect_reviews(db, by, key, batch_id), form))


def rejected_rows(made: Callable[[Acting], Iterable[RejectedRow]]) -> StreamedFile:
    return StreamedFile("Rejected rows", "rejected.csv", CSV, lambda by: datasets.rejected_csv(made(by)))


def batch_files(person: Actor, one: BatchSummary) -> None:
    """One button with the files that this person may have; nothing where they may have none."""
    files, db = list[StreamedFile](), context.database()
    if is_allowed(person, Action.VIEW_RESULTS):
        files = _offered("Results", "results", lambda form, by: export(RESULTS, export_results(db, by, one.id), form))
        if one.progress.rejected:
            files.append(rejected_rows(lambda by: export_rejected(db, by, one.id)))
    if may_export := is_allowed(person, Action.EXPORT):
        files += corrected_label_files(one.id)
    if not files:
        return
    with st.popover("Export", icon=":material/download:"):
        show_files(files)
        corrected = " Corrected labels: the original label, every review and the final label." if may_export else ""
        st.caption(f"All cases of the upload. CSV escapes formulas; use JSON lines for unmodified text.{corrected}")
