"""Run the stub: ``python -m tests.stub_server --port 8099 --latency 0.2 --fault rate_limited=0.05``."""

import argparse
import asyncio
import contextlib
from pathlib import Path

from tests.stub_server.plan import Fault, StubPlan
from tests.stub_server.server import StubServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stub_server", description=__doc__)
    parser.add_argument("--port", type=int, default=8099, help="0 takes a free one")
    parser.add_argument(
        "--plan",
        type=Path,
        default=Path(__file__).with_name("demo.json"),
        help="a JSON file with a plan (see docs/model-layer.md)",
    )
    parser.add_argument("--latency", type=float, metavar="SECONDS", dest="latency_s")
    parser.add_argument(
        "--jitter", type=float, metavar="SECONDS", dest="jitter_s", help="up to so much more, at random"
    )
    parser.add_argument("--fault", type=_fault, action="append", metavar="KIND=RATE", dest="faults")
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    port, file = given.pop("port"), given.pop("plan")
    plan = StubPlan.model_validate_json(file.read_text(encoding="utf-8"))
    changes = given | {"faults": dict(given.get("faults", plan.faults))}
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(StubPlan.model_validate(plan.model_dump() | changes), port))


def _fault(argument: str) -> tuple[Fault, float]:
    kind, _, rate = argument.partition("=")
    return Fault(kind), float(rate)


async def _serve(plan: StubPlan, port: int) -> None:
    async with StubServer(plan, port=port) as stub:
        print(f"Stub of the Messages API on {stub.url} (ANTHROPIC_BASE_URL={stub.url})", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
