"""A second pipeline beside the one in force, on new texts: set, followed and ended by administrators."""

from collections.abc import Mapping

import streamlit as st

from jobs.agents import reads_off
from pages.components import resources
from pages.components.known_models import known_models_or_refuse
from pages.components.words import literal
from pages.research.comparison_panel import choose_caps, may_see_figures, spent_words, title_of, trial_of
from screening.engine.pipeline import PipelineConfig
from screening.engine.whole_way import most_calls
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from storage.database import Database
from storage.research.comparisons import begin_shadow, end_comparison, list_comparisons


def shadow_panel(
    db: Database, person: Actor, pipelines: Mapping[str, PipelineConfig], in_force: PipelineConfig
) -> None:
    """What runs beside the pipeline in force, and the way to set or end it."""
    st.subheader("Shadow on new texts")
    if not may_see_figures(person):
        st.caption("The shadow is shown to seniors, researchers and administrators.")
        return
    shadows = [one for one in list_comparisons(db, person) if one.shadow]
    running = next((one for one in shadows if one.ended_why is None), None)
    may = is_allowed(person, Action.ACTIVATE_PIPELINE)
    if running is None:
        last = f" The last was {title_of(shadows[0])}." if shadows else ""
        st.text(f"Nothing runs beside {in_force.name}.{last}")
    else:
        st.text(f"{title_of(running)}. {spent_words(running)}")
        if may and st.button("End the shadow", icon=":material/stop_circle:", key="shadow_end"):
            end_comparison(db, person.at(resources.now()), running.id, "ended by hand")
            st.rerun()
    if may:
        _set(db, person, pipelines, in_force)


def _set(db: Database, person: Actor, pipelines: Mapping[str, PipelineConfig], in_force: PipelineConfig) -> None:
    others = {name: one for name, one in pipelines.items() if one.version != in_force.version}
    st.caption(
        f"A shadow screens each new text that {literal(in_force.name)} has settled a second time. It decides nothing, "
        "opens nothing in the inbox, and shows nobody what it found before the text is read. It ends with another "
        "pipeline in force."
    )
    left, right = st.columns(2)
    name = left.selectbox("Pipeline in the shadow", list(others), key="shadow_pipeline")
    most = right.number_input("New texts at most", 1, 100_000, 200, key="shadow_most")
    caps = choose_caps("shadow")
    worst = most_calls(others[name], flagged=True, read_off=reads_off(resources.settings(), others[name]))
    st.caption(f"At the worst {int(most) * worst:,} calls; they are paid like any others.")
    known = known_models_or_refuse(others[name])
    if st.button("Set as shadow", icon=":material/layers:", key="shadow_begin", disabled=not known):
        trial = trial_of(db, others, name, int(most), caps)
        begin_shadow(db, person.at(resources.now()), in_force.version, trial)
        st.rerun()
