"""Trying a version on a past batch: begin, follow, read the paired figures, open the cases where the two part."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from jobs.agents import reads_off
from pages.research.case_list import hide_switch
from pages.research.choices import choose_batch
from pages.research.comparison_table import agreement, differing_pairs, lines
from pages.ui import context
from pages.ui.format import money
from pages.ui.labels import OUTCOME_WORDS, error_words
from pages.ui.shell import FIRST_STEPS
from pages.ui.widgets import case_link, known_models_or_refuse, list_key
from screening.labels import Outcome
from screening.pipeline.config import PipelineConfig, most_calls
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.text.display import visible
from screening.words import count_of
from storage.batches.batch_state import CAP_REACHED, Caps
from storage.batches.configurations import save_configuration
from storage.database import Database
from storage.research.comparisons import (
    Comparison,
    Pair,
    begin_comparison,
    end_comparison,
    list_comparisons,
    paired_outcomes,
    resume_comparison,
)
from storage.visibility import record_shown

MOST_SHOWN = 200
GUARDS = {
    "max_calls": "it had made as many calls as it may",
    "max_cost": "it had cost as much as it may",
    "cost_unknown": "it has a cap on its cost, and the cost is not known",
    "preflight_failed": "it failed the probes",
    "configuration_changed": "the site's settings name other agents now",
    "configuration_unreadable": "this version of the program can't read the pipeline",
}


def comparison_panel(db: Database, person: Actor, pipelines: Mapping[str, PipelineConfig]) -> Comparison | None:
    """Everything about comparisons, for those who may see their figures; the comparison that is shown."""
    if not may_see_figures(person):
        st.caption("Comparisons are shown to seniors, researchers and administrators.")
        return None
    st.text("A second pipeline screens texts of an upload again. It decides nothing and sends nothing to review.")
    if is_allowed(person, Action.CREATE_BATCH) and is_allowed(person, Action.VIEW_RESULTS):
        _begin(db, person, pipelines)
    found = {one.id: one for one in list_comparisons(db, person)}
    if not found:
        st.caption("Nothing was compared yet.")
        return None
    chosen = st.selectbox("Comparison", list(found), format_func=lambda key: title_of(found[key]), key="compared")
    _show(db, person, found[chosen])
    return found[chosen]


def may_see_figures(person: Actor) -> bool:
    """Whether this person may see what comparisons found."""
    return is_allowed(person, Action.VIEW_RESULTS) or is_allowed(person, Action.ACTIVATE_PIPELINE)


def title_of(one: Comparison) -> str:
    """One comparison in a line: what was tried, on what, how far it is."""
    state = "" if not one.running else ", under way"
    state = f", ended: {_why_ended(one.ended_why)}" if one.ended_why else state
    return f"{one.name} on {visible(one.batch_name)}: {one.done:,} of {count_of(one.of, 'text')}{state}"


def _why_ended(why: str) -> str:
    return GUARDS.get(why) or error_words(why)


def spent_words(one: Comparison) -> str:
    """What the comparison has cost so far, and its caps, in words."""
    calls = one.totals.calls + one.totals.lost_calls
    caps = [count_of(one.caps.max_calls, "call")] if one.caps.max_calls else []
    caps += [f"${one.caps.max_cost_usd:,.2f}"] if one.caps.max_cost_usd else []
    return f"{count_of(calls, 'call')} so far, {money(one.totals.known_cost_usd)}; {' and '.join(caps) or 'no'} cap."


def figures_of(db: Database, person: Actor, comparison_id: str) -> dict[str, Any]:
    """The paired figures as they are kept with an activation."""
    found = paired_outcomes(db, person, comparison_id)
    return {"comparison": comparison_id, "figures": [line.cells for line in lines(found)]}


def _begin(db: Database, person: Actor, pipelines: Mapping[str, PipelineConfig]) -> None:
    batch = choose_batch(db, person, "compare")
    if batch is None:
        st.caption("There is no batch yet whose texts could be screened again.")
        return
    left, right = st.columns(2)
    name = left.selectbox("Pipeline to try", list(pipelines), key="compare_pipeline")
    most = right.number_input("Texts at most", 1, 100_000, 200, key="compare_most")
    caps = choose_caps("compare")
    worst = most_calls(pipelines[name], flagged=True, read_off=reads_off(context.settings(), pipelines[name]))
    st.caption(f"At the worst {int(most) * worst:,} calls; they are paid like any others.")
    known = known_models_or_refuse(pipelines[name])
    if st.button("Compare", icon=":material/compare_arrows:", key="compare_begin", disabled=not known):
        version = save_configuration(db, context.configuration(pipelines[name]), context.now())
        by = person.at(context.now())
        begin_comparison(db, by, batch.id, configuration=version, name=name, most_cases=int(most), caps=caps)
        st.rerun()


def choose_caps(key: str) -> Caps:
    """The inputs for what a trial may use."""
    left, right = st.columns(2)
    calls = left.number_input("Response limit", min_value=1, value=None, placeholder="none",
                              key=f"{key}_max_calls")  # fmt: skip
    cost = right.number_input("Cost limit (USD)", min_value=0.01, value=None, placeholder="none",
                              key=f"{key}_max_cost")  # fmt: skip
    return Caps(max_calls=calls, max_cost_usd=cost)


def _show(db: Database, person: Actor, one: Comparison) -> None:
    found = paired_outcomes(db, person, one.id)
    st.text(
        f"{one.done:,} of {count_of(one.of, 'text was', 'texts were')} screened with {one.name}. {spent_words(one)}"
    )
    if one.running:
        st.caption("The worker goes on with it; reload to see more.")
        if is_allowed(person, Action.CREATE_BATCH) and st.button("Stop comparing", key="compare_stop"):
            end_comparison(db, person.at(context.now()), one.id, "stopped")
            st.rerun()
    if one.ended_why is not None:
        _tell_end(db, person, one, one.ended_why)
    _figures(found)
    if is_allowed(person, Action.VIEW_RESULTS):
        _cases(db, person, found)


def _tell_end(db: Database, person: Actor, one: Comparison, why: str) -> None:
    """Why it ended, who can mend that, and the way to go on where there is one."""
    may = is_allowed(person, Action.CREATE_BATCH) and is_allowed(person, Action.VIEW_RESULTS)
    st.text(_end_words(one, why, may=may))
    if one.may_go_on and may and st.button("Go on", icon=":material/play_arrow:", key="compare_resume"):
        resume_comparison(db, person.at(context.now()), one.id)
        st.rerun()


def _end_words(one: Comparison, why: str, *, may: bool) -> str:
    said = f"It ended: {_why_ended(why)}."
    if why in CAP_REACHED:
        return f"{said} It stays ended; begin it again with another cap."
    if (first := FIRST_STEPS.get(why)) is None:
        return said
    if not one.may_go_on:
        return f"{said} {first}; then it can be begun again."
    return f"{said} {first}; then {'press' if may else 'whoever compares presses'} Go on."


def _figures(found: Sequence[Pair]) -> None:
    if not found:
        st.caption("Not yet: 0 texts.")
        return
    st.dataframe([line.cells for line in lines(found)], hide_index=True, alt="Paired differences")
    st.caption(
        "Paired by text; each interval at 95% for itself, so one of several is exploratory. Labels: the "
        "final label, else the original one. Decided: what these texts were screened with at first."
    )
    words = {outcome.value: OUTCOME_WORDS[outcome] for outcome in Outcome}
    rows = [
        {"Decided ↓ tried →": words[first]} | {words[name]: count for name, count in row.items()}
        for first, row in agreement(found).items()
    ]
    st.dataframe(rows, hide_index=True, alt="Outcomes decided and tried")


def _cases(db: Database, person: Actor, found: Sequence[Pair]) -> None:
    differing = differing_pairs(found)
    st.subheader(f"Texts with another outcome: {len(differing):,}")
    hide_switch(db, person)
    cases = [one for one in differing if not one.hidden]
    if hidden := len(differing) - len(cases):
        st.caption(f"{hidden:,} of them are in review and hidden by the switch above.")
    if not cases:
        return
    record_shown(db, person.at(context.now()), [one.case_id for one in cases[:MOST_SHOWN]])
    rows = [
        {
            "Text": visible(one.external_id),
            "Label": one.reference or "none",
            "Decided": one.first.outcome.replace("_", " "),
            "Tried": one.second.outcome.replace("_", " "),
        }
        for one in cases[:MOST_SHOWN]
    ]
    chosen = st.dataframe(
        rows,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=list_key("compare_cases", [one.case_id for one in cases[:MOST_SHOWN]]),
        alt="Texts with another outcome",
    )
    if len(cases) > MOST_SHOWN:
        st.caption(f"The first {MOST_SHOWN} of {len(cases):,}.")
    selected = chosen["selection"]["rows"]
    if selected:
        case_link(cases[selected[0]].case_id)
