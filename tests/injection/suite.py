"""Reading the published attacks and the texts the detector was not tuned on."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from screening.labels import Label
from screening.pipeline.draws import Answer, Draw, DrawRequest, ScreenedText, unusable
from screening.pipeline.engine import MAIN
from screening.text.flags import Flag
from screening.text.injection import injection_flags
from screening.text.received import receive

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A text, perhaps with a reply, and what it is: a kind of attack, ``attack``, ``ordinary`` or ``stated``."""

    id: str
    kind: str
    text: str
    reply: str | None = None

    @property
    def flags(self) -> frozenset[Flag]:
        """What is found in text and reply on the way in."""
        return _flags(self.text) | (_flags(self.reply) if self.reply is not None else frozenset())

    @property
    def shown(self) -> ScreenedText:
        """What the model sees."""
        return ScreenedText(text=_shown(self.text), reply=None if self.reply is None else _shown(self.reply))


class AlwaysSafe:
    """Says safe whatever it is asked. At the second look that is one of its code words only if it is ``clever``."""

    def __init__(self, *, clever: bool = True) -> None:
        self.clever = clever

    async def draw(self, request: DrawRequest) -> list[Draw]:
        counts = self.clever or request.variant == MAIN
        return [Draw(label=Label.SAFE) if counts else unusable(Answer.UNPARSABLE, "safe")] * request.count


@cache
def _flags(text: str) -> frozenset[Flag]:
    return receive(text, detectors=[injection_flags]).flags


@cache
def _shown(text: str) -> str:
    return receive(text).model_text


def read_probes(name: str) -> tuple[Probe, ...]:
    """The probes in a file of this folder, in its order."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return tuple(Probe(**json.loads(line)) for line in lines)
