"""How much speaks against a ``safe``: one of six strata, from what the engine did and found, never from a reading."""

from collections.abc import Collection
from enum import StrEnum

from screening.engine.screen import NodeRun, Screening
from screening.labels import LABELS, Label

CLOSE_GAP = 0.6
"""Safe leads its runner-up by less than this share of the deciding draws."""


class Doubt(StrEnum):
    """From the least to the most. What is stated outright of self-harm forbids ``safe``, so it has no stratum here."""

    NONE = "none"
    """Every draw of the first agent said safe, and nothing was found in the text."""
    OTHER_DRAW = "other_draw"
    """More calls than a clear answer takes: some draw said escalate, or was no label."""
    FINDING = "finding"
    """Something was found in the text that does not forbid safe."""
    LATER_AGENT = "later_agent"
    """Another agent had passed it on."""
    UNSAFE_DRAW = "unsafe_draw"
    """Some draw on the way said unsafe."""
    CLOSE = "close"
    """The deciding draws were close."""


def doubt_of(screening: Screening, flags: Collection[str]) -> Doubt:
    """The stratum of a text called safe; ``flags`` were found in its text or reply. The largest doubt that fits."""
    draws = [draw.label for run in screening.runs for draw in run.draws]
    if any(_gap(run) < CLOSE_GAP for run in screening.runs if run.verdict.label is Label.SAFE):
        return Doubt.CLOSE
    if Label.UNSAFE in draws:
        return Doubt.UNSAFE_DRAW
    if len({run.node for run in screening.runs}) > 1:
        return Doubt.LATER_AGENT
    if flags:
        return Doubt.FINDING
    return Doubt.OTHER_DRAW if any(label is not Label.SAFE for label in draws) else Doubt.NONE


def _gap(run: NodeRun) -> float:
    """The lead of the most frequent label over the next, as a share of the draws, or of the probabilities that the
    verdict was read off; 0 without either.
    """
    if run.read_off and run.distribution is not None:
        return run.distribution.gap
    counts = sorted((sum(draw.label is label for draw in run.draws) for label in LABELS), reverse=True)
    return (counts[0] - counts[1]) / len(run.draws) if run.draws else 0.0
