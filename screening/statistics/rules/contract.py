"""What a rule promises about naming a label that is not the node's mode."""

from dataclasses import dataclass

from screening.labels import LABELS, Label

Pair = tuple[Label, Label]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Any label that is not the mode is named with probability at most ``any_wrong``, all of them together.

    ``pairs`` holds ((said, mode), bound) where a mix-up is held to less. Nothing is assumed about the label mix.
    ValueError for a bound outside (0, 1), or for one that holds a label against itself.
    """

    any_wrong: float
    pairs: tuple[tuple[Pair, float], ...] = ()

    def __post_init__(self) -> None:
        if not all(0 < bound < 1 for bound in (self.any_wrong, *dict(self.pairs).values())):
            raise ValueError("a bound must lie strictly between 0 and 1")
        if any(said is mode for said, mode in dict(self.pairs)):
            raise ValueError("naming the mode is no error")

    def bound(self, said: Label, mode: Label) -> float:
        """The promise for one mix-up: its own bound or the one for any.

        >>> Contract(any_wrong=0.05, pairs=(((Label.SAFE, Label.UNSAFE), 0.001),)).bound(Label.UNSAFE, Label.SAFE)
        0.05
        """
        return min(self.any_wrong, dict(self.pairs).get((said, mode), self.any_wrong))

    def words(self) -> str:
        """The contract as one sentence for pages, exports and the command line.

        >>> Contract(any_wrong=0.05, pairs=(((Label.SAFE, Label.UNSAFE), 0.001),)).words()
        'any label but the mode: at most 0.05 in all; safe where the mode is unsafe: at most 0.001'
        """
        pairs = [f"{said} where the mode is {mode}: at most {bound:g}" for (said, mode), bound in self.pairs]
        return "; ".join([f"any label but the mode: at most {self.any_wrong:g} in all", *pairs])


SAFE_ERRORS: tuple[tuple[Pair, float], ...] = tuple(
    ((Label.SAFE, mode), 0.001) for mode in LABELS if mode is not Label.SAFE
)
"""Saying safe where the mode is another label: held to 0.001 each wherever nobody asks for something else."""
