"""Run the stub: ``python -m tests.stub_server --port 8099 --latency 0.2 --fault rate_limited=0.05``."""

import argparse
import asyncio
import contextlib
from pathlib import Path

from tests.stub_server.plan import Fault, Gullible, StubPlan, TextRule, read_plan
from tests.stub_server.server import StubServer

DEMO = StubPlan(
    latency_s=0.15,
    jitter_s=0.2,
    weights={"safe": 0.94, "escalate": 0.04, "unsafe": 0.02},
    texts=(
        TextRule(contains="want to die", weights={"unsafe": 0.97, "escalate": 0.03}),
        TextRule(contains="kill myself", weights={"unsafe": 0.97, "escalate": 0.03}),
        TextRule(contains="suicid", weights={"unsafe": 0.9, "escalate": 0.1}),
        TextRule(contains="hurt myself", weights={"unsafe": 0.9, "escalate": 0.1}),
        TextRule(contains="disappear", weights={"unsafe": 0.45, "escalate": 0.45, "safe": 0.1}),
        TextRule(contains="pointless", weights={"unsafe": 0.3, "escalate": 0.6, "safe": 0.1}),
        TextRule(contains="burden", weights={"unsafe": 0.4, "escalate": 0.55, "safe": 0.05}),
    ),
)


def main() -> None:
    """Serve until interrupted."""
    arguments = _arguments()
    plan = read_plan(arguments.plan) if arguments.plan else DEMO
    changes = {
        "seed": arguments.seed,
        "latency_s": arguments.latency,
        "jitter_s": arguments.jitter,
        "gullible": arguments.gullible,
        "faults": dict(arguments.fault) or None,
    }
    plan = plan.model_copy(update={name: value for name, value in changes.items() if value is not None})
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(StubPlan.model_validate(plan.model_dump()), arguments.host, arguments.port))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.stub_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8099, help="0 takes a free one")
    parser.add_argument("--plan", type=Path, help="a JSON file with a plan (see docs/model-layer.md)")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--latency", type=float, metavar="SECONDS")
    parser.add_argument("--jitter", type=float, metavar="SECONDS", help="up to so much more, at random")
    parser.add_argument("--gullible", type=Gullible, choices=list(Gullible))
    parser.add_argument("--fault", type=_fault, action="append", default=[], metavar="KIND=RATE")
    return parser.parse_args()


def _fault(argument: str) -> tuple[Fault, float]:
    kind, _, rate = argument.partition("=")
    return Fault(kind), float(rate)


async def _serve(plan: StubPlan, host: str, port: int) -> None:
    async with StubServer(plan, host=host, port=port) as stub:
        print(f"Stub of the Messages API on {stub.url} (ANTHROPIC_BASE_URL={stub.url})", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
