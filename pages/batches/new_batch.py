"""From a file to a batch, on one screen: what the file holds, what becomes of unsafe texts, what it costs, Start."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from jobs import intake
from jobs.agents import overnight_obstacle, reads_off
from jobs.intake import Upload, open_batch, receiver, uploaded_table
from pages.batches import file_check, pipelines, progress
from pages.batches.file_check import REASON_WORDS, Check, check_rows, read_mapped, show_refusal
from pages.ui import context, widgets
from pages.ui.downloads import StreamedFile, rejected_rows, show_files
from pages.ui.words import NOT_PRIVATE, duration, literal, money, words_of
from screening.datasets.mapping import ColumnMapping, FileMapping
from screening.datasets.reader import Table, describe_reading
from screening.datasets.rows import FileRefused, RejectedRow
from screening.labels import LABELS
from screening.pipeline.config import PipelineConfig, mean_calls, most_calls
from screening.pipeline.draws import cost_usd
from screening.pipeline.files import load_prompts, usage_per_call
from screening.review.policy import Acting, Action, require
from screening.review.triage import Reach
from screening.settings import Settings
from screening.words import count_of
from storage.batches.batches import BatchSummary, NewBatch, list_batches
from storage.batches.configurations import active_version
from storage.batches.results import Spent, recent_spending

SAMPLE = Path(__file__).parents[2] / "data" / "sample.csv"
REACH_WORDS = words_of(Reach, "reach")


ASSUMED = (0.9, 0.05, 0.05)
"""How an agent that is fairly sure of a label answers: that label nine times in ten. For sites without a batch yet."""

Calls = dict[str, float | None]
"""Of a batch: "expected", "worst", and "low" to "high", between which the calls lie in 95 of 100 batches like the last
ones (None for a guess). It is kept with the batch, to be shown beside what it came to.
"""


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
    kept = intake.keep(upload_folder(), given.name, given, context.actor().id)
    st.session_state["upload_number"] = number + 1
    st.query_params["upload"] = kept.token
    st.rerun()


def upload_folder() -> Path:
    """Where files lie that people have uploaded and not started."""
    return context.settings().data_directory / intake.BY_PEOPLE


def sample_button() -> None:
    """The sample that comes with the program, as if it were uploaded; nothing where it does not."""
    if not SAMPLE.exists() or not st.button("Try sample data", icon=":material/table_view:"):
        return
    with SAMPLE.open("rb") as sample:
        kept = intake.keep(upload_folder(), SAMPLE.name, sample, context.actor().id)
    st.switch_page(Path(__file__).parents[1] / "batch_list.py", query_params={"upload": kept.token})


def check_file(upload: Upload) -> None:
    """Everything before the first call; of a file that is a batch already, the batch."""
    if upload.batch_id:
        show_batch_of(upload)
    st.caption("File uploads › Check")
    st.title(literal(upload.name))
    above = st.container()
    left, right = st.columns([3, 2], gap="medium")
    confirmed = None
    try:
        with left:
            sheet = st.session_state.get(file_check.sheet_key(upload.token))
            confirmed = confirm_file(replace(upload, sheet=sheet), above)
    except FileRefused as refusal:
        with above:
            show_refusal(refusal)
    with right:
        if confirmed is None:
            leave(upload)
        else:
            start_card(*confirmed)


def confirm_file(upload: Upload, above: DeltaGenerator) -> tuple[Upload, Table, Check] | None:
    """Columns and labels as a person confirms them; None until the columns are clear. Raises FileRefused."""
    with st.container(border=True):
        fields, more = st.container(gap="small"), st.expander("More columns, conversations, column mapping")
        mapping, kept, suffix = file_check.ask_columns(upload, fields, more)
        if mapping is None:
            return None
        place = upload.path, upload.name, upload.sheet, mapping
        table, found = read_mapped(*place), check_rows(*place)
        labels = file_check.confirm_labels(table, kept, suffix)
    with more:
        file_check.offer_mapping(FileMapping(columns=mapping, labels=labels, sheet=upload.sheet))
    final, counted = table.with_labels(labels), found.with_labels(labels)
    with above:
        show_counts(final, counted, rejected_file(upload, mapping))
    with st.container(border=True):
        st.markdown("**Preview**")
        st.dataframe(file_check.preview_rows(found, labels), hide_index=True, height="content")
    return replace(upload, mapping=table.mapping, label_values=dict(labels)), final, counted


def leave(upload: Upload) -> None:
    if st.button("Another file", icon=":material/arrow_back:"):
        intake.discard(upload)
        del st.query_params["upload"]
        st.rerun()


def show_counts(table: Table, found: Check, rejected: StreamedFile) -> None:
    out = found.rejected.total()
    rows, some = count_of(found.rows_in, "row"), f":red[**{out:,} rejected**]" if out else "0 rejected"
    st.markdown(f"**{rows}**: :green[**{found.accepted:,} accepted**], {some} · {literal(table.layout.words)}")
    sentences = [literal(each) for each in table.warnings]
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
    if table.unread:
        st.caption(literal(table.unread_words))
    if sentences:
        st.warning("\n".join(f"- {each}" for each in sentences) if len(sentences) > 1 else sentences[0])
    if out:
        with st.expander(f"{count_of(out, 'rejected row')}: see why"):
            why = [{"Why": REASON_WORDS[reason], "Rows": count} for reason, count in found.rejected.most_common()]
            st.dataframe(why, hide_index=True)
            show_files([rejected])


def start_card(upload: Upload, table: Table, found: Check) -> None:
    """Drawn in another order than run: the price follows from what is chosen under Advanced."""
    own = active_version(context.database())
    with st.container(border=True, key="start_card"):
        policy, price, button = st.container(), st.container(gap="small"), st.container(gap="small")
        with st.expander("Advanced: pipeline, error bound, limits"):
            chosen = pipelines.choose(context.settings(), own, "batch")
            caps = widgets.choose_caps("")
            guarantees = st.container()
        with button:
            pipeline = pipelines.decide_or_refuse(chosen) if found.accepted else None
            if pipeline is None:
                leave(upload)
                return
        with guarantees:
            pipelines.show_guarantees(pipeline)
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
            new = NewBatch(
                name=upload.name,
                max_calls=caps.max_calls,
                max_cost_usd=caps.max_cost_usd,
                reach=reach,
                submission=upload.token,
                overnight=overnight,
                research_order=research_order,
                intake=describe_reading(table) | {"estimate": calls},
            )
            if held := progress.find_hold(context.database(), context.now()):
                st.warning(f"{literal(held)}. The texts of this file wait until it works again.")
            by_nobody = own.title if own and pipeline == own.pipeline else None
            start_buttons(upload, table, pipeline, new, count_of(found.accepted, "text"), by_nobody)


def choose_reach(token: str, words: Mapping[Reach, str]) -> Reach:
    """Only a person chooses that unsafe texts are not reviewed. Beside each choice stands what follows."""
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
    """Overnight at about half the price, for research files, where an administrator allows it."""
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


def start_buttons(
    upload: Upload, table: Table, pipeline: PipelineConfig, new: NewBatch, texts: str, own: str | None
) -> None:
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
    if not pressed:
        return
    if own not in (None, st.session_state.pop(key, own)):
        st.warning(f"Nothing was started: {own} became active meanwhile. Look again, and press once more.")
        return

    def create() -> str:
        return open_batch(context.database(), context.actor(), pipeline, new, context.settings_now(), context.now)

    try:
        source = intake.begin(upload, create)
    except FileNotFoundError:  # from another window: it is in, or was not wanted
        st.query_params.clear()
        st.rerun()
    same = source == replace(upload, batch_id=source.batch_id)  # not begun in another window, and read otherwise
    progress.intake_runs().start(source, table if same else None)
    show_batch_of(source)


def show_batch_of(upload: Upload) -> None:
    """Lead on to the batch that this file became: it is started once, whoever comes back to it."""
    st.query_params.from_dict({"batch": str(upload.batch_id)})
    st.rerun()


def rejected_file(upload: Upload, mapping: ColumnMapping) -> StreamedFile:
    """Those of a file that is no batch yet, as it was confirmed; FileNotFoundError once the upload was put away."""

    def made(by: Acting) -> Iterator[RejectedRow]:
        require(by.actor, Action.CREATE_BATCH)
        rows = uploaded_table(replace(upload, mapping=mapping)).rows(receiver(context.settings()))
        return (row for row in rows if isinstance(row, RejectedRow))

    return rejected_rows(made)


def estimated_calls(found: Check, pipeline: PipelineConfig, settings: Settings, spent: Spent | None) -> Calls:
    """``spent`` is what the last batches of this pipeline have used, None where nothing was screened yet."""
    texts = found.accepted - found.without_call
    read_off = reads_off(settings, pipeline)
    once, twice = (most_calls(pipeline, flagged=flagged, read_off=read_off) for flagged in (False, True))
    most = texts * once + found.looked_at_twice * (twice - once)
    expected = texts * (assumed_calls(pipeline) if spent is None else spent.calls)
    low, high = (None, None) if spent is None else (min(most, one) for one in spent.interval(texts))
    return {"expected": min(most, expected), "low": low, "high": high, "worst": most}


def assumed_calls(pipeline: PipelineConfig) -> float:
    """Mean calls of a text where every agent is fairly sure, over the labels; else every budget spent."""
    mixes = [tuple(ASSUMED[0] if other is label else ASSUMED[1] for other in LABELS) for label in LABELS]
    known = [calls for mix in mixes if (calls := mean_calls(pipeline, mix)) is not None]
    return sum(known) / len(known) if known else float(most_calls(pipeline))


def call_price(found: Check, pipeline: PipelineConfig, settings: Settings, spent: Spent | None) -> float | None:
    """Dollars a call: as in the last batches, else at list price of the dearest model; None if unknown."""
    if settings.simulated:
        return 0.0
    if settings.anthropic_base_url:
        return None
    if spent is not None and spent.usd_a_call is not None:
        return spent.usd_a_call
    if any(node.server is not None for node in pipeline.nodes):
        return None
    characters = found.characters / found.accepted if found.accepted else 0
    per_call = usage_per_call(load_prompts(settings.prompts_directory), pipeline.nodes, characters)
    prices = [cost_usd(model, per_call) for model in {node.model or settings.model for node in pipeline.nodes}]
    return None if None in prices else max(float(price) for price in prices if price is not None)


def estimate_table(
    calls: Calls, found: Check, pipeline: PipelineConfig, settings: Settings, spent: Spent | None
) -> pd.DataFrame:
    """Expected, with the range of 95 of 100 such batches where runs tell; and at most, at list price."""
    price, list_price = (call_price(found, pipeline, settings, known) for known in (spent, None))
    expected, most, low, high = calls["expected"] or 0.0, calls["worst"] or 0.0, calls["low"], calls["high"]

    def cost(number: float, a_call: float | None) -> str:
        return money(None if a_call is None else number * a_call)

    def time(number: float) -> str:
        if settings.simulated:
            return "not estimated in demo mode"
        return duration(60 * number / settings.requests_per_minute)

    def spread(words: Callable[[float], str]) -> str:
        if low is None or high is None or words(low) == words(high):
            return words(expected)
        return f"{words(expected)} ({words(low)} to {words(high)})"

    rows = [
        ("AI responses", spread("{:,.0f}".format), f"{most:,.0f}"),
        ("Cost", spread(lambda number: cost(number, price)), cost(most, list_price)),
        ("Time", time(expected), time(most)),
    ]
    return pd.DataFrame(rows, columns=["Estimate", "Expected", "At most"]).set_index("Estimate")


def basis_words(spent: Spent | None) -> str:
    if spent is None:
        return "Estimate only: no past runs with these settings."
    last = "the last upload" if spent.batches == 1 else f"the last {spent.batches} uploads"
    return (
        f"From {last} with this pipeline ({count_of(spent.texts, 'text')}, {spent.calls:.1f} responses "
        "each); 95% prediction interval."
    )


def review_estimate(
    found: Check, audit_rate: float, batches: Sequence[BatchSummary], version: str
) -> Mapping[Reach, str]:
    """What follows from each choice, by shares seen under these settings, else assumed."""
    same = [one.progress for one in batches if one.configuration_version == version]
    if decided := sum(one.safe + one.unsafe + one.human_review for one in same):
        escalated, unsafe = sum(one.human_review for one in same) / decided, sum(one.unsafe for one in same) / decided
        basis = f"from {count_of(decided, 'text')} screened with these settings"
    else:
        _, unsafe, escalated = ASSUMED
        unsafe = found.unsafe / found.referenced if found.referenced else unsafe
        basis = (
            f"assumes {escalated:.0%} escalated, {unsafe:.0%} unsafe{' as in your file' if found.referenced else ''}"
        )
    asked = found.accepted - found.without_call

    def reviews(share: float) -> str:
        count = round(found.without_call + asked * (share + audit_rate * (1 - share)))
        return f"{count_of(count, 'case')} to review"

    known = f"{found.unsafe:,} labeled unsafe in your file, " if found.referenced else ""
    unseen = f"{known}about {round(unsafe * asked):,} expected from the AI"
    checks = f", and {audit_rate:.0%} of the others for quality checks" if audit_rate else ""
    return {
        Reach.READ: f"About {reviews(escalated + unsafe)} ({basis}{checks}).",
        Reach.LIST: f":red[**No one reviews them**: {unseen}.] Other texts: about {reviews(escalated)}.",
        Reach.COUNT: f":red[**No one sees them**: {unseen}.] Other texts: about {reviews(escalated)}.",
    }
