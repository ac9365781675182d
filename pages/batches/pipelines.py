"""Choosing a pipeline on a page: preset, δ and budget, refused where they could never decide."""

import streamlit as st

from jobs.agents import reads_off
from pages.batches.pipeline_editor import promises
from pages.ui import context
from pages.ui.labels import DELTA_MEANING, PROBABILITIES_MEANING, literal, sentence
from pages.ui.widgets import known_models_or_refuse, number_field
from screening.labels import Label
from screening.pipeline.config import PipelineConfig, Preset, UndecidableError, chain_bound, preset
from screening.settings import Settings
from screening.stopping.rules import PairwiseMixture, minimum_budget
from storage.batches.configurations import PipelineVersion

PRESETS: dict[Preset, str] = {
    "certified": "Standard (recommended)",
    "recommended": "Pairwise, Ville's bound",
    "paper": "Paper: Algorithm 1",
}
OWN = "own"
OWN_LEVELS = 0.0
DELTAS = (OWN_LEVELS, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001)
MOST_BUDGET = 10_000
WHY_LEFT = (
    "Here safe is held to 0.001 where the model's most frequent answer is unsafe, and only to 0.025 where it is "
    "escalate. This is the rule as sites used it before there were certificates, and a rule in use is left as it is "
    "until somebody changes it. Both certified ones hold the two to 0.001."
)


Chosen = PipelineConfig | UndecidableError
"""The pipeline of a choice, or why it could never decide, which names the smallest budget that could."""


def choose(settings: Settings, own: PipelineVersion | None, key: str) -> Chosen:
    """The inputs. Never disabled while something runs: a widget that is loses what was chosen."""
    words = ({OWN: f"{own.title} (active)"} if own else {}) | {str(name): title for name, title in PRESETS.items()}
    chosen = st.selectbox(
        "Pipeline",
        list(words),
        index=0 if own else list(words).index(settings.preset),
        format_func=words.__getitem__,
        key=f"{key}_preset",
        help="When an agent has asked its model often enough. They differ in the error bound and in how many "
        "responses it takes; *Paper* takes about twelve times as many. See Methods.",
    )
    if own and chosen == OWN:
        st.caption("Its error bounds and limits are part of the pipeline: see Pipelines.")
        return own.pipeline
    left, right = st.columns(2)
    delta = left.selectbox(
        "Error bound (δ)",
        DELTAS,
        format_func=lambda value: "default" if value == OWN_LEVELS else f"{value:g}",
        key=f"{key}_delta",
        help="Default: 0.001 for labeling safe what the model mostly calls unsafe. Certified: the same for escalate, "
        "and 0.05 for any wrong label in all; for each mix-up, and Ville: 0.025 for each other one; paper: 0.05.",
    )
    budget = number_field(
        right,
        "Max responses per agent",
        1,
        MOST_BUDGET,
        settings.budget,
        key=f"{key}_budget",
        help="The most an agent may be asked about one text. What stays undecided is escalated.",
    )
    try:
        return preset(next(name for name in PRESETS if name == chosen), delta=delta or None, budget=int(budget))
    except UndecidableError as refusal:
        return refusal


def decide_or_refuse(chosen: Chosen) -> PipelineConfig | None:
    """The pipeline, or None after saying on the page why this setting is refused. What an agent can never say within
    its limit is said here too: it may not stand folded away.
    """
    if isinstance(chosen, UndecidableError):
        st.error(sentence(chosen), icon=":material/block:")
        return None
    if not known_models_or_refuse(chosen):
        return None
    for node in chosen.nodes:
        for words in (words for holds, words in promises(node.rule) if not holds):
            st.error(f"{literal(node.title)}: {words}.", icon=":material/block:")
    return chosen


def show_guarantees(pipeline: PipelineConfig) -> None:
    said = {node.title: [words for holds, words in promises(node.rule) if holds] for node in pipeline.nodes}
    chain = chain_bound(pipeline)
    whole = "no error bound for the whole pipeline" if chain is None else f"whole pipeline: at most {chain:g}"
    alike = len({tuple(words) for words in said.values()}) == 1
    lines = [f"Each agent, {'; '.join(next(iter(said.values())))}"] if alike else []
    lines = lines or [f"{literal(title)}, {'; '.join(words)}" for title, words in said.items() if words]
    st.caption(f"Statistical guarantees. {'. '.join([*lines, whole.capitalize()])}. {least_calls(pipeline)}")
    st.caption(DELTA_MEANING)
    if reads_off(context.settings(), pipeline):
        st.info(PROBABILITIES_MEANING, icon=":material/info:")
    if all(node.rule == PairwiseMixture(budget=node.rule.budget) for node in pipeline.nodes):
        st.caption(WHY_LEFT)


def least_calls(pipeline: PipelineConfig) -> str:
    """What a unanimous agent takes, in words.

    >>> least_calls(preset("certified"))
    'An agent that always answers the same is done after 5 calls (11 for safe).'
    """
    rule = pipeline.nodes[0].rule
    fewest, for_safe = minimum_budget(rule), minimum_budget(rule, Label.SAFE)
    more = f" ({for_safe} for safe)" if for_safe != fewest else ""
    return f"An agent that always answers the same is done after {fewest} calls{more}."
