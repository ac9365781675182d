"""Draws from a record: the codes a model once gave, given again in the same order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from screening.engine.draws import Draw, DrawRequest, SamplerError, ScreenedText, decode_draws


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

    def __init__(self, recordings: Mapping[Recording, str]) -> None:
        self._draws = {key: decode_draws(codes) for key, codes in recordings.items()}

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """The draws numbered ``first`` and following. SamplerError where fewer were recorded: none is made up."""
        key = Recording(node=request.node, text=request.text, variant=request.variant)
        recorded = self._draws.get(key, ())
        asked = recorded[request.first : request.first + request.count]
        if len(asked) < request.count:
            known = f"{len(recorded)} draws are recorded at {request.node}"
            raise SamplerError("not_recorded", f"{known}, {request.first + request.count} were asked for.")
        return asked
