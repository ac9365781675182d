"""From a file to a batch, on one screen: what the file holds, what becomes of unsafe texts, what it costs, Start."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import streamlit as st

from jobs import uploads
from jobs.agents import Agents, overnight_obstacle
from jobs.intake import BatchRequest, open_batch, receiver
from jobs.uploads import Upload, uploaded_table
from pages.batches.estimates import ReviewEstimate, basis_words, estimate_table, estimated_calls, review_estimate
from pages.batches.file_check import REASON_WORDS, Check, check_rows, format_words, preview_rows, profile, read_mapped
from pages.batches.intake_runs import intake_runs
from pages.batches.mapping import (
    chosen_sheet,
    confirm_columns,
    confirm_labels,
    kept_mapping,
    offer_mapping,
    sheet_key,
)
from pages.batches.pipelines import choose, decide_or_refuse, show_guarantees
from pages.ui import context
from pages.ui.downloads import CSV, StreamedFile, show_files
from pages.ui.labels import NOT_PRIVATE, literal
from pages.ui.widgets import choose_caps
from screening.datasets.export import rejected_csv
from screening.datasets.mapping import ColumnMapping, FileMapping, rivals
from screening.datasets.reader import Table, describe_reading
from screening.datasets.rows import RejectedRow
from screening.datasets.sources import ColumnsUnclear, FileRefused
from screening.pipeline.config import PipelineConfig
from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.reach import Reach
from screening.words import count_of
from storage.batches.batches import list_batches
from storage.batches.costs import recent_spending
from storage.batches.pipelines import active_version

SAMPLE = Path(__file__).parents[2] / "data" / "sample.csv"
REACH_WORDS = {
    Reach.READ: "Review every one",
    Reach.LIST: "List for sign-off",
    Reach.COUNT: "Do not review (count only)",
}


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
    kept = uploads.keep(upload_folder(), given.name, given, context.actor().id)
    st.session_state["upload_number"] = number + 1
    st.query_params["upload"] = kept.token
    st.rerun()


def upload_folder() -> Path:
    """Where files lie that people have uploaded and not started."""
    return context.settings().data_directory / uploads.BY_PEOPLE


def sample_button() -> None:
    """The sample that comes with the program, as if it were uploaded; nothing where it does not."""
    if not SAMPLE.exists() or not st.button("Try sample data", icon=":material/table_view:"):
        return
    with SAMPLE.open("rb") as sample:
        kept = uploads.keep(upload_folder(), SAMPLE.name, sample, context.actor().id)
    st.switch_page(Path(__file__).parents[1] / "batch_list.py", query_params={"upload": kept.token})


def check_file(upload: Upload) -> None:
    """Everything before the first call; of a file that is a batch already, the batch."""
    if upload.batch_id:
        show_batch_of(upload)
    st.caption("File uploads › Check")
    st.title(literal(upload.name))
    above = st.container()
    left, right = st.columns([3, 2], gap="medium")
    try:
        with left:
            confirmed = confirm_file(replace(upload, sheet=st.session_state.get(sheet_key(upload.token))), above)
    except FileRefused as refusal:
        confirmed = None
        with above:
            show_refusal(refusal)
    with right:
        if confirmed is None:
            leave(upload)
        else:
            start_card(confirmed[0], *confirmed[1:])


def confirm_file(upload: Upload, above: "st.delta_generator.DeltaGenerator") -> tuple[Upload, Table, Check] | None:
    """Columns and labels as a person confirms them, and the first rows as they are read so; None until the columns are
    clear. Raises FileRefused.
    """
    with st.container(border=True):
        fields, more = st.container(gap="small"), st.expander("More columns, conversations, column mapping")
        mapping, kept, suffix = ask_columns(upload, fields, more)
        if mapping is None:
            return None
        place = upload.path, upload.name, upload.sheet, mapping
        table, found = read_mapped(*place), check_rows(*place)
        labels = confirm_labels(table, kept.labels if kept else {}, suffix)
    with more:
        offer_mapping(FileMapping(columns=mapping, labels=labels, sheet=upload.sheet))
    final, counted = table.with_labels(labels), found.with_labels(labels)
    with above:
        show_counts(final, counted, rejected_file(upload, mapping))
    with st.container(border=True):
        st.markdown("**Preview**")
        st.dataframe(preview_rows(found, labels), hide_index=True, height="content")
    return replace(upload, mapping=table.report.mapping, label_values=dict(labels)), final, counted


def ask_columns(
    upload: Upload, fields: "st.delta_generator.DeltaGenerator", more: "st.delta_generator.DeltaGenerator"
) -> tuple[ColumnMapping | None, FileMapping | None, str]:
    """The columns as a person confirms them, and the kept mapping that they begin with. Raises FileRefused."""
    found = profile(upload.path, upload.name, upload.sheet)
    sheets = found.sheets if isinstance(found, FileRefused) else found.report.sheets
    with fields:
        chosen_sheet(upload.token, sheets)
    with more:
        kept, suffix = kept_mapping(upload.token)
    if upload.sheet in sheets[1:]:
        suffix += f"_{sheets.index(upload.sheet)}"  # the columns of another sheet are others
    if isinstance(found, FileRefused) and not isinstance(found, ColumnsUnclear):
        raise found
    columns = found.columns if isinstance(found, ColumnsUnclear) else found.report.columns
    proposed = found.report.mapping if isinstance(found, Table) else None
    with fields:
        if kept is not None and kept.columns is not None:
            missing = sorted(kept.columns.columns() - set(columns))
            if missing:
                said = f"The file has no column {', '.join(missing)}, which the column mapping names."
                show_refusal(FileRefused(said))
            else:
                proposed = kept.columns
        problem = st.container()
        mapping = confirm_columns(columns, proposed, more, suffix)
        unclear = mapping is None or any(getattr(mapping, role) is None for role in rivals(columns))
        if isinstance(found, ColumnsUnclear) and kept is None and unclear:
            with problem:
                show_refusal(found)
    return mapping, kept, suffix


def show_refusal(refusal: FileRefused) -> None:
    """Why the file is not read."""
    st.error(f"**Not read as it is.** {literal(str(refusal))}", icon=":material/error:")


def leave(upload: Upload) -> None:
    """Discard the uploaded file."""
    if st.button("Another file", icon=":material/arrow_back:"):
        uploads.discard(upload)
        del st.query_params["upload"]
        st.rerun()


def show_counts(table: Table, found: Check, rejected: StreamedFile) -> None:
    """Rows in, accepted and rejected, how the file was read, and what should be known before starting."""
    report, out = table.report, sum(found.rejected.values())
    known = f" · recognized as {report.known}" if report.known else ""
    st.markdown(
        f"**{count_of(found.rows_in, 'row')}**: :green[**{found.accepted:,} accepted**], "
        f"{':red' if out else ''}[**{out:,} rejected**] · {literal(format_words(report) + known)}".replace(
            "[**0 rejected**]", "0 rejected"
        )
    )
    sentences = [literal(each) for each in report.warnings]
    if unread := found.without_call - found.not_screened:
        unasked = count_of(unread, "text cannot be screened and is", "texts cannot be screened and are")
        sentences.append(f"{unasked} escalated to a clinician without asking the AI.")
    if found.not_screened:
        rows = count_of(found.not_screened, "row")
        st.error(
            f"**Not screened: {rows}** that cannot be read as it should and states a risk. Once you start, a clinician "
            "sees each, with the reason.",
            icon=":material/error:",
        )
    if found.rows_in and not found.accepted:
        st.error("**Every row is rejected.** Nothing can be screened.", icon=":material/error:")
    if report.unread:
        st.caption(literal(report.unread_words))
    if sentences:
        st.warning("\n".join(f"- {each}" for each in sentences) if len(sentences) > 1 else sentences[0])
    if out:
        with st.expander(f"{count_of(out, 'rejected row')}: see why"):
            why = {REASON_WORDS[reason]: count for reason, count in found.rejected.items()}
            st.dataframe(pd.Series(why, name="Rows").rename_axis("Why").reset_index(), hide_index=True)
            show_files([rejected])


def start_card(upload: Upload, table: Table, found: Check) -> None:
    """What becomes of unsafe texts, the price, the button; the statistics folded away. It is drawn in that order, and
    run in another: the price follows from what is chosen under Advanced.
    """
    own = active_version(context.database())
    with st.container(border=True, key="start_card"):
        policy, price, button = st.container(), st.container(gap="small"), st.container(gap="small")
        with st.expander("Advanced: pipeline, error bound, limits"):
            chosen = choose(context.settings(), own, "batch")
            caps = choose_caps("")
            guarantees = st.container()
        with button:
            pipeline = decide_or_refuse(chosen) if found.accepted else None
            if pipeline is None:
                leave(upload)
                return
        with guarantees:
            show_guarantees(pipeline)
        earlier = list_batches(context.database(), context.actor(), limit=20)
        version = context.configuration(pipeline).version
        with policy:
            reach = choose_reach(upload.token, review_estimate(found, context.settings().audit_rate, earlier, version))
            research_order = choose_research_order(upload.token)
        with price:
            spent = recent_spending(context.database(), context.actor(), pipeline.version)
            calls = estimated_calls(found, pipeline, context.settings(), spent)
            st.table(estimate_table(calls, found, pipeline, context.settings(), spent), border="horizontal")
            st.caption(basis_words(spent))
        with button:
            overnight = choose_overnight(pipeline, found.accepted, found.referenced)
            request = BatchRequest(
                name=upload.name,
                pipeline=pipeline,
                max_calls=caps.max_calls,
                max_cost_usd=caps.max_cost_usd,
                reach=reach,
                submission=upload.token,
                overnight=overnight,
                research_order=research_order,
                intake=describe_reading(table.report) | {"estimate": calls},
            )
            by_nobody = own.title if own and pipeline == own.pipeline else None
            start_buttons(upload, table, request, count_of(found.accepted, "text"), by_nobody)


def choose_reach(token: str, words: ReviewEstimate) -> Reach:
    """The choice for this upload; only a person chooses that unsafe texts are not reviewed. Beside each stands what
    follows.
    """
    chosen: Reach = st.radio(
        "**What happens to texts the AI labels unsafe?**",
        [*Reach],
        captions=[words[reach] for reach in Reach],
        format_func=REACH_WORDS.__getitem__,
        key=f"reach_{token}",
        help="Escalated texts and random quality checks are reviewed in any case. Listing or counting alone supports "
        "no claim about how many texts are labeled unsafe wrongly.",
    )
    return chosen


def choose_research_order(token: str) -> bool:
    """The declaration that lets a set be reviewed in random order."""
    chosen = st.checkbox(
        "None of these texts has a living author: review in random order, with no priority",
        key=f"research_order_{token}",
        help="For research data sets. A priority can tell reviewers what the AI said; in random order every text is P3 "
        "and due at random. Never for texts of people who can still be helped.",
    )
    if chosen:
        st.warning("A text that states an imminent risk will wait like any other of this file, and nobody is notified.")
    return chosen


def choose_overnight(pipeline: PipelineConfig, accepted: int, referenced: int) -> bool:
    """Overnight at about half the price, for research files; said instead where it may not be. Nothing is shown where
    no administrator allows it.
    """
    if not context.site().overnight_allowed:
        return False
    why = overnight_obstacle(context.settings(), pipeline)
    if referenced < accepted:
        why = f"{accepted - referenced:,} of {count_of(accepted, 'row has', 'rows have')} no reference label."
    if why:
        st.caption(f"Overnight is not possible: {why}")
        return False
    chosen = st.checkbox("Overnight, about half the price", key="overnight", help=NOT_PRIVATE)
    if chosen:
        st.warning(NOT_PRIVATE, icon=":material/cloud_upload:")
    return chosen


def start_buttons(upload: Upload, table: Table, request: BatchRequest, texts: str, own: str | None) -> None:
    """Start, unless another pipeline than the one that stood beside the button, chosen by nobody, is active by now."""
    key = "started_with"
    with st.container(horizontal=True):
        pressed = st.button(
            f"Start screening {texts}",
            type="primary",
            icon=":material/play_arrow:",
            on_click=lambda: st.session_state.update({key: own}),
        )
        leave(upload)
    if pressed and own not in (None, st.session_state.pop(key, own)):
        st.warning(f"Nothing was started: {own} became active meanwhile. Look again, and press once more.")
    elif pressed:
        start(upload, request, table)


def start(upload: Upload, request: BatchRequest, table: Table) -> None:
    """Open the batch, take the file in beside the page, and show the batch."""

    def create() -> str:
        settings, agents = context.settings_now(), Agents(context.settings_now())
        try:
            return open_batch(context.database(), context.actor(), request, settings, agents, context.now)
        finally:
            asyncio.run(agents.aclose())

    try:
        source = uploads.begin(upload, create)
    except FileNotFoundError:  # from another window: it is in, or was not wanted
        st.query_params.clear()
        st.rerun()
    same = source == replace(upload, batch_id=source.batch_id)  # not begun in another window, and read otherwise
    intake_runs().start(source, table if same else None)
    show_batch_of(source)


def show_batch_of(upload: Upload) -> None:
    """Lead on to the batch that this file became: it is started once, whoever comes back to it."""
    st.query_params.from_dict({"batch": str(upload.batch_id)})
    st.rerun()


def rejected_file(upload: Upload, mapping: ColumnMapping) -> StreamedFile:
    """Those of a file that is no batch yet, as it was confirmed; FileNotFoundError once the upload was put away."""

    def lines(who: Actor) -> Iterator[str]:
        require(who, Action.CREATE_BATCH)
        rows = uploaded_table(replace(upload, mapping=mapping)).rows(receiver(context.settings()))
        return rejected_csv(row for row in rows if isinstance(row, RejectedRow))

    return StreamedFile(label="Rejected rows", name="rejected.csv", media_type=CSV, lines=lines)
