"""The library for notebooks and programs: screen texts, replay draws, measure, certify; tables are pandas."""

import asyncio
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar, get_args

import pandas as pd

from screening.evaluation.experiments import Record
from screening.evaluation.experiments import replay as replay_record
from screening.evaluation.metrics import evaluate, outcome_codes, reference_codes
from screening.labels import Label, Outcome
from screening.models.simulated import SimulatedSampler
from screening.pipeline.config import PipelineConfig, Preset, preset
from screening.pipeline.draws import DrawSource, ScreenedText, encode_draws
from screening.pipeline.engine import MAIN, guard_for
from screening.pipeline.engine import screen as screen_one
from screening.stopping.certificates import calibrate, find
from screening.stopping.rules import DEFAULT_CONTRACT, Contract
from screening.text.received import ReceivedText, receive

DRAWS = "draws_"
"""Columns of draws are named after their nodes: ``draws_worker`` holds a code a draw (S, U, E, and ? ! _ ~)."""

Pipeline = PipelineConfig | Preset
T = TypeVar("T")


def screen_texts(
    texts: Iterable[str],
    *,
    replies: Iterable[str | None] | None = None,
    pipeline: Pipeline = "certified",
    sampler: DrawSource | None = None,
    seed: int = 0,
    at_once: int = 16,
) -> pd.DataFrame:
    """Screen texts, each with a chatbot's reply where ``replies`` gives one; a row each, in their order.

    Columns: ``outcome`` (safe, unsafe, human_review), ``node`` and ``reason`` it ended with, ``calls``, ``delta``,
    ``flags`` found in the text, and a column of draws a node. A Series keeps its index. Without a ``sampler`` the
    seeded simulated agents answer: they are no model. Raises SamplerError when the sampler gives up, ValueError for
    as many replies as there are not texts.
    """
    index = texts.index if isinstance(texts, pd.Series) else None
    given = [receive(text) for text in texts]
    beside = [None] * len(given) if replies is None else [None if one is None else receive(one) for one in replies]
    if len(beside) != len(given):
        raise ValueError("there must be one reply, or None, for each text")
    chosen, asked, gate = _pipeline(pipeline), sampler or SimulatedSampler(seed), asyncio.Semaphore(at_once)

    async def screened(text: ReceivedText, reply: ReceivedText | None) -> dict[str, Any]:
        flags = sorted({*text.flags, *(reply.flags if reply else ())})
        shown = ScreenedText(text=text.model_text, reply=reply.model_text if reply else None)
        async with gate:
            ended = await screen_one(shown, guard_for(flags), chosen, asked)
        drawn = {run.node: encode_draws(run.draws) for run in ended.runs if run.variant == MAIN}
        return {
            "outcome": ended.outcome.value,
            "node": ended.node,
            "reason": ended.reason.value,
            "calls": ended.calls,
            "delta": ended.delta,
            "flags": ", ".join(flags),
            **{DRAWS + node.name: drawn.get(node.name, "") for node in chosen.nodes},
        }

    async def all_of_them() -> list[dict[str, Any]]:
        return await asyncio.gather(*(screened(text, reply) for text, reply in zip(given, beside, strict=True)))

    columns = ["outcome", "node", "reason", "calls", "delta", "flags", *(DRAWS + node.name for node in chosen.nodes)]
    return pd.DataFrame(_run(all_of_them()), index=index, columns=columns)


def replay(draws: pd.DataFrame, pipeline: Pipeline = "certified") -> pd.DataFrame:
    """What another pipeline makes of the same draws, without a call: ``outcome``, ``node`` and ``calls``, a row each.

    ``draws`` has columns as `screen_texts` gives them. A row whose draws do not suffice has no outcome. What a text
    itself forbids is not replayed. Raises ValueError for a column of draws that holds something else.
    """
    codes = {
        str(name).removeprefix(DRAWS): ["" if pd.isna(one) else str(one) for one in draws[name]]
        for name in draws.columns
        if str(name).startswith(DRAWS)
    }
    if not codes:
        raise ValueError(f"no column of draws: they are named {DRAWS}worker and so on")
    chosen = _pipeline(pipeline)
    found = replay_record(chosen, Record.from_codes(codes))
    outcomes = [None if one is None else one.value for one in found.outcomes()]
    nodes = [chosen.nodes[place].name for place in found.node]
    return pd.DataFrame({"outcome": outcomes, "node": nodes, "calls": found.total_calls}, index=draws.index)


def metrics(references: Iterable[str | None], outcomes: Iterable[str | None]) -> pd.DataFrame:
    """Accuracy, FPR and FNR of decided cases and the escalation rate, a row each.

    Columns ``value``, ``low`` and ``high`` (Wilson, 95%), ``numerator``, ``denominator``; an undefined value is
    missing, never 0. References are safe or unsafe, outcomes safe, unsafe, human_review; what is missing is left out.

    >>> float(metrics(["safe", "unsafe"], ["safe", "safe"]).loc["fnr", "value"])
    1.0
    """
    labels = reference_codes([None if pd.isna(one) or not one else Label(one) for one in references])
    pending = ("", "pending")
    ended = outcome_codes([None if pd.isna(one) or one in pending else Outcome(str(one)) for one in outcomes])
    measured = evaluate(labels, ended)
    named = ("accuracy", "fpr", "fnr", "escalation_rate")
    return pd.DataFrame.from_dict({name: getattr(measured, name).plain for name in named}, orient="index")


def certify(
    delta: float | None = None, budget: int = 100, *, prove: Literal["look up", "anew"] = "look up"
) -> "pd.Series[Any]":
    """The evidence levels at which a node names a wrong label with probability at most δ, within so many draws.

    Without ``delta`` the default contract: 0.05 in all, and safe where the agent's mode is not safe at most 0.001.
    ``anew`` searches and proves it now (seconds at 100 draws); a certificate that comes with the program is looked up
    otherwise, and searched for where there is none. ``worst`` is the proven worst probability of any wrong label.
    """
    contract = DEFAULT_CONTRACT if delta is None else Contract(any_wrong=delta)
    known = None if prove == "anew" else find(contract, budget)
    found = known or calibrate(contract, budget)
    safe = {level for pair, level in found.levels if pair[0] is Label.SAFE}
    return pd.Series(
        {
            "contract": contract.words(),
            "budget": found.budget,
            "level": found.level,
            "level_for_safe": min(safe, default=found.level),
            "worst": found.worst,
            "worst_safe": found.worst_safe,
        }
    )


def _pipeline(chosen: Pipeline) -> PipelineConfig:
    if isinstance(chosen, PipelineConfig):
        return chosen
    if chosen not in get_args(Preset):
        raise ValueError(f"no pipeline {chosen!r}; there are {', '.join(get_args(Preset))}")
    return preset(chosen)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, also in a notebook, where an event loop is already running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, work).result()
