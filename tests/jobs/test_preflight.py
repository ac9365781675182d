"""A worker asks its model once when it starts, and its log says whether that works."""

from collections.abc import Callable

import pytest

from tests.jobs.processes import NotingStub, Workers, wait_for
from tests.jobs.running import agents
from tests.stub_server import StubPlan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (StubPlan(), b"INFO preflight: claude-sonnet-4-6 answered with the label"),
        (StubPlan(api_key="another"), b"ERROR preflight: The service did not accept the API key"),
    ],
)
def test_the_log_says_at_start_whether_the_model_answers(
    sqlite_url: str, workers: Workers, stub: Callable[[StubPlan], NotingStub], plan: StubPlan, said: bytes
) -> None:
    service = stub(plan)
    number = workers.start(sqlite_url, {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"})
    workers.up(number)
    wait_for(lambda: said in workers.log(1).read_bytes(), 30)
    assert service.counters.requests == 1 and not workers.dead(number)


async def test_simulated_agents_are_not_asked() -> None:
    assert await agents().preflight() is None
