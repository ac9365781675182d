"""Simulated agents whose label distributions are given, to check an experiment against what it must find."""

from collections.abc import Mapping

from screening.engine.draws import ScreenedText
from screening.labels import LABELS, Label
from screening.samplers.simulated import SimulatedSampler

Distribution = Mapping[Label, float]


class KnownSampler(SimulatedSampler):
    """Draws each text's label from the distribution it was given, at every node alike.

    Draw number i is a pure function of (seed, node, text, variant, i). ValueError for probabilities that do not
    add up to 1; KeyError when a text without a distribution is asked about.
    """

    def __init__(self, seed: int, distributions: Mapping[ScreenedText, Distribution]) -> None:
        super().__init__(seed)
        for distribution in distributions.values():
            if min(distribution.values()) < 0 or abs(sum(distribution.values()) - 1) > 1e-6:
                raise ValueError("the probabilities of a text must not be negative and must add up to 1")
        self._given = {
            text: {label: shares.get(label, 0.0) for label in LABELS} for text, shares in distributions.items()
        }

    def describe(self) -> dict[str, str | int]:
        """What is stored to say where draws came from."""
        return {"sampler": "known distributions", "seed": self._seed}

    def shares(self, node: str, text: ScreenedText) -> Distribution:
        """The distribution given for the text."""
        return self._given[text]
