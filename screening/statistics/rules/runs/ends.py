"""What a rule concluded on each of many recorded sequences."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from screening.statistics.rules.protocol import Ended

ENDS: tuple[Ended, ...] = tuple(Ended)
"""What the numbers in ``Runs.ended`` mean."""

NONE = -1
"""No label, or no end: the record is too short for a verdict."""

Draws = NDArray[np.uint8]
Codes = NDArray[np.int8]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """One rule's verdict on each sequence, all of shape (sequences,).

    ``label`` is a number into `LABELS` and ``ended`` one into `ENDS`, or `NONE`; where ``ended`` is `NONE` more
    draws are needed than were recorded, and ``calls`` is the recorded number.
    """

    label: Codes
    ended: Codes
    calls: Integers

    @classmethod
    def without_verdict(cls, lengths: Integers) -> "Runs":
        """Runs without a verdict that have used all that was recorded, to be filled in."""
        nothing = np.full(len(lengths), NONE, dtype=np.int8)
        return cls(label=nothing, ended=nothing.copy(), calls=lengths.astype(np.int64))

    def abstain(self, rows: Integers, ended: Codes, calls: Integers) -> Mask:
        """Write down the rows that have ended without a label (not `NONE`); returns which they are."""
        stopped: Mask = ended != NONE
        self.ended[rows[stopped]] = ended[stopped]
        self.calls[rows[stopped]] = calls[stopped]
        return stopped

    def identify(self, rows: Integers, label: Integers, calls: Integers) -> None:
        """Write down the rows that have named a label."""
        self.label[rows] = label
        self.ended[rows] = ENDS.index(Ended.IDENTIFIED)
        self.calls[rows] = calls
