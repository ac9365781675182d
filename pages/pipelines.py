"""The site's own pipeline: drawn, edited, versioned, put in force."""

import streamlit as st

from jobs.agents import reads_off
from pages.batches.pipeline_draft import Draft, checks, differences, draft_of, judge_draft, price_at_worst
from pages.batches.pipeline_editor import edit_node
from pages.batches.pipelines import whole_way_panel
from pages.batches.prompt_panel import prompts_panel
from pages.research.activation_panel import activation_panel, promotion, replace_unreadable
from pages.research.comparison_panel import comparison_panel
from pages.ui import context
from pages.ui.auth import check_before
from pages.ui.charts import NodeMark, diagram_html
from pages.ui.format import money
from pages.ui.labels import PROBABILITIES_MEANING, literal, sentence
from pages.ui.widgets import known_models_or_refuse
from screening.pipeline.config import PipelineConfig, chain_bound, most_calls
from screening.pipeline.files import load_prompts, shipped_pipelines, write_pipeline
from screening.review.policy import Action, is_allowed, require
from screening.words import count_of
from storage.batches.pipelines import StalePipeline, UnreadablePipeline, active_version, keep_version, list_versions

db, person, settings = context.database(), context.actor(), context.settings()
require(person, Action.VIEW_SETTINGS)
may_draft = is_allowed(person, Action.DRAFT_PIPELINE)
prompts = load_prompts(settings.prompts_directory)
kept = {f"{one.pipeline.name}/{one.number}": one for one in list_versions(db, person)}


def begin(pipeline: PipelineConfig) -> None:
    """Edit this pipeline from now on; what was edited before is left."""
    st.session_state["pipeline_draft"] = draft_of(pipeline)
    st.session_state["pipeline_round"] = st.session_state.get("pipeline_round", 0) + 1
    st.session_state["pipeline_seen"] = {one.pipeline.name: one.number for one in reversed(kept.values())}


def start_from() -> None:
    """Choose what the draft begins with."""
    words = {name: f"{name} (built-in)" for name in shipped_pipelines()}
    words |= {key: one.title + (" (active)" if one == active else "") for key, one in kept.items()}
    names = [*kept, *shipped_pipelines()]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("Start from", names, format_func=words.__getitem__, key="pipeline_from")
        if st.button("Open", icon=":material/edit:", key="pipeline_open"):
            begin(kept[chosen].pipeline if chosen in kept else shipped_pipelines()[chosen])
            st.rerun()


def facts(pipeline: PipelineConfig) -> None:
    """What the draft can decide, and what it costs at the worst."""
    st.text("\n".join(("✓ " if one.holds else "▲ ") + one.words for one in checks(pipeline)))
    bound, price = chain_bound(pipeline), price_at_worst(pipeline, prompts, settings.model)
    said = "no bound: an agent has none" if bound is None else f"at most {bound:.3g}"
    paid = "no cost: simulated agents" if settings.simulated else money(price)
    read_off = reads_off(settings, pipeline)
    once, twice = (most_calls(pipeline, flagged=flagged, read_off=read_off) for flagged in (False, True))
    st.text(
        f"At most {once:,} calls a text, {twice:,} where it is looked at "
        f"twice. A thousand such texts at the worst, at list price: {paid}. "
        f"Overall error bound along the longest path: {said}."
    )
    whole_way_panel(pipeline, "pipeline")
    if read_off:
        st.text(PROBABILITIES_MEANING)


def preview(draft: Draft) -> PipelineConfig | None:
    """The drawing, the checks and the difference; None while something is wrong."""
    pipeline, wrong = judge_draft(draft)
    if pipeline is None:
        st.error(literal(wrong[:1].upper() + wrong[1:] + "."), icon=":material/block:")
    if pipeline is None or not known_models_or_refuse(pipeline):
        return None
    marks = {one.name: NodeMark(words=f"{one.model or 'site'} · ≤ {one.rule.budget}") for one in pipeline.nodes}
    st.html(diagram_html(pipeline, marks))
    facts(pipeline)
    changed = differences(usual, pipeline)
    with st.expander(f"Difference to the active pipeline ({literal(usual.name)}): {count_of(len(changed), 'line')}"):
        st.code("\n".join(changed) or "None.", language="diff", wrap_lines=True)
    whole = prompts_panel(usual, pipeline, prompts)
    made = check_before(Action.VIEW_SETTINGS, lambda: write_pipeline(pipeline))
    st.download_button("Export TOML", made, f"{pipeline.name}.toml", on_click="ignore")
    return pipeline if whole else None


def save(pipeline: PipelineConfig) -> None:
    """Name, note and the button; the next version of that name."""
    note = st.text_input("What is new in this version", key="pipeline_note", max_chars=200)
    seen: dict[str, int] = st.session_state["pipeline_seen"]  # the newest versions when this draft was begun
    if st.button("Save as a new version", type="primary", disabled=not may_draft, key="pipeline_save"):
        by = person.at(context.now())
        try:
            made = keep_version(db, by, pipeline, note, seen.get(pipeline.name, 0))
        except StalePipeline as stale:
            st.error(
                f"{literal(sentence(stale))} Open that one, or give this draft another name.", icon=":material/edit:"
            )
            return
        seen[pipeline.name] = made.number
        nothing = f"Nothing differs from {literal(made.title)}: nothing was saved."
        new = f"Saved: {literal(made.title)}. Not used until you activate it."
        st.session_state["pipeline_saved"] = new if made.at == by.now else nothing
        st.rerun()
    with st.container():  # beside the button: the head of the page is out of sight there
        if said := st.session_state.pop("pipeline_saved", None):
            st.success(said, icon=":material/check:")


st.title("Pipelines")
told = st.container()  # always there, so that what stands below keeps its place
if said := st.session_state.pop("pipeline_said", None):
    told.success(said, icon=":material/check:")
try:
    active, usual = active_version(db), context.usual_pipeline()
except UnreadablePipeline as unreadable:
    replace_unreadable(db, person, kept, unreadable)
    st.stop()
edit, compare = st.tabs(["Edit", "Compare"])
with edit:
    start_from()
    if "pipeline_draft" not in st.session_state:
        begin(usual)
    draft, key = st.session_state["pipeline_draft"], f"pipeline_{st.session_state['pipeline_round']}"
    left, right = st.columns([1.9, 1], gap="large")
    with right.container(border=True):
        draft["name"] = st.text_input("Name of the pipeline", draft["name"], max_chars=60, key=f"{key}_name")
        changed = edit_node(draft, prompts, settings.servers, key)
        st.session_state["pipeline_draft"] = changed
        if [one["name"] for one in changed["nodes"]] != [one["name"] for one in draft["nodes"]]:
            st.rerun()
    with left:
        if (found := preview(changed)) is not None:
            save(found)
        activation_panel(db, person, kept, active, usual)
with compare:
    own = {one.title: one.pipeline for one in kept.values()} | dict(shipped_pipelines())
    if (shown := comparison_panel(db, person, own)) is not None:
        promotion(db, person, kept, shown)
