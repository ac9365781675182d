"""The agents that answer for a configuration: the sampler it was screened with; two are never mixed in one batch. All
workers of a site ask them under one limit.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jobs.process import retry_in_thread
from screening.models.http import HttpModel, default_gate, describe
from screening.models.retries import RateGate
from screening.models.settings import ModelSettings, is_local
from screening.models.simulated import SimulatedSampler
from screening.pipeline.config import PipelineConfig
from screening.pipeline.draws import (
    Draw,
    DrawRequest,
    DrawSource,
    LabelDistribution,
    NodeAgent,
    Preflight,
    SamplerError,
    Usage,
    cost_usd,
    has_list_price,
)
from screening.pipeline.files import load_prompts
from screening.settings import Settings
from storage.batches import pending
from storage.batches.configurations import Configuration
from storage.batches.pending import Pace
from storage.database import Database

if TYPE_CHECKING:
    from screening.models.anthropic import MessageBatches

log = logging.getLogger(__name__)


_USUAL = NodeAgent()


def model_settings(settings: Settings, agent: NodeAgent = _USUAL) -> ModelSettings:
    """What a node's model is asked with: the site's key goes to no other server than the one it was set for.
    SamplerError for a server that the settings do not name.
    """
    server, key = None, settings.anthropic_api_key
    if agent.server is not None and (server := settings.servers.get(agent.server)) is None:
        raise SamplerError("unknown_server", f"The site's settings name no server {agent.server!r}.", stops_batch=True)
    url = settings.anthropic_base_url if server is None else server.url
    # Calls whose answers no longer matter are broken off as the administrator says, else where the address is local,
    # which bills nothing; never at the paid service.
    breaks_off = (server or settings).cancel_on_futility
    return ModelSettings(
        model=agent.model or settings.model,
        temperature=settings.temperature if agent.temperature is None else agent.temperature,
        base_url=url,
        api_key=key.get_secret_value() if key and server is None else None,
        requests_per_minute=settings.requests_per_minute,
        concurrency=settings.concurrency,
        call_timeout_s=settings.call_timeout_s,
        node_deadline_s=settings.node_deadline_s,
        accepted_names=settings.accepted_model_names,
        breaks_off=url is not None and (is_local(url) if breaks_off is None else breaks_off),
        protocol=agent.protocol or (server or settings).protocol,
        most_unknown=settings.logprobs_most_unknown,
    ).with_adaptive_calls()


def describe_agents(
    settings: Settings, pipeline: PipelineConfig, usual: Mapping[str, object] | None = None
) -> Mapping[str, Any]:
    """What a configuration records of those who answer it; nobody is asked. The site's own model (``usual``, where the
    caller has its description already), and for each named server that its agents use: host, protocol and a mark of
    the path, never a key. ValueError where they cannot be asked so.
    """
    if settings.simulated:
        return SimulatedSampler(settings.seed).describe()
    told: dict[str, dict[str, str]] = {}
    used = {node.server for node in pipeline.nodes}
    for name in filter(used.__contains__, settings.servers):
        asked = model_settings(settings, NodeAgent(server=name))
        path = {"path": asked.path_mark} if asked.path_mark else {}
        told[name] = {"host": asked.host, "protocol": asked.protocol, **path}
    usual = usual or describe(model_settings(settings), load_prompts(settings.prompts_directory))
    return {**usual, **({"servers": told} if told else {})}


def reads_off(settings: Settings, pipeline: PipelineConfig) -> bool:
    """Whether some agent's label is read off from its server's probabilities."""
    with suppress(SamplerError):  # a server that is not there reads off nothing
        asked = (model_settings(settings, node.agent) for node in pipeline.nodes if not settings.simulated)
        return any(one.protocol == "logprobs" for one in asked)
    return False


def unanswerable(settings: Settings, pipeline: PipelineConfig) -> str:
    """The first agent that names a server which the settings do not, or a model of the paid service that is in no list,
    as one sentence; empty where there is none.
    """
    for node in pipeline.nodes:
        if node.server is not None and node.server not in settings.servers:
            return f"node {node.name}, server: {node.server!r} is an unknown server: the site's settings do not name it"
    usual = {settings.model, *settings.accepted_model_names}
    for node in () if settings.simulated or model_settings(settings).elsewhere else pipeline.nodes:
        if not (node.model is None or node.server is not None or node.model in usual or has_list_price(node.model)):
            unknown = "is an unknown model: neither the price list nor the site's settings name it"
            return f"node {node.name}, model: {node.model!r} {unknown}"
    return ""


def overnight_obstacle(settings: Settings, pipeline: PipelineConfig) -> str:
    """Why this pipeline cannot be asked by message batches; empty where it can."""
    if settings.simulated or settings.protocol != "messages":
        return "Message batches need a model behind the Messages API."
    usual = model_settings(settings)
    others = [node.title for node in pipeline.nodes if model_settings(settings, node.agent) != usual]
    return f"Message batches ask the site's own model alone, and {others[0]} has another." if others else ""


class Agents:
    """The samplers of one process; close it. A `gate` shares one rate limit with other processes."""

    def __init__(self, settings: Settings, gate: RateGate | None = None) -> None:
        self.settings = settings
        self._gate = gate
        self._models: dict[ModelSettings, HttpModel] = {}
        self._answering: dict[tuple[NodeAgent, tuple[str, ...]], HttpModel] = {}
        self._simulated: dict[int, SimulatedSampler] = {}

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        """The sampler of this configuration; SamplerError where the settings name others: a batch never mixes two."""
        sampler: SimulatedSampler | _ByNode
        if configuration.sampler.get("sampler") == "simulated":
            sampler = self._simulation(seed)
            present: Mapping[str, object] = sampler.describe()
        else:
            sampler = _ByNode(self, accepted_names(configuration))
            usual = None if self.settings.simulated else self.model_for(_USUAL, sampler.names).described
            present = describe_agents(self.settings, configuration.pipeline, usual)
        if configuration.sampler != present:
            raise SamplerError(
                "configuration_changed",
                "This batch began with other agents than the present settings name: restore them or start it anew.",
                stops_batch=True,
            )
        return sampler

    def model_for(self, agent: NodeAgent, names: tuple[str, ...]) -> HttpModel:
        """The model of a node, one a setting; ``names`` count in its answers. SamplerError for an unknown server."""
        if (agent, names) not in self._answering:
            asked = replace(model_settings(self.settings, agent), accepted_names=names)
            if asked not in self._models:
                prompts = load_prompts(self.settings.prompts_directory)
                self._gate = self._gate or default_gate(model_settings(self.settings))
                self._models[asked] = HttpModel(asked, prompts, gate=self._gate)
            self._answering[agent, names] = self._models[asked]
        return self._answering[agent, names]

    def cost_usd(self, configuration: Configuration, usage: Usage, node: str | None = None) -> float | None:
        """Dollars at list price of calls to this node's model; 0 for simulated agents, None where it is not known."""
        if configuration.sampler.get("sampler") == "simulated":
            return 0.0
        agent = _USUAL if node is None else configuration.pipeline.node(node).agent
        if agent.server is not None or configuration.sampler.get("own_server"):
            return None
        cost = cost_usd(agent.model or str(configuration.sampler["model"]), usage)
        return None if cost is None else float(cost)

    def message_batches(self, configuration: Configuration) -> "MessageBatches":
        """The endpoint for this configuration. SamplerError where the settings name others, or cannot use it."""
        from screening.models.anthropic import MessageBatches  # the vendor's library takes long to import

        self.sampler(configuration, 0)
        prompts, usual = load_prompts(self.settings.prompts_directory), model_settings(self.settings)
        if why := overnight_obstacle(self.settings, configuration.pipeline):
            raise SamplerError("no_message_batches", why, stops_batch=True)
        return MessageBatches(usual, prompts)

    async def preflight(self, configuration: Configuration) -> Sequence[Preflight]:
        """Ask each of its models once, with a harmless text; no simulated ones. SamplerError for an unknown server."""
        if self.settings.simulated:
            return ()
        names = accepted_names(configuration)
        models = dict.fromkeys(self.model_for(node.agent, names) for node in configuration.pipeline.nodes)
        return [await model.preflight() for model in models]

    async def aclose(self) -> None:
        for model in self._models.values():
            await model.aclose()

    def _simulation(self, seed: int) -> SimulatedSampler:
        if seed not in self._simulated:
            self._simulated[seed] = SimulatedSampler(seed, latency_s=self.settings.simulated_latency_s)
        return self._simulated[seed]


def accepted_names(configuration: Configuration) -> tuple[str, ...]:
    """Names beside the model's own under which answers count, as they stood when the configuration was saved."""
    sampler = configuration.sampler
    return tuple(name for name in sampler.get("answers_as", ()) if name != sampler["model"])


@dataclass(frozen=True, slots=True)
class _ByNode:
    agents: Agents
    names: tuple[str, ...]

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        return await self.agents.model_for(request.agent, self.names).draw(request)

    def distribution(self, request: DrawRequest) -> Awaitable[LabelDistribution] | None:
        return self.agents.model_for(request.agent, self.names).distribution(request)


# One rate limit and one concurrency limit for all workers on a database: the account they use is one.

RATE, PLACES = "calls per minute", "calls in flight"
BLOCK_S = 0.1
"""Leave is taken for so many seconds of calls at once: ten short transactions a second and worker at most."""
LAPSES_S = 1.0
"""Leave not used within so long is lost, so that it cannot pile up onto later calls."""
UNDER_WAY_S = 1.0
"""The longest a call is expected to be on its way to the service after its leave; the pace allows for it."""
BURST_SHARE, LATE_SHARE = 50, 100
LEASE_S, RENEW_EVERY_S = 10.0, 1.0
UNRENEWED_S = 5.0
"""A worker that could not renew its share for so long begins no call: what is under way has the lease's rest to end."""


def pace_of(per_minute: int) -> Pace:
    """The pace that lets at most ``per_minute`` calls arrive in *any* minute: they were given leave within 60 s +
    `LAPSES_S` + `UNDER_WAY_S`, at most burst + pace * that time; but for one call a worker, which `SharedLimiter` makes
    however late its leave came: 1 % and one are kept back for these.

    >>> pace = pace_of(1000)
    >>> pace.burst, round(pace.per_second * 60), pace.burst + pace.per_second * 62 + 11 <= 1000
    (20, 938, True)
    """
    if per_minute < 1:
        raise ValueError("at least one call a minute must be allowed")
    burst = max(1, per_minute // BURST_SHARE)
    late = 1 + per_minute // LATE_SHARE
    # A single call a minute cannot leave room for a burst: it comes every 62 s.
    return Pace(per_second=max(per_minute - burst - late, 1) / (60 + LAPSES_S + UNDER_WAY_S), burst=burst)


@dataclass(slots=True, kw_only=True)
class SharedLimiter:
    """Leave for one call at a time, taken from the database in blocks. Belongs to one event loop.

    Leave that took longer than ``lapses_s`` to come is good for one call, and a worker asks again only when that is
    made: where the database is slow, calls are few, but neither none nor too many.
    """

    db: Database
    pace: Pace
    lapses_s: float = LAPSES_S
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _left: int = 0
    _until: float = 0.0
    _late: bool = False

    async def acquire(self) -> None:
        """Returns when one more call may be made; first come, first served within the process."""
        async with self._turn:
            if self._left < 1 or time.monotonic() > self._until:
                await self._take()
            self._left -= 1

    async def _take(self) -> None:
        """A block of leave, which may be used at once; only as much as can be used where the last came late."""
        while True:
            block = 1 if self._late else max(1, round(self.pace.per_second * BLOCK_S))
            self._left, since, wait_s = await retry_in_thread(pending.take, self.db, RATE, self.pace, block)
            self._until = since + self.lapses_s
            self._late = time.monotonic() > self._until
            if self._left > 0:
                return
            await asyncio.sleep(wait_s)


async def share_places(db: Database, gate: RateGate, total: int, worker: str) -> None:
    """Keep the gate at this worker's share of ``total`` calls in flight, at 0 while that cannot be renewed."""
    loop = asyncio.get_running_loop()
    closing = loop.call_later(UNRENEWED_S, gate.resize, 0)
    try:
        while True:
            asked_at = loop.time()
            try:
                most = gate.in_use + gate.free  # the gate's size, or what is under way since it was larger
                allowed = await retry_in_thread(pending.hold, db, PLACES, worker, most, total, LEASE_S)
            except Exception as error:
                log.warning("the share of calls in flight was not renewed: %s", type(error).__name__)
            else:
                gate.resize(allowed)
                closing.cancel()
                closing = loop.call_at(asked_at + UNRENEWED_S, gate.resize, 0)
            await asyncio.sleep(RENEW_EVERY_S)
    finally:
        closing.cancel()
        gate.resize(0)
        await retry_in_thread(pending.give_up, db, PLACES, worker)


@asynccontextmanager
async def limited_agents(settings: Settings, db: Database, worker: str) -> AsyncIterator[Agents]:
    """The agents of one process; where there may be other workers, under the limits that all share."""
    if db.kind == "sqlite" or settings.simulated:
        async with aclosing(Agents(settings)) as agents:
            yield agents
        return
    gate = default_gate(model_settings(settings), SharedLimiter(db=db, pace=pace_of(settings.requests_per_minute)))
    gate.resize(0)
    share = asyncio.create_task(share_places(db, gate, settings.concurrency, worker))
    try:
        async with aclosing(Agents(settings, gate)) as agents:
            yield agents
    finally:
        share.cancel()
        with suppress(asyncio.CancelledError):
            await share
