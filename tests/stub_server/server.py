"""The server: the Messages API and OpenAI-compatible chat completions, with every fault of the plan."""

import asyncio
import base64
import json
import random
import re
import secrets
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from aiohttp import web

from screening.models.canaries import ALL
from screening.pipeline.draws import ScreenedText
from tests.stub_server.answering import ANSWERED_FAULTS, Asked, answer_to, completion, message, read_asked, weights_for
from tests.stub_server.batches import StubBatches
from tests.stub_server.plan import Fault, RawReply, StubPlan

CHAT = "/v1/chat/completions"
HANG_S, DRIP_S = 60.0, 0.2
_NO_TEMPERATURE = re.compile(r"claude-(?:opus|sonnet|haiku)-(?:4-[7-9]|[5-9])")
_FAILURES = {
    Fault.RATE_LIMITED: (429, "rate_limit_error", "too many requests"),
    Fault.SPEND_CAP: (429, "rate_limit_error", "spend limit"),
    Fault.OVERLOADED: (529, "overloaded_error", "overloaded"),
    Fault.SERVER_ERROR: (500, "api_error", "internal error"),
}
_BODIES = {
    Fault.HTML: ("text/html", "<html><body>Gateway</body></html>"),
    Fault.MALFORMED: ("application/json", '{"type": "mess'),
    Fault.WRONG_SHAPE: ("application/json", '["safe"]'),
}


class Counters:
    """What the stub has seen, to compare with the sampler's own account; of bodies and headers the last 200."""

    def __init__(self) -> None:
        self.requests = self.answers = self.retries = self.in_flight = self.max_in_flight = 0
        self.answer_by_nonce: dict[str, str] = {}
        self.arrivals: list[float] = []
        self.bodies: deque[dict[str, Any]] = deque(maxlen=200)
        self.headers: deque[dict[str, str]] = deque(maxlen=200)

    def arrived(self, body: dict[str, Any], headers: Mapping[str, str]) -> int:
        """Counts a request; returns its number, from 0."""
        self.requests += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self.retries += headers.get("x-stainless-retry-count", "0") != "0"
        self.arrivals.append(time.monotonic())
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in headers.items()})
        return self.requests - 1

    def busiest(self, window_s: float) -> int:
        most, first = 0, 0
        for last, arrival in enumerate(self.arrivals):
            while arrival - self.arrivals[first] >= window_s:
                first += 1
            most = max(most, last - first + 1)
        return most


class StubServer:
    """A stub on loopback: ``async with StubServer(plan) as stub`` and then `url`. Port 0 takes a free one."""

    def __init__(self, plan: StubPlan | None = None, *, port: int = 0) -> None:
        self.plan = plan or StubPlan()
        self.counters = Counters()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._rng = random.Random(self.plan.seed)
        self._name = secrets.token_hex(4)  # two stubs never give the same id
        self._port = port
        self._runner: web.AppRunner
        self._listening: socket.socket
        self.batches = StubBatches(lambda: self.plan, self.answer)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post(CHAT, self._messages)
        self.batches.add_to(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        self._listening = socket.create_server(("127.0.0.1", self._port), backlog=128)
        await web.SockSite(self._runner, self._listening).start()
        self._port = self._listening.getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        # Nobody is let in from now on: who connects while a server closes stays connected until it is garbage.
        asyncio.get_running_loop().remove_reader(self._listening)
        await asyncio.sleep(0.01)
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        asked = read_asked(body)
        if not self.plan.fails_probes and ScreenedText(text=asked.text, reply=asked.reply) in ALL.values():
            shares = {asked.code_words.get("unsafe", "unsafe"): 1.0}
            return self._refusal(request, body) or self._said(request, body, shares, next(iter(shares)), None)
        number = self.counters.arrived(body, request.headers)
        try:
            refusal = self._refusal(request, body)
            if refusal is not None:
                return refusal
            await asyncio.sleep(self.plan.latency_s + self._rng.random() * self.plan.jitter_s)
            return await self._answer(request, body, number)
        finally:
            self.counters.in_flight -= 1

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """A whole message for one request of a message batch."""
        return message(body, self._next_answer(read_asked(body)), None, self._fresh_id())

    def _next_answer(self, asked: Asked) -> str:
        key = (asked.node, asked.everything)
        self._asked[key] += 1
        self.counters.answers += 1
        return answer_to(self.plan, asked, self._asked[key] - 1)

    def _fresh_id(self) -> str:
        return f"stub_{self._name}_{secrets.token_hex(4)}"

    def _said(
        self, request: web.Request, body: dict[str, Any], shares: dict[str, float], answer: str, fault: Fault | None
    ) -> web.Response:
        if request.path == CHAT and fault is None:  # what is no answer has the wrong shape there
            return web.json_response(completion(body, answer, shares, self._fresh_id()))
        return web.json_response(message(body, answer, fault, self._fresh_id()))

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        """What the real service refuses: a wrong key, an unknown model, a temperature where none is taken."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.plan.api_key not in {None, request.headers.get("x-api-key", bearer)}:
            return _error(401, "authentication_error", "invalid x-api-key")
        if self.plan.models is not None and body["model"] not in self.plan.models:
            return _error(404, "not_found_error", f"model: {body['model']}")
        newest = request.headers.get("anthropic-version") == "2026-10-21"
        if "temperature" in body and (newest or _NO_TEMPERATURE.match(body["model"])):
            return _error(400, "invalid_request_error", "temperature: Extra inputs are not permitted")
        return None

    async def _answer(self, request: web.Request, body: dict[str, Any], number: int) -> web.StreamResponse:
        if self.plan.raw is not None:
            return _raw(self.plan.raw, self._fresh_id())
        fault = self._fault(number)
        if fault is not None and fault not in ANSWERED_FAULTS:
            return await self._broken(request, fault)
        asked = read_asked(body)
        answer = self.counters.answer_by_nonce[asked.nonce] = self._next_answer(asked)
        shares = {asked.code_words.get(word, word): share for word, share in weights_for(self.plan, asked).items()}
        return self._said(request, body, shares, answer, fault)

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
        if fault in _FAILURES:
            waits = fault in {Fault.RATE_LIMITED, Fault.SPEND_CAP} and self.plan.retry_after is not None
            details = {"error_code": "enforced_spend_limit_reached"} if fault is Fault.SPEND_CAP else None
            headers = {"retry-after": str(self.plan.retry_after)} if waits else None
            return _error(*_FAILURES[fault], headers=headers, details=details)
        if fault in _BODIES:
            kind, text = _BODIES[fault]
            return web.Response(text=text, content_type=kind)
        if fault is Fault.REDIRECT:
            return web.Response(status=307, headers={"location": f"{self.url}{request.path}"})
        if fault is Fault.DRIP:
            return await _drip(request)
        if fault is Fault.HANG:
            await asyncio.sleep(HANG_S)
        if fault is Fault.CUT_OFF:
            response = web.StreamResponse(headers={"content-type": "application/json", "content-length": "400"})
            await response.prepare(request)
            await response.write(b'{"type": "message", "content": [{"type": "text", "text": "safe"}]')
        assert request.transport is not None
        request.transport.abort()
        return web.Response()


async def _drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "application/json"})
    await response.prepare(request)
    for character in json.dumps(message({}, "safe", None, "msg_stub_drip")):
        await response.write(character.encode())
        await asyncio.sleep(DRIP_S)
    return response


def _raw(reply: RawReply, fresh_id: str) -> web.Response:
    body = base64.b64decode(reply.base64).replace(b"{id}", fresh_id.encode())
    return web.Response(status=reply.status, body=body, headers=reply.headers)


def _error(
    status: int, kind: str, text: str, *, headers: dict[str, str] | None = None, details: dict[str, str] | None = None
) -> web.Response:
    error = {"type": kind, "message": text} | ({} if details is None else {"details": details})
    return web.json_response({"type": "error", "error": error}, status=status, headers=headers)


Stub = TypeVar("Stub", bound=StubServer)


@contextmanager
def stubs_beside(kind: type[Stub]) -> Iterator[Callable[[StubPlan], Stub]]:
    """Starts stubs of this kind; all end with the test."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    begun: list[Stub] = []

    def start(plan: StubPlan) -> Stub:
        server = kind(plan)
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
        begun.append(server)
        return server

    yield start
    for server in begun:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
