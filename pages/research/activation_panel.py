"""Putting a version of a pipeline in force: on the figures of a comparison, or with a written reason."""

import asyncio
from collections.abc import Mapping
from typing import Any

import streamlit as st

from jobs.agents import Agents
from pages.research.comparison_panel import figures_of, title_of
from pages.ui import context
from pages.ui.format import local_time
from pages.ui.labels import literal, sentence
from pages.ui.widgets import known_models_or_refuse
from screening.models.canaries import Probed, probe
from screening.pipeline.config import PipelineConfig
from screening.pipeline.draws import SamplerError
from screening.pipeline.files import shipped_pipelines
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from storage.batches import preflights
from storage.batches.configurations import Configuration
from storage.batches.pipelines import PipelineVersion, ReasonMissing, UnreadablePipeline, activate, list_activations
from storage.database import Database
from storage.research.comparisons import Comparison, list_comparisons


def activation_panel(
    db: Database,
    person: Actor,
    kept: Mapping[str, PipelineVersion],
    active: PipelineVersion | None,
    usual: PipelineConfig,
) -> None:
    """What is in force, the way to change it, and what was in force before."""
    st.header("Active pipeline")
    st.text(f"{active.title} is active." if active else _usual_words(usual))
    if not kept or not is_allowed(person, Action.ACTIVATE_PIPELINE):
        st.caption("An administrator activates a saved version." if kept else "No version of your own yet.")
    else:
        _choose(db, person, kept)
    if past := list_activations(db, person):
        rows = [
            {
                "At": local_time(one.at),
                "Version": f"{one.name} v{one.number}",
                "Why": one.reason,
                "Compared": "yes" if one.comparison else "no",
            }
            for one in past
        ]
        st.dataframe(rows, hide_index=True, alt="Versions that were in force")


def replace_unreadable(
    db: Database, person: Actor, kept: Mapping[str, PipelineVersion], unreadable: UnreadablePipeline
) -> None:
    """What is in force can't be read, so nothing is screened: the way to put another version in force."""
    st.error(f"{literal(sentence(unreadable))} It is active, so nothing new is screened.", icon=":material/block:")
    if not kept:
        st.text("Save a version with “python -m screening pipelines import FILE”, then activate it here.")
    elif is_allowed(person, Action.ACTIVATE_PIPELINE):
        _choose(db, person, kept)
    else:
        st.caption("An administrator activates another version.")


def _usual_words(usual: PipelineConfig) -> str:
    """What is in force where no version of the site's own is: the budget may be another by the server's options."""
    as_it_comes = shipped_pipelines().get(usual.name) == usual
    how = "built-in" if as_it_comes else "with the options that the server was started with"
    return f"{usual.name}, {how}, is active."


def promotion(db: Database, person: Actor, kept: Mapping[str, PipelineVersion], one: Comparison) -> None:
    """Put what was compared in force, with the figures that are shown in the record."""
    version = next((each for each in kept.values() if each.title == one.name), None)
    if not is_allowed(person, Action.ACTIVATE_PIPELINE) or not one.done:
        return
    if version is None:
        st.caption(f"To activate {literal(one.name)}, save it as a version first.")
        return
    tried = _may_be_put_in_force(db, version, "promote")
    reason = st.text_input("What decided it (may stay empty: the figures are kept)", key="promote_why", max_chars=500)
    if st.button(f"Promote {literal(version.title)}", icon=":material/publish:", key="promote", disabled=not tried):
        _put_in_force(db, person, version, reason, figures_of(db, person, one.id))


def _put_in_force(
    db: Database, person: Actor, version: PipelineVersion, reason: str, figures: Mapping[str, Any] | None
) -> None:
    try:
        activate(db, person.at(context.now()), version.pipeline.name, version.number, reason, figures)
    except ReasonMissing as missing:
        st.error(sentence(missing), icon=":material/edit:")
        return
    st.session_state["pipeline_said"] = f"{literal(version.title)} is active for what is handed in from now on."
    st.rerun()


def _choose(db: Database, person: Actor, kept: Mapping[str, PipelineVersion]) -> None:
    chosen = kept[st.selectbox("Version", list(kept), format_func=lambda key: kept[key].title, key="pipeline_version")]
    tried = _may_be_put_in_force(db, chosen, "pipeline")
    basis = _basis(db, person, chosen)
    reason = st.text_input("Why", key="pipeline_reason", max_chars=500)
    if st.button("Activate", icon=":material/play_arrow:", key="pipeline_activate", disabled=not tried):
        figures = figures_of(db, person, basis.id) if basis else None
        _put_in_force(db, person, chosen, reason, figures)


def _may_be_put_in_force(db: Database, version: PipelineVersion, key: str) -> bool:
    """Whether its models are known to this day's settings and the probes say nothing against it; else the page says
    what does.
    """
    if not known_models_or_refuse(version.pipeline):
        return False
    return _probes(db, context.configuration(version.pipeline), key)


def _probes(db: Database, configuration: Configuration, key: str) -> bool:
    """Whether this version may be put in force as far as the probes say; the button that asks them."""
    if context.settings().simulated:
        return True
    tried = configuration.preflight_key
    found = preflights.latest(db, tried)
    if found is not None and found.allows:
        show, allowed = (st.success, "") if found.passed else (st.warning, " An administrator allowed it all the same.")
        show(f"{found.message} Tried {local_time(found.at)}.{allowed}")
        return True
    st.warning(found.message if found else "This version was not tried on the plainly unsafe texts yet: try it first.")
    if st.button("Try the probes", icon=":material/network_check:", key=f"{key}_probe"):
        try:
            with st.spinner("Asking this version's agents…"):
                asked = asyncio.run(_ask_probes(configuration))
        except SamplerError as unreachable:
            st.error(f"It could not be asked: {sentence(unreachable)} That says nothing of the version; try again.")
            return False
        preflights.keep(db, tried, asked, context.now())
        st.rerun()
    return False


async def _ask_probes(configuration: Configuration) -> Probed:
    agents = Agents(context.settings_now())
    try:
        return await probe(agents.sampler(configuration, context.settings().seed), configuration.pipeline)
    finally:
        await agents.aclose()


def _basis(db: Database, person: Actor, chosen: PipelineVersion) -> Comparison | None:
    """The comparison of this very version whose figures are kept with the decision, if one is chosen."""
    made = {one.id: one for one in list_comparisons(db, person) if one.name == chosen.title and one.done}
    if not made:
        st.caption("This version was not compared with the active one: a reason is needed.")
        return None
    picked = st.selectbox(
        "On the figures of", [*made, None], format_func=lambda key: title_of(made[key]) if key else "no comparison",
        key=f"pipeline_basis_{chosen.title}",
    )  # fmt: skip
    return made[picked] if picked else None
