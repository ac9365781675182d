"""A model behind the stub of its server, as the tests of models ask it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from screening.models.http import HttpModel
from screening.models.settings import ModelSettings
from screening.pipeline.draws import DrawRequest, ScreenedText
from screening.pipeline.files import load_prompts
from tests.stub_server import StubPlan, StubServer

TEXT = ScreenedText(text="We walked the dog by the river.")
KINDS = ("messages", "chat", "logprobs")
USUAL = {
    "api_key": "k", "requests_per_minute": None, "call_timeout_s": 20.0, "node_deadline_s": 60.0, "max_retries": 1,
}  # fmt: skip


def draw_batch(count: int, **more: Any) -> DrawRequest:
    """A request for so many draws."""
    return DrawRequest(**({"node": "worker", "text": TEXT, "first": 0, "count": count} | more))


@asynccontextmanager
async def asked(
    server: StubPlan | StubServer | None = None, *, rng: Any = None, gate: Any = None, **settings: Any
) -> AsyncIterator[tuple[StubServer, HttpModel]]:
    """The stub, and a model that asks it with these settings."""
    stub = server if isinstance(server, StubServer) else StubServer(server or StubPlan())
    async with stub:
        known = ModelSettings(base_url=stub.url, **(USUAL | settings))
        async with HttpModel(known, load_prompts(), rng=rng, gate=gate) as model:
            yield stub, model
