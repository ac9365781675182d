"""Choosing a pipeline on a page: preset, δ and budget, refused where they could never decide."""

from dataclasses import dataclass

import streamlit as st

from pages.components.words import sentence
from screening.engine.pipeline import PairwiseMixtureConfig, PipelineConfig, Preset, UndecidableError, preset
from screening.settings import Settings
from storage.batches.pipelines import PipelineVersion

PRESETS: dict[Preset, str] = {"recommended": "Recommended: pooled draws", "paper": "Paper: Algorithm 1"}
OWN = "own"
OWN_LEVELS = 0.0
DELTAS = (OWN_LEVELS, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001)
MOST_BUDGET = 10_000


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
        help="Recommended: every draw informs all labels. Paper: successive elimination, about twelve times the calls.",
    )
    if own and chosen == OWN:
        st.caption("Its levels and budgets stand in the pipeline itself: see the page Pipelines.")
        return Choice(preset=settings.preset, delta=None, budget=settings.budget, own=own.pipeline)
    return _levels("paper" if chosen == "paper" else "recommended", settings, key)


def _levels(chosen: Preset, settings: Settings, key: str) -> Choice:
    left, right = st.columns(2)
    delta = left.selectbox(
        "Error level δ",
        DELTAS,
        format_func=lambda value: "The rule's own" if value == OWN_LEVELS else f"{value:g}",
        key=f"{key}_delta",
        help="The rule's own: 0.001 for calling safe what the model finds unsafe, 0.025 for other mix-ups; paper 0.05.",
    )
    budget = right.number_input(
        "Calls per agent",
        min_value=1,
        max_value=MOST_BUDGET,
        value=settings.budget,
        key=f"{key}_budget",
        help="The most an agent may be asked about one text. What it leaves open goes to a clinician.",
    )
    return Choice(preset=chosen, delta=delta or None, budget=int(budget))


def decided_or_said(choice: Choice) -> PipelineConfig | None:
    """The pipeline, or None after saying on the page why this setting is refused."""
    try:
        return choice.pipeline()
    except UndecidableError as refusal:
        st.error(sentence(refusal), icon=":material/block:")
        return None


def least_calls(pipeline: PipelineConfig) -> str:
    """What a unanimous agent takes, in words.

    >>> least_calls(preset("recommended"))
    'An agent that always answers the same is done after 6 calls (11 for safe).'
    """
    rule = pipeline.nodes[0].rule.rule()
    fewest = rule.minimum_budget()
    for_safe = _fewest_for_safe(pipeline)
    more = f" ({for_safe} for safe)" if for_safe not in (None, fewest) else ""
    return f"An agent that always answers the same is done after {fewest} calls{more}."


def _fewest_for_safe(pipeline: PipelineConfig) -> int | None:
    config = pipeline.nodes[0].rule
    if not isinstance(config, PairwiseMixtureConfig):
        return None
    levels = [config.errors.get(f"safe|{rival}", config.default_error) for rival in ("unsafe", "escalate")]
    return max(PairwiseMixtureConfig.symmetric(2 * level, config.budget).rule().minimum_budget() for level in levels)
