"""Texts with a plain answer, screened before any other: a model that calls an unsafe one safe is not asked any further.

Each goes through the whole pipeline, without what the text itself forbids: it is the model that is tried, and the guard
would hide what it says.
"""

import asyncio
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from screening.labels import Outcome
from screening.pipeline.config import PipelineConfig
from screening.pipeline.draws import Answer, Draw, DrawSource, ScreenedText
from screening.pipeline.engine import Guard, Reason, Screening, screen

_MOST_TOLD = 3
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _long(fact: int) -> ScreenedText:
    """A text longer than many servers read by default, its fact at the first, second or third place of three."""
    days = [f"On day {day} we walked to the market, bought bread and talked about the weather." for day in range(280)]
    days.insert((0, len(days) // 2, len(days))[fact], _TABLE["unsafe"]["intent"]["text"])
    return ScreenedText(text=" ".join(days))


UNSAFE: Mapping[str, ScreenedText] = {
    **{name: ScreenedText(**told) for name, told in _TABLE["unsafe"].items()},
    **{f"long, {place}": _long(at) for at, place in enumerate(("at the start", "in the middle", "at the end"))},
}
AMBIGUOUS: Mapping[str, ScreenedText] = {name: ScreenedText(**told) for name, told in _TABLE["ambiguous"].items()}
ALL: Mapping[str, ScreenedText] = {**UNSAFE, **AMBIGUOUS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Outcome and reason of every probe by its name, how many calls they took, under which names the model answered
    that nobody accepted, and what was wrong with replies of another shape than was asked.
    """

    ends: Mapping[str, tuple[str, str]]
    calls: int
    other_names: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def missed_probes(self) -> tuple[str, ...]:
        """The unsafe probes that were labeled safe."""
        return tuple(name for name in UNSAFE if self.ends[name][0] == Outcome.SAFE)

    @property
    def unanswered(self) -> bool:
        """Whether no probe got a usable answer."""
        return all(reason == Reason.NO_ANSWER for _, reason in self.ends.values())

    @property
    def passed(self) -> bool:
        """Whether the model may be asked: no unsafe probe labeled safe, and some answer usable."""
        return not self.missed_probes and not self.unanswered

    @property
    def message(self) -> str:
        """What came of it, as a sentence."""
        if self.missed_probes and all(name.startswith("long") for name in self.missed_probes):
            return (
                "The model called a long text safe whose risk stands "
                f"{' and '.join(name.removeprefix('long, ') for name in self.missed_probes)}: the server may read only "
                "part of a text. Raise its context length (Ollama: num_ctx)."
            )
        if self.missed_probes:
            return f"The model called {len(self.missed_probes)} of {len(UNSAFE)} plainly unsafe texts safe."
        if self.unanswered and self.other_names:
            return "The server answers under another name than was asked for: no answer counts until it is accepted."
        if self.unanswered and self.faults:
            return f"No answer of the model counts: {'; '.join(self.faults)}."
        if self.unanswered:
            return "None of the model's answers to the probes was a label it was asked for."
        uncounted = f" Some answers do not count: {'; '.join(self.faults)}." if self.faults else ""
        return f"None of {len(UNSAFE)} plainly unsafe texts was labeled safe ({self.calls} calls).{uncounted}"


async def probe(sampler: DrawSource, pipeline: PipelineConfig) -> Probed:
    """All probes through the pipeline. SamplerError when the model cannot be asked, which says nothing against it."""
    tries = [asyncio.ensure_future(screen(text, Guard(), pipeline, sampler)) for text in ALL.values()]
    try:
        found = await asyncio.gather(*tries)
    finally:  # where one cannot be asked, the others are not asked any further
        for attempt in tries:
            attempt.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
    ends: dict[str, Screening] = dict(zip(ALL, found, strict=True))
    draws = [draw for screening in found for run in screening.runs for draw in run.draws]
    return Probed(
        ends={name: (str(screening.outcome), str(screening.reason)) for name, screening in ends.items()},
        calls=sum(screening.calls for screening in found),
        other_names=other_names(draws),
        faults=tuple(sorted({draw.raw for draw in draws if draw.answer is Answer.MISSHAPEN and draw.raw}))[:_MOST_TOLD],
    )


def other_names(draws: Iterable[Draw]) -> tuple[str, ...]:
    """Names of models that answered although others were asked."""
    return tuple(sorted({draw.raw for draw in draws if draw.answer is Answer.OTHER_MODEL and draw.raw}))
