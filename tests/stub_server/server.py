"""The server: POST /v1/messages, and /stub/counters, /stub/plan, /stub/reset to watch and steer it."""

import asyncio
import base64
import json
import random
import re
import secrets
import socket
from collections import Counter
from typing import Any, Self

from aiohttp import web
from pydantic import ValidationError

from screening.models.canaries import ALL
from screening.pipeline.draws import ScreenedText
from tests.stub_server.answering import answer_to, chat_completion, completion, message
from tests.stub_server.asked import Asked, read_asked
from tests.stub_server.batches import StubBatches
from tests.stub_server.counters import Counters
from tests.stub_server.plan import ANSWERED_FAULTS, Fault, RawReply, StubPlan

_LATEST_VERSION = "2026-10-21"
_NO_TEMPERATURE = re.compile(r"claude-(?:opus|sonnet|haiku)-(?:4-[7-9]|[5-9])")


class StubServer:
    """A stub on loopback: ``async with StubServer(plan) as stub`` and then `url`. Port 0 takes a free one."""

    def __init__(self, plan: StubPlan | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.plan = plan or StubPlan()
        self.counters = Counters()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._rng = random.Random(self.plan.seed)
        self._name = secrets.token_hex(4)  # two stubs never give the same id
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None
        self._listening: socket.socket
        self.batches = StubBatches(lambda: self.plan, self.answer)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/chat/completions", self._completions)
        self.batches.add_to(app)
        app.router.add_get("/stub/counters", self._counters)
        app.router.add_post("/stub/plan", self._set_plan)
        app.router.add_post("/stub/reset", self._reset)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        self._listening = socket.create_server((self._host, self._port), backlog=128)
        await web.SockSite(self._runner, self._listening).start()
        self._port = self._listening.getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        # Nobody is let in from now on: who connects while a server closes stays connected until it is garbage.
        asyncio.get_running_loop().remove_reader(self._listening)
        await asyncio.sleep(0.01)
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The base URL to give a client."""
        return f"http://{self._host}:{self._port}"

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        asked = read_asked(body)
        if not self.plan.fails_probes and ScreenedText(text=asked.text, reply=asked.reply) in ALL.values():
            return self._probed(request, body, asked)
        number = self.counters.arrived(body, request.headers)
        try:
            refusal = self._refusal(request, body)
            if refusal is not None:
                self.counters.refused[refusal.status] += 1
                return refusal
            await asyncio.sleep(self.plan.latency_s + self._rng.random() * self.plan.jitter_s)
            return await self._answer(request, body, number)
        finally:
            self.counters.in_flight -= 1

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """A whole message for one request of a message batch."""
        asked = read_asked(body)
        key = (asked.node, asked.everything)
        self._asked[key] += 1
        self.counters.answers += 1
        words = answer_to(self.plan, asked, self._asked[key] - 1)
        return message(body, words, None, f"msg_stub_{self._name}_b{self.counters.answers}")

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        """The chat form, for log probabilities: the first tokens of the answers with their shares."""
        body = await request.json()
        number = self.counters.arrived(body, request.headers)
        try:
            fault = self._fault(number)
            if fault is not None:
                self.counters.faults[fault] += 1
                return await self._broken(request, fault)
            if self.plan.raw is not None:
                return _raw(self.plan.raw, f"chat_stub_{self._name}_{number}")
            self.counters.answers += 1
            asked = read_asked(body)
            fresh_id = f"chat_stub_{self._name}_{number}"
            answer = answer_to(self.plan, asked, number)
            if body.get("logprobs"):
                return web.json_response(completion(self.plan, asked, body, answer, fresh_id))
            return web.json_response(chat_completion(body, answer, fresh_id))
        finally:
            self.counters.in_flight -= 1

    def _probed(self, request: web.Request, body: dict[str, Any], asked: Asked) -> web.Response:
        """Probes are answered as a sound model does, counted apart and without faults, whatever the plan says."""
        self.counters.probes += 1
        unsafe = asked.code_words.get("unsafe", "unsafe")
        return self._refusal(request, body) or web.json_response(
            message(body, unsafe, None, f"msg_probe_{self._name}_{self.counters.probes}")
        )

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        """What the real service refuses: a wrong key, an unknown model, a temperature where none is taken."""
        if self.plan.api_key is not None and _key(request) != self.plan.api_key:
            return _error(401, "authentication_error", "invalid x-api-key")
        if self.plan.models is not None and body["model"] not in self.plan.models:
            return _error(404, "not_found_error", f"model: {body['model']}")
        newest = request.headers.get("anthropic-version") == _LATEST_VERSION
        if "temperature" in body and (newest or _NO_TEMPERATURE.match(body["model"])):
            return _error(400, "invalid_request_error", "temperature: Extra inputs are not permitted")
        limit = self.plan.limit_per_minute
        if limit is not None and self.counters.in_last(60.0) > limit:
            return self._failure(Fault.RATE_LIMITED)
        return None

    async def _answer(self, request: web.Request, body: dict[str, Any], number: int) -> web.StreamResponse:
        if self.plan.raw is not None:
            return _raw(self.plan.raw, f"msg_stub_{self._name}_{number}")
        fault = self._fault(number)
        if fault is not None:
            self.counters.faults[fault] += 1
        if fault is not None and fault not in ANSWERED_FAULTS:
            return await self._broken(request, fault)
        asked = read_asked(body)
        key = (asked.node, asked.everything)
        answer = answer_to(self.plan, asked, self._asked[key])
        self._asked[key] += 1
        self.counters.answers += 1
        self.counters.answer_by_nonce[asked.nonce] = answer
        return web.json_response(message(body, answer, fault, f"msg_stub_{self._name}_{number}"))

    def _fault(self, number: int) -> Fault | None:
        if number < len(self.plan.script):
            return self.plan.script[number]
        point = self._rng.random()
        for fault, rate in self.plan.faults.items():
            point -= rate
            if point < 0:
                return fault
        return None

    async def _broken(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault is Fault.HANG:
            await asyncio.sleep(self.plan.hang_s)
        if fault in {Fault.HANG, Fault.DROPPED}:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault is Fault.DRIP:
            return await self._drip(request)
        if fault is Fault.CUT_OFF:
            return await _cut_off(request)
        return self._failure(fault)

    def _failure(self, fault: Fault) -> web.Response:
        waiting = {} if self.plan.retry_after is None else {"retry-after": self.plan.retry_after}
        if fault is Fault.RATE_LIMITED:
            return _error(429, "rate_limit_error", "too many requests", headers=waiting)
        if fault is Fault.SPEND_CAP:
            details = {"error_code": "enforced_spend_limit_reached"}
            return _error(429, "rate_limit_error", "spend limit", headers=waiting, details=details)
        if fault is Fault.OVERLOADED:
            return _error(529, "overloaded_error", "overloaded")
        if fault is Fault.SERVER_ERROR:
            return _error(500, "api_error", "internal error")
        if fault is Fault.REDIRECT:
            return web.Response(status=307, headers={"location": f"{self.url}/v1/messages"})
        if fault is Fault.HTML:
            return web.Response(text="<html><body>Gateway</body></html>", content_type="text/html")
        text = '{"type": "mess' if fault is Fault.MALFORMED else '["safe"]'
        return web.Response(text=text, content_type="application/json")

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        whole = json.dumps(message({}, "safe", None, "msg_stub_drip"))
        for character in whole:
            await response.write(character.encode())
            await asyncio.sleep(self.plan.drip_s)
        return response

    async def _counters(self, _: web.Request) -> web.Response:
        return web.json_response(self.counters.as_json())

    async def _set_plan(self, request: web.Request) -> web.Response:
        try:
            self.plan = StubPlan.model_validate_json(await request.text())
        except ValidationError as error:
            return web.json_response({"error": json.loads(error.json(include_input=False))}, status=400)
        self._rng = random.Random(self.plan.seed)
        return web.json_response({"ok": True})

    async def _reset(self, _: web.Request) -> web.Response:
        in_flight = self.counters.in_flight
        self.counters = Counters()
        self.counters.in_flight = in_flight
        self._asked.clear()
        return web.json_response({"ok": True})


def _key(request: web.Request) -> str:
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    return request.headers.get("x-api-key", bearer)


def _raw(reply: RawReply, fresh_id: str) -> web.Response:
    body = base64.b64decode(reply.base64).replace(b"{id}", fresh_id.encode())
    return web.Response(status=reply.status, body=body, headers=reply.headers)


async def _cut_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "application/json", "content-length": "400"})
    await response.prepare(request)
    await response.write(b'{"type": "message", "content": [{"type": "text", "text": "safe"}]')
    assert request.transport is not None
    request.transport.abort()
    return response


def _error(
    status: int, kind: str, text: str, *, headers: dict[str, str] | None = None, details: dict[str, str] | None = None
) -> web.Response:
    error: dict[str, Any] = {"type": kind, "message": text}
    if details is not None:
        error["details"] = details
    return web.json_response({"type": "error", "error": error}, status=status, headers=headers)
