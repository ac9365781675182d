"""Draws that exist already, handed out like any others: under the same limits, urgent ones first, on the bill."""

import asyncio
from collections.abc import Sequence

from screening.engine.draws import Draw, DrawRequest, Preflight
from screening.samplers.rate import RateGate

DEADLINE_S = 300.0


async def hand_out(request: DrawRequest, draws: Sequence[Draw], gate: RateGate | None) -> list[Draw]:
    """The draws in request order, each through the gate, where there is one, and put on the request's bill."""
    if gate is None:
        for place, draw in enumerate(draws):
            _put_on_bill(request, place, draw)
        return list(draws)
    async with gate.wave(urgent=request.urgent, deadline_s=DEADLINE_S):
        for place, draw in enumerate(draws):
            async with gate.slot():
                await asyncio.sleep(0)  # others go on meanwhile
                _put_on_bill(request, place, draw)
    return list(draws)


def _put_on_bill(request: DrawRequest, place: int, draw: Draw) -> None:
    if request.bill is not None:
        request.bill.record_answer(place, draw)


def always_answers(who: str) -> Preflight:
    """The preflight result of agents that need not be asked: recorded or simulated ones."""
    return Preflight(
        ok=True,
        message=f"The {who} answer by themselves.",
        model=who,
        temperature_accepted=None,
        kind=None,
        seconds=0.0,
    )
