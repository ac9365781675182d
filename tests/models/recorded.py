"""Draws from a record: the codes a model once gave, given again in the same order."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from screening.models.limits import RateGate
from screening.models.simulated import always_answers, hand_out
from screening.pipeline.draws import (
    Draw,
    DrawRequest,
    Preflight,
    SamplerError,
    ScreenedText,
    Usage,
    decode_draws,
    encode_draws,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Where draws were recorded: a text at a node, under a prompt variant."""

    node: str
    text: ScreenedText
    variant: str = "main"


class RecordedSampler:
    """Replays recorded draws; a recording is a string of draw codes in request order.

    >>> import asyncio
    >>> text = ScreenedText(text="a")
    >>> sampler = RecordedSampler({Recording(node="worker", text=text): "SSU"})
    >>> draws = asyncio.run(sampler.draw(DrawRequest(node="worker", text=text, first=1, count=2)))
    >>> [str(draw.label) for draw in draws]
    ['safe', 'unsafe']
    """

    def __init__(self, recordings: Mapping[Recording, str], gate: RateGate | None = None) -> None:
        self._gate = gate
        self._draws = {key: decode_draws(codes) for key, codes in recordings.items()}

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """The draws numbered ``first`` and following. SamplerError where fewer were recorded, and what was recorded of
        the wave does not settle how the node ends: none is made up.
        """
        key = Recording(node=request.node, text=request.text, variant=request.variant)
        recorded = self._draws.get(key, ())
        asked = recorded[request.first : request.first + request.count]
        if len(asked) < request.count and not (request.enough and request.enough(asked)):
            known = f"{len(recorded)} draws are recorded at {request.node}"
            raise SamplerError("not_recorded", f"{known}, {request.first + request.count} were asked for.")
        return await hand_out(request, asked, self._gate)

    def describe(self) -> Mapping[str, Any]:
        """What was recorded, by a hash of all of it."""
        whole = sorted((key.node, key.variant, repr(key.text), encode_draws(kept)) for key, kept in self._draws.items())
        return {"sampler": "recorded", "recordings": hashlib.sha256(repr(whole).encode()).hexdigest()[:16]}

    async def preflight(self) -> Preflight:
        """Recorded draws always answer: nothing is asked."""
        return always_answers("recorded draws")

    def price(self, usage: Usage) -> Decimal:
        """0: recorded draws were paid for when they were made."""
        return Decimal(0)

    async def aclose(self) -> None:
        """There is nothing to close."""
