"""Choosing a pipeline on a page: preset, δ and budget, refused where they could never decide."""

from dataclasses import dataclass

import streamlit as st

from jobs.agents import reads_off
from pages.batches.pipeline_draft import promises
from pages.batches.whole_way_panel import whole_way_panel
from pages.components import resources
from pages.components.known_models import known_models_or_refuse
from pages.components.number_field import number_field
from pages.components.words import PROBABILITIES_MEANING, literal, sentence
from screening.engine.pipeline import PipelineConfig, Preset, UndecidableError, preset
from screening.engine.whole_way import chain_bound
from screening.labels import Label
from screening.settings import Settings
from screening.statistics.rules.pairwise_mixture import PairwiseMixture
from storage.batches.pipelines import PipelineVersion

PRESETS: dict[Preset, str] = {
    "certified": "Recommended: pooled draws, certified",
    "each_pair": "Pooled draws, certified for each mix-up by itself",
    "recommended": "Pooled draws, Ville's bound",
    "paper": "Paper: Algorithm 1",
}
OWN = "own"
OWN_LEVELS = 0.0
DELTAS = (OWN_LEVELS, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001)
MOST_BUDGET = 10_000
WHY_LEFT = (
    "Here safe is held to 0.001 where the model's usual answer is unsafe, and only to 0.025 where it is escalate. This "
    "is the rule as sites used it before there were certificates, and a rule in use is left as it is until somebody "
    "changes it. Both certified ones hold the two to 0.001."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen; ``delta`` None leaves the preset its own error levels. ``own`` is the site's own pipeline, with
    levels and budgets of its own.
    """

    preset: Preset
    delta: float | None
    budget: int
    own: PipelineConfig | None = None

    def pipeline(self) -> PipelineConfig:
        """The pipeline. Raises UndecidableError, which names the smallest budget that could decide."""
        return self.own or preset(self.preset, delta=self.delta, budget=self.budget)


def choose(settings: Settings, own: PipelineVersion | None, key: str) -> Choice:
    """The inputs. Never disabled while something runs: a widget that is loses what was chosen."""
    words = ({OWN: f"{own.title} (in force)"} if own else {}) | {str(name): title for name, title in PRESETS.items()}
    chosen = st.selectbox(
        "Pipeline",
        list(words),
        index=0 if own else list(words).index(settings.preset),
        format_func=words.__getitem__,
        key=f"{key}_preset",
        help="Pooled draws: every answer informs all labels. Certified: evidence levels calibrated and proven for "
        "the budget, beyond every certificate Ville's bound; for each mix-up by itself: none above 0.025, about a "
        "fifth more calls. Ville's bound: the rule as sites used it before, safe held to 0.001 against unsafe only. "
        "Paper: successive elimination, twelve times the calls.",
    )
    if own and chosen == OWN:
        st.caption("Its levels and budgets stand in the pipeline itself: see the page Pipelines.")
        return Choice(preset=settings.preset, delta=None, budget=settings.budget, own=own.pipeline)
    return _levels(next(name for name in PRESETS if name == chosen), settings, key)


def _levels(chosen: Preset, settings: Settings, key: str) -> Choice:
    left, right = st.columns(2)
    delta = left.selectbox(
        "Error level δ",
        DELTAS,
        format_func=lambda value: "The rule's own" if value == OWN_LEVELS else f"{value:g}",
        key=f"{key}_delta",
        help="The rule's own: 0.001 for calling safe what the model finds unsafe. Certified: the same for escalate, "
        "and 0.05 for any wrong label in all; for each mix-up, and Ville: 0.025 for each other one; paper: 0.05.",
    )
    budget = number_field(
        right,
        "Calls per agent",
        1,
        MOST_BUDGET,
        settings.budget,
        key=f"{key}_budget",
        help="The most an agent may be asked about one text. What it leaves open goes to a clinician.",
    )
    return Choice(preset=chosen, delta=delta or None, budget=int(budget))


def decide_or_refuse(choice: Choice, key: str) -> PipelineConfig | None:
    """The pipeline, or None after saying on the page why this setting is refused. Says what each agent promises."""
    try:
        pipeline = choice.pipeline()
    except UndecidableError as refusal:
        st.error(sentence(refusal), icon=":material/block:")
        return None
    if not known_models_or_refuse(pipeline):
        return None
    _say_promises(pipeline, key)
    if choice.own is None and choice.preset == "recommended" and choice.delta is None:
        st.caption(WHY_LEFT)
    return pipeline


def _say_promises(pipeline: PipelineConfig, key: str) -> None:
    said = {node.title: promises(node.rule.rule()) for node in pipeline.nodes}
    chain = chain_bound(pipeline)
    whole = "no bound for the whole way" if chain is None else f"the whole way: at most {chain:g}"
    alike = len(set(said.values())) == 1
    for title, each in list(said.items())[: 1 if alike else None]:
        who = "Each agent" if alike else literal(title)
        st.caption("; ".join([f"{who}, {words}" for holds, words in each if holds] + ([whole] if alike else [])) + ".")
        for words in (words for holds, words in each if not holds):
            st.error(f"{who}: {words}.", icon=":material/block:")
    if not alike:
        st.caption(f"{whole.capitalize()}.")
    whole_way_panel(pipeline, key)
    if reads_off(resources.settings(), pipeline):
        st.info(PROBABILITIES_MEANING, icon=":material/info:")


def least_calls(pipeline: PipelineConfig) -> str:
    """What a unanimous agent takes, in words.

    >>> least_calls(preset("certified"))
    'An agent that always answers the same is done after 5 calls (11 for safe).'
    """
    rule = pipeline.nodes[0].rule.rule()
    fewest = rule.minimum_budget()
    for_safe = rule.minimum_budget_for(Label.SAFE) if isinstance(rule, PairwiseMixture) else None
    more = f" ({for_safe} for safe)" if for_safe not in (None, fewest) else ""
    return f"An agent that always answers the same is done after {fewest} calls{more}."
