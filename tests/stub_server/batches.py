"""The stub's message batches: handed in, worked off after a while, results in any order, one failure each."""

import json
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.stub_server.plan import StubPlan

_ERRORED = {"type": "error", "error": {"type": "api_error", "message": "internal"}}


@dataclass(kw_only=True)
class StubBatch:
    """One message batch; its answers are made when it is handed in."""

    id: str
    results: list[dict[str, Any]]
    ends_at: float
    created_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat().replace("+00:00", "Z"))
    cancelled: bool = False

    def as_json(self) -> dict[str, Any]:
        ended = self.cancelled or time.monotonic() >= self.ends_at
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": dict.fromkeys(("processing", "succeeded", "canceled", "errored", "expired"), 0)
            | {"succeeded" if ended else "processing": len(self.results)},
            "expires_at": self.created_at,
            "created_at": self.created_at,
            "results_url": "https://elsewhere.example/results" if ended else None,
        }


class StubBatches:
    """All of one stub. ``bodies`` are the requests by custom id, each time they were handed in."""

    def __init__(self, plan: Callable[[], StubPlan], answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._plan, self._answer = plan, answer
        self._rng = random.Random(7)
        self.all: list[StubBatch] = []
        self.bodies: list[tuple[str, dict[str, Any]]] = []

    def add_to(self, app: web.Application) -> None:
        at = "/v1/messages/batches"
        app.router.add_post(at, self._create)
        app.router.add_get(at, self._list)
        app.router.add_get(f"{at}/{{id}}", self._find)
        app.router.add_get(f"{at}/{{id}}/results", self._results)
        app.router.add_post(f"{at}/{{id}}/cancel", self._cancel)

    async def _create(self, request: web.Request) -> web.Response:
        asked = (await request.json())["requests"]
        ids = [one["custom_id"] for one in asked]
        if len(set(ids)) != len(ids) or not asked:
            return web.json_response({"type": "error", "error": {"type": "invalid_request_error"}}, status=400)
        self.bodies += [(one["custom_id"], one["params"]) for one in asked]
        made = StubBatch(
            id=f"msgbatch_stub_{len(self.all)}",
            results=[self._result(one) for one in asked],
            ends_at=time.monotonic() + self._plan().batch_s,
        )
        self._rng.shuffle(made.results)
        self.all.append(made)
        lost = self._plan().batch_lost
        if len(self.all) <= len(lost) and lost[len(self.all) - 1]:
            assert request.transport is not None
            if self._plan().batch_lost_ends_when_listed:
                made.ends_at = math.inf
            request.transport.abort()
        return web.json_response(made.as_json())

    def _result(self, one: dict[str, Any]) -> dict[str, Any]:
        kinds = self._plan().batch_faults
        fault = self._rng.choices([*kinds, None], [*kinds.values(), 1 - sum(kinds.values())])[0]
        result: dict[str, Any] | None = {"type": fault or "succeeded"}
        if fault is None:
            result = {"type": "succeeded", "message": self._answer(one["params"])}
        elif fault == "errored":
            result = {"type": fault, "error": _ERRORED}
        elif fault == "garbled":
            result = None
        return {"custom_id": one["custom_id"], "result": result}

    async def _list(self, _: web.Request) -> web.Response:
        listed = [one.as_json() for one in reversed(self.all)]
        for one in self.all:
            one.ends_at = 0.0 if one.ends_at == math.inf else one.ends_at
        return web.json_response({"data": listed, "has_more": False})

    async def _find(self, request: web.Request) -> web.Response:
        return web.json_response(self._named(request).as_json())

    async def _results(self, request: web.Request) -> web.Response:
        return web.Response(text="".join(json.dumps(one) + "\n" for one in self._named(request).results))

    async def _cancel(self, request: web.Request) -> web.Response:
        self._named(request).cancelled = True
        return web.json_response(self._named(request).as_json())

    def _named(self, request: web.Request) -> StubBatch:
        found = [one for one in self.all if one.id == request.match_info["id"]]
        if not found:
            raise web.HTTPNotFound
        return found[0]
