"""The site's own pipeline: drawn, edited, versioned, put in force."""

import asyncio

import streamlit as st

from jobs.agents import Agents, reads_off
from pages.batches import pipelines as editor
from pages.research.comparing import comparison_panel, figures_of, title_of
from pages.ui import auth, context, engine_view, widgets
from pages.ui.words import PROBABILITIES_MEANING, literal, local_time, money, sentence
from screening.models.canaries import Probed, probe
from screening.pipeline.config import PipelineConfig, chain_bound, most_calls
from screening.pipeline.draws import SamplerError
from screening.pipeline.files import PromptError, load_prompts, shipped_pipelines, write_pipeline
from screening.review.policy import Action, is_allowed, require
from screening.words import count_of
from storage.batches import configurations
from storage.database import Stale
from storage.research.comparisons import Comparison, list_comparisons

db, person, settings = context.database(), context.actor(), context.settings()
require(person, Action.VIEW_SETTINGS)
may_draft = is_allowed(person, Action.DRAFT_PIPELINE)
may_activate = is_allowed(person, Action.ACTIVATE_PIPELINE)
prompts = load_prompts(settings.prompts_directory)
kept = {f"{one.pipeline.name}/{one.number}": one for one in configurations.list_versions(db, person)}


def begin(pipeline: PipelineConfig) -> None:
    """Edit this pipeline from now on; what was edited before is left."""
    st.session_state["pipeline_draft"] = editor.draft_of(pipeline)
    st.session_state["pipeline_round"] = st.session_state.get("pipeline_round", 0) + 1
    st.session_state["pipeline_seen"] = {one.pipeline.name: one.number for one in reversed(kept.values())}


def start_from() -> None:
    words = {name: f"{name} (built-in)" for name in shipped_pipelines()}
    words |= {key: one.title + (" (active)" if one == active else "") for key, one in kept.items()}
    names = [*kept, *shipped_pipelines()]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("Start from", names, format_func=words.__getitem__, key="pipeline_from")
        if st.button("Open", icon=":material/edit:", key="pipeline_open"):
            begin(kept[chosen].pipeline if chosen in kept else shipped_pipelines()[chosen])
            st.rerun()


def facts(pipeline: PipelineConfig) -> None:
    st.text("\n".join(f"{'✓' if holds else '▲'} {words}" for holds, words in editor.checks(pipeline)))
    bound, price = chain_bound(pipeline), editor.price_at_worst(pipeline, prompts, settings.model)
    said = "no bound: an agent has none" if bound is None else f"at most {bound:.3g}"
    paid = "no cost: simulated agents" if settings.simulated else money(price)
    read_off = reads_off(settings, pipeline)
    once, twice = (most_calls(pipeline, flagged=flagged, read_off=read_off) for flagged in (False, True))
    st.text(
        f"At most {once:,} calls per text, {twice:,} where a rule flags the text. "
        f"Worst case for a thousand texts, at list price: {paid}. "
        f"Overall error bound along the longest path: {said}."
    )
    if read_off:
        st.text(PROBABILITIES_MEANING)


def preview(draft: editor.Draft) -> PipelineConfig | None:
    pipeline, wrong = editor.judge_draft(draft)
    if pipeline is None:
        st.error(literal(wrong[:1].upper() + wrong[1:] + "."), icon=":material/block:")
    if pipeline is None or not widgets.known_models_or_refuse(pipeline):
        return None
    asked = {one.name: f"{one.model or 'site'} · ≤ {one.rule.budget}" for one in pipeline.nodes}
    st.html(engine_view.diagram_html(pipeline, asked))
    facts(pipeline)
    changed = editor.differences(usual, pipeline)
    with st.expander(f"Difference to the active pipeline ({literal(usual.name)}): {count_of(len(changed), 'line')}"):
        st.code("\n".join(changed) or "None.", language="diff", wrap_lines=True)
    whole = show_prompts(pipeline)
    made = auth.check_before(Action.VIEW_SETTINGS, lambda: write_pipeline(pipeline))
    st.download_button("Export TOML", made, f"{pipeline.name}.toml", on_click="ignore")
    return pipeline if whole else None


def show_prompts(pipeline: PipelineConfig) -> bool:
    try:
        found = editor.prompt_facts(usual, pipeline, prompts)
    except PromptError as missing:
        st.error(sentence(missing), icon=":material/block:")
        return False
    changed = sum(bool(lines) for _, lines in found)
    with st.expander(f"Prompts: {changed} of {len(found)} differ from the active pipeline ({literal(usual.name)})"):
        for words, lines in found:
            st.text(words)
            if lines:
                st.code("\n".join(lines), language="diff", wrap_lines=True)
    return True


def save(pipeline: PipelineConfig) -> None:
    note = st.text_input("What is new in this version", key="pipeline_note", max_chars=200)
    seen: dict[str, int] = st.session_state["pipeline_seen"]  # the newest versions when this draft was begun
    if st.button("Save as a new version", type="primary", disabled=not may_draft, key="pipeline_save"):
        by = person.at(context.now())
        try:
            made = configurations.keep_version(db, by, pipeline, note, seen.get(pipeline.name, 0))
        except Stale as stale:
            words = f"{literal(sentence(stale))} Open that one, or give this draft another name."
            st.error(words, icon=":material/edit:")
            return
        seen[pipeline.name] = made.number
        nothing = f"Nothing differs from {literal(made.title)}: nothing was saved."
        new = f"Saved: {literal(made.title)}. Not used until you activate it."
        widgets.say_after_rerun("pipeline_saved", new if made.at == by.now else nothing)
    with st.container():  # beside the button: the head of the page is out of sight there
        widgets.show_said("pipeline_saved", icon=":material/check:")


def activation() -> None:
    st.header("Active pipeline")
    as_it_comes = shipped_pipelines().get(usual.name) == usual  # the budget may be another by the server's options
    how = "built-in" if as_it_comes else "with the options that the server was started with"
    st.text(f"{active.title} is active." if active else f"{usual.name}, {how}, is active.")
    if not kept or not may_activate:
        st.caption("An administrator activates a saved version." if kept else "No version of your own yet.")
    else:
        choose_version()
    if past := configurations.list_activations(db, person):
        rows = [
            {
                "At": local_time(one.at),
                "Version": f"{one.name} v{one.number}",
                "Why": one.reason,
                "Compared": "yes" if one.comparison else "no",
            }
            for one in past
        ]
        st.dataframe(rows, hide_index=True, alt="Versions that were active")


def replace_unreadable(unreadable: configurations.UnreadablePipeline) -> None:
    """What is in force can't be read, so nothing is screened: the way to put another version in force."""
    st.error(f"{literal(sentence(unreadable))} It is active, so nothing new is screened.", icon=":material/block:")
    if not kept:
        st.text("Save a version with “python -m screening pipelines import FILE”, then activate it here.")
    elif may_activate:
        choose_version()
    else:
        st.caption("An administrator activates another version.")


def choose_version() -> None:
    chosen = kept[st.selectbox("Version", list(kept), format_func=lambda key: kept[key].title, key="pipeline_version")]
    tried = may_be_activated(chosen, "pipeline")
    made = {one.id: one for one in list_comparisons(db, person) if one.name == chosen.title and one.done}
    basis = None
    if made:
        basis = st.selectbox(
            "On the figures of",
            [*made, None],
            format_func=lambda key: title_of(made[key]) if key else "no comparison",
            key=f"pipeline_basis_{chosen.title}",
        )
    else:
        st.caption("This version was not compared with the active one: a reason is needed.")
    reason = st.text_input("Why", key="pipeline_reason", max_chars=500)
    if st.button("Activate", icon=":material/play_arrow:", key="pipeline_activate", disabled=not tried):
        put_in_force(chosen, reason, basis)


def promotion(one: Comparison) -> None:
    """Put what was compared in force, with the figures that are shown in the record."""
    version = next((each for each in kept.values() if each.title == one.name), None)
    if not may_activate or not one.done:
        return
    if version is None:
        st.caption(f"To activate {literal(one.name)}, save it as a version first.")
        return
    tried = may_be_activated(version, "promote")
    reason = st.text_input("What decided it (may stay empty: the figures are kept)", key="promote_why", max_chars=500)
    if st.button(f"Promote {literal(version.title)}", icon=":material/publish:", key="promote", disabled=not tried):
        put_in_force(version, reason, one.id)


def put_in_force(version: configurations.PipelineVersion, reason: str, comparison: str | None) -> None:
    """Activate it, with the figures of a comparison where one is named."""
    figures = figures_of(db, person, comparison) if comparison else None
    try:
        configurations.activate(db, person.at(context.now()), version.pipeline.name, version.number, reason, figures)
    except configurations.ReasonMissing as missing:
        st.error(sentence(missing), icon=":material/edit:")
        return
    widgets.say_after_rerun("pipeline", f"{literal(version.title)} is active for texts submitted from now on.")


def may_be_activated(version: configurations.PipelineVersion, key: str) -> bool:
    """Whether the site knows its models and no probe says anything against it; else the page says what."""
    if not widgets.known_models_or_refuse(version.pipeline):
        return False
    if settings.simulated:
        return True
    configuration = context.configuration(version.pipeline)
    found = configurations.latest_preflight(db, configuration.preflight_key)
    if found is not None and found.allows:
        show, allowed = (st.success, "") if found.passed else (st.warning, " An administrator allowed it all the same.")
        show(f"{found.message} Tried {local_time(found.at)}.{allowed}")
        return True
    st.warning(found.message if found else "This version was not tried on the plainly unsafe texts yet: try it first.")
    if st.button("Try the probes", icon=":material/network_check:", key=f"{key}_probe"):
        try:
            with st.spinner("Asking this version's agents…"):
                asked = asyncio.run(ask_probes(configuration))
        except SamplerError as unreachable:
            st.error(f"It could not be asked: {sentence(unreachable)} That says nothing of the version; try again.")
            return False
        configurations.keep_preflight(db, configuration.preflight_key, asked, context.now())
        st.rerun()
    return False


async def ask_probes(configuration: configurations.Configuration) -> Probed:
    agents = Agents(context.settings_now())
    try:
        return await probe(agents.sampler(configuration, settings.seed), configuration.pipeline)
    finally:
        await agents.aclose()


st.title("Pipelines")
told = st.container()  # always there, so that what stands below keeps its place
widgets.show_said("pipeline", told.success, icon=":material/check:")
try:
    active, usual = configurations.active_version(db), context.usual_pipeline()
except configurations.UnreadablePipeline as unreadable:
    replace_unreadable(unreadable)
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
        changed = editor.edit_node(draft, prompts, settings.servers, key)
        st.session_state["pipeline_draft"] = changed
        if [one["name"] for one in changed["nodes"]] != [one["name"] for one in draft["nodes"]]:
            st.rerun()
    with left:
        if (found := preview(changed)) is not None:
            save(found)
        activation()
with compare:
    own = {one.title: one.pipeline for one in kept.values()} | dict(shipped_pipelines())
    if (shown := comparison_panel(db, person, own)) is not None:
        promotion(shown)
