"""From a file to a batch: upload, look at what it holds, confirm the columns and labels, see the price, start."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from html import escape

import streamlit as st

from jobs import uploads
from jobs.agents import Agents
from jobs.intake import BatchRequest, open_batch, receiver
from jobs.uploads import Upload, uploaded_table
from pages.batches.column_choice import chosen_sheet, confirm_columns, kept_mapping, offer_mapping, sheet_key
from pages.batches.estimates import BatchEstimate, batch_estimate, estimate_rows
from pages.batches.file_check import Check, preview_rows, rejected_rows, report_html
from pages.batches.file_reading import check_rows, profile, read_mapped
from pages.batches.intake_runs import intake_runs
from pages.batches.label_values import Labels, confirm_labels
from pages.batches.overnight_panel import choose_overnight
from pages.batches.pipelines import choose, decide_or_refuse, least_calls
from pages.batches.reach_choice import choose_reach, consequences
from pages.components import resources
from pages.components.streamed import CSV, StreamedFile, show_files
from screening.datasets.columns import ColumnMapping, rivals
from screening.datasets.mapping import FileMapping
from screening.datasets.reader import Table, describe_reading
from screening.datasets.refused import ColumnsUnclear, FileRefused
from screening.datasets.rows import RejectedRow, rejected_csv
from screening.engine.pipeline import PipelineConfig
from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.text.display import visible
from screening.words import count_of
from storage.batches.batches import list_batches
from storage.batches.pipelines import active_version
from storage.batches.spent import recent_spending


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A file after both passes, as one person confirmed it."""

    table: Table
    found: Check


def upload_file() -> None:
    """The uploader; the file goes to disk and the widget is freed."""
    number = st.session_state.setdefault("upload_number", 0)
    given = st.file_uploader(
        "A file of texts: CSV, TSV, JSON, JSON lines, xlsx or Parquet",
        key=f"upload_{number}",
        help="Larger files than this takes go through `python -m screening screen FILE`.",
    )
    if given is None:
        return
    folder = resources.settings().data_directory / uploads.BY_PEOPLE
    kept = uploads.keep(folder, given.name, given, resources.actor().id)
    st.session_state["upload_number"] = number + 1
    st.query_params["upload"] = kept.token
    st.rerun()


def check_file(upload: Upload) -> None:
    """Everything before the first call; of a file that is a batch already, the batch."""
    if upload.batch_id:
        show_batch_of(upload)
    st.html(f'<h2 style="margin:0;padding:0">Check {escape(visible(upload.name))}</h2>')
    try:
        _check_file(upload)
    except FileRefused as refusal:
        show_refusal(refusal)
        leave(upload)


def _check_file(upload: Upload) -> None:
    begun = replace(upload, sheet=st.session_state.get(sheet_key(upload.token)))
    with st.container(border=True):
        mapping, kept, suffix = ask_columns(begun)
    if mapping is None:
        leave(upload)
        return
    place = begun.path, begun.name, begun.sheet, mapping
    table, found = read_mapped(*place), check_rows(*place)
    left, right = st.columns([2, 3], gap="medium")
    with left:
        labels = confirm_labels(table, kept.labels if kept else {}, suffix)
        offer_mapping(FileMapping(columns=mapping, labels=labels, sheet=begun.sheet))
    final = Checked(table=table.with_labels(labels), found=found.with_labels(labels))
    with right:
        show_report(final, rejected_file(begun, mapping))
    st.markdown("**The first rows, as they will be read**")
    st.dataframe(preview_rows(found, labels), hide_index=True)
    offer(begun, final, labels)


def ask_columns(upload: Upload) -> tuple[ColumnMapping | None, FileMapping | None, str]:
    """The columns as a person confirms them, and the kept mapping that they begin with. Raises FileRefused."""
    found = profile(upload.path, upload.name, upload.sheet)
    sheets = found.sheets if isinstance(found, FileRefused) else found.report.sheets
    chosen_sheet(upload.token, sheets)
    kept, suffix = kept_mapping(upload.token)
    if upload.sheet in sheets[1:]:
        suffix += f"_{sheets.index(upload.sheet)}"  # the columns of another sheet are others
    if isinstance(found, FileRefused) and not isinstance(found, ColumnsUnclear):
        raise found
    columns = found.columns if isinstance(found, ColumnsUnclear) else found.report.columns
    proposed = found.report.mapping if isinstance(found, Table) else None
    kept_columns = kept.columns if kept else None
    if kept_columns is not None:
        proposed = kept_columns_or_refuse(kept_columns, columns) or proposed
    above = st.container()
    mapping = confirm_columns(columns, proposed, suffix)
    if isinstance(found, ColumnsUnclear) and kept_columns is None and still_unclear(columns, mapping):
        with above:
            show_refusal(found)
    return mapping, kept, suffix


def still_unclear(columns: tuple[str, ...], mapping: ColumnMapping | None) -> bool:
    """Whether somebody must still say which column is what."""
    return mapping is None or any(getattr(mapping, role) is None for role in rivals(columns))


def kept_columns_or_refuse(kept: ColumnMapping, columns: tuple[str, ...]) -> ColumnMapping | None:
    """The kept columns, where this file has them; else it is said which it has not."""
    missing = sorted(kept.columns() - set(columns))
    if missing:
        show_refusal(FileRefused(f"The file has no column {', '.join(missing)}, which the kept mapping names."))
        return None
    return kept


def show_refusal(refusal: FileRefused) -> None:
    """Why the file is not read."""
    st.html(
        '<div role="alert" style="border-left:4px solid light-dark(#b42318,#f0796f);padding:.5rem 1rem;'
        f'background:light-dark(#fdf1f0,#2c1614)"><b>Not read as it is.</b> {escape(visible(str(refusal)))}</div>'
    )


def leave(upload: Upload) -> None:
    """Discard the uploaded file."""
    if st.button("Choose another file", icon=":material/arrow_back:"):
        uploads.discard(upload)
        del st.query_params["upload"]
        st.rerun()


def show_report(final: Checked, rejected: StreamedFile) -> None:
    """Counts, warnings, rejected rows and the file of them."""
    report, found = final.table.report, final.found
    st.html(report_html(report, found))
    if found.rejected:
        st.dataframe(rejected_rows(found), height=min(220, 38 + 35 * len(found.rejected)))
        show_files([rejected])


def offer(upload: Upload, final: Checked, labels: Labels) -> None:
    """The price, the cap, and the button."""
    settings = resources.settings()
    left, right = st.columns([2, 3], gap="medium")
    with left:
        own = active_version(resources.database())
        choice = choose(settings, own, "batch")
        pipeline = decide_or_refuse(choice, "batch")
    if pipeline is None or not final.found.accepted:
        with right:
            leave(upload)
        return
    with right:
        earlier = list_batches(resources.database(), resources.actor(), limit=20)
        estimated = show_estimate(final.found, pipeline)
        version = resources.configuration(pipeline).version
        reach = choose_reach(upload.token, consequences(final.found, settings.audit_rate, earlier, version))
        overnight = choose_overnight(pipeline, final.found.accepted, final.found.referenced)
        most, cost = caps()
        shown = None if choice.own is None or own is None else own.title
        if pressed_start(count_of(final.found.accepted, "text"), shown):
            request = BatchRequest(
                name=upload.name,
                pipeline=pipeline,
                max_calls=most,
                max_cost_usd=cost,
                reach=reach,
                submission=upload.token,
                overnight=overnight,
                intake=describe_reading(final.table.report) | {"estimate": estimated.record},
            )
            start(upload, request, final.table, labels)
        leave(upload)


def show_estimate(found: Check, pipeline: PipelineConfig) -> BatchEstimate:
    """The price before the first call, and what it rests on."""
    spent = recent_spending(resources.database(), resources.actor(), pipeline.version)
    estimated = batch_estimate(found, pipeline, resources.settings(), spent)
    st.dataframe(estimate_rows(estimated), hide_index=True)
    st.caption(f"Expected: {estimated.basis}. {least_calls(pipeline)}")
    return estimated


def pressed_start(texts: str, own: str | None) -> bool:
    """The button; whether it was pressed where this pipeline of the site, chosen by nobody, stood beside it."""
    key = "started_with"
    if not st.button(
        f"Start screening {texts}",
        type="primary",
        icon=":material/play_arrow:",
        on_click=lambda: st.session_state.update({key: own}),
    ):
        return False
    if own in (None, st.session_state.pop(key, own)):
        return True
    st.warning(f"Nothing was started: {own} came into force meanwhile. Look again, and press once more.")
    return False


def caps() -> tuple[int | None, float | None]:
    """The inputs for the most calls and dollars; None is no cap."""
    calls_cap, cost_cap = st.columns(2)
    most = calls_cap.number_input("Stop after so many calls", min_value=1, value=None, placeholder="no cap")
    cost = cost_cap.number_input("Stop after so many US dollars", min_value=0.01, value=None, placeholder="no cap")
    return most, cost


def start(upload: Upload, request: BatchRequest, table: Table, labels: Labels) -> None:
    """Open the batch, take the file in beside the page, and show the batch."""
    confirmed = replace(upload, mapping=table.report.mapping, label_values=dict(labels))
    try:
        source = uploads.begin(confirmed, lambda: create_batch(request))
    except FileNotFoundError:  # from another window: it is in, or was not wanted
        st.query_params.clear()
        st.rerun()
    same = source == replace(confirmed, batch_id=source.batch_id)  # not begun in another window, and read otherwise
    intake_runs().start(source, table if same else None)
    show_batch_of(source)


def show_batch_of(upload: Upload) -> None:
    """Lead on to the batch that this file became: it is started once, whoever comes back to it."""
    st.query_params.from_dict({"batch": str(upload.batch_id)})
    st.rerun()


def create_batch(request: BatchRequest) -> str:
    """An empty batch under the present settings."""
    settings, agents = resources.settings_now(), Agents(resources.settings_now())
    try:
        return open_batch(resources.database(), resources.actor(), request, settings, agents, resources.now)
    finally:
        asyncio.run(agents.aclose())


def rejected_file(upload: Upload, mapping: ColumnMapping) -> StreamedFile:
    """Those of a file that is no batch yet, as it was confirmed; FileNotFoundError once the upload was put away."""
    made = partial(_lines, replace(upload, mapping=mapping))
    return StreamedFile(label="Rejected rows", name="rejected.csv", media_type=CSV, lines=made)


def _lines(upload: Upload, who: Actor) -> Iterator[str]:
    require(who, Action.CREATE_BATCH)
    rows = uploaded_table(upload).rows(receiver(resources.settings()))
    return rejected_csv(row for row in rows if isinstance(row, RejectedRow))
