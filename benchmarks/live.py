"""A live tick of the page Screen, for 30 who watch a text while its draws come.

    python -m benchmarks.live [--viewers 30] [--texts 1 30] [--seconds 14] [--database sqlite|postgresql]

The app runs in a process of its own. Each viewer opens the page over a web socket as a browser does, keeps it open with
what the page runs by itself, and asks at the address that the page names what changed, over a connection that stays
open. A tick is timed from asking until its answer is there; its bytes are the answer's with its headers; its processor
time is the app's for everything, from the kernel, divided by the ticks. A draw comes every half second, so that nearly
every tick shows something new. All watch one text, and then each their own.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode

import httpx
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.BidiComponent_pb2 import BidiComponent
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.databases import throwaway_url
from benchmarks.figures import Figure, tell
from benchmarks.processes import app_process, processor_s
from jobs.agents import Agents
from jobs.intake import configuration
from pages.batches.single_text import Typed, hand_in
from screening.engine.pipeline import preset
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.live import update_live
from storage.database import Database

AIM_CPU_MS, AIM_P95_MS, AIM_BYTES = 5.0, 250.0, 3_000
EVERY_S = 0.5
TICK = "tick"
LIVE = "second-look-browser.live"
KEPT_FOR = 2
"""Runs after which a browser forgets a part that did not come again: Streamlit's `maxCachedMessageAge`."""
DRAWS = {"worker": "EEEEE", "risk": "EEEEE", "legal": "SE" * 40}
TEXT = "Everyone would be better off without me."


@dataclass(slots=True)
class Viewer:
    """One open page: its connections, the fragments it runs again, what it keeps, and what it has of the live view."""

    socket: ClientConnection
    http: httpx.AsyncClient
    query: str
    address: str = ""
    have: str = ""
    page_hash: str = ""
    again: dict[str, float] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    bytes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    unchanged: int = 0

    async def open(self) -> None:
        """The first run of the page."""
        await self._ask("")

    async def watch(self, until: float, offset: float) -> None:
        """Ask what changed at the page's interval, and run the fragments at theirs."""
        assert self.address, "the page names no address to ask at"
        due = {
            fragment: time.monotonic() + offset + every for fragment, every in (self.again | {TICK: EVERY_S}).items()
        }
        while (now := time.monotonic()) < until:
            fragment = min(due, key=due.__getitem__)
            if due[fragment] > now:
                await asyncio.sleep(due[fragment] - now)
            if fragment == TICK:
                await self._tick()
            else:
                await self._ask(fragment)
            due[fragment] = max(time.monotonic(), due[fragment] + (self.again | {TICK: EVERY_S})[fragment])

    async def _tick(self) -> None:
        """One question, and its figures."""
        began = time.monotonic()
        async with self.http.stream("GET", self.address, params={"have": self.have}) as answer:
            told = await answer.aread()
            sent = answer.num_bytes_downloaded + sum(len(name) + len(value) + 4 for name, value in answer.headers.raw)
        self.seconds.append(time.monotonic() - began)
        self.bytes.append(sent)
        self.unchanged += answer.status_code == 204
        answer.raise_for_status()
        if told:
            self.have = json.loads(told)["have"]

    async def _ask(self, fragment: str) -> int:
        """Ask for a run and take what comes until it has ended; the bytes received."""
        asked = BackMsg()
        state = asked.rerun_script
        state.query_string, state.page_script_hash = self.query, self.page_hash
        state.page_name = "" if self.page_hash else "screen"
        state.fragment_id, state.is_auto_rerun = fragment, bool(fragment)
        state.cached_message_hashes.extend(self.kept)
        await self.socket.send(asked.SerializeToString())
        received = 0
        async for size, message in self._messages():
            received += size
            self._note(message)
            if message.WhichOneof("type") == "script_finished":
                break
        self.kept = {name: age + 1 for name, age in self.kept.items() if age < KEPT_FOR}
        return received

    async def _messages(self) -> AsyncIterator[tuple[int, ForwardMsg]]:
        async for raw in self.socket:
            assert isinstance(raw, bytes)
            yield len(raw), ForwardMsg.FromString(raw)

    def _note(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.page_hash = message.new_session.page_script_hash
        elif kind == "auto_rerun":
            self.again[message.auto_rerun.fragment_id] = message.auto_rerun.interval
        elif kind == "ref_hash":
            assert message.ref_hash in self.kept, "the app names a part that this browser does not have"
            self.kept[message.ref_hash] = 0
        elif message.metadata.cacheable:
            self.kept[message.hash] = 0
        if kind == "delta" and message.delta.new_element.WhichOneof("type") == "bidi_component":
            self._take_address(message.delta.new_element.bidi_component)

    def _take_address(self, component: BidiComponent) -> None:
        if component.component_name == LIVE:
            (given,) = json.loads(component.json)
            self.address, self.have = given["address"], given["have"]


def draw_on(url: str, case_ids: Sequence[str], seconds: float) -> None:
    """A worker's part, in a process of its own: each text has a draw more every half second, not all at one moment;
    its last agent begins anew when it has had all. As a worker does, it writes what the agent at work has.
    """
    db, began = Database(url), time.monotonic()
    steps = [(node, codes[: count + 1]) for node, codes in DRAWS.items() for count in range(len(codes))]
    for number in range(int(seconds / EVERY_S) * len(case_ids)):
        wave, place = divmod(number, len(case_ids))
        time.sleep(max(0.0, began + number * EVERY_S / len(case_ids) - time.monotonic()))
        node, codes = steps[wave % len(steps)]
        update_live(db, case_ids[place], node, "main", codes, datetime.now(UTC))
    db.close()


async def ask_health(origin: str, until: float) -> list[float]:
    """Seconds of the server's answer to a question that asks for nothing: what the machine's load alone takes."""
    seconds = []
    async with httpx.AsyncClient(base_url=origin, trust_env=False) as http:
        while time.monotonic() < until:
            began = time.monotonic()
            await http.get("/_stcore/health")
            seconds.append(time.monotonic() - began)
            await asyncio.sleep(0.1)
    return seconds


def hand_in_text(db: Database) -> str:
    """A text that waits for its draws."""
    settings = Settings(_env_file=None, sampler="simulated")
    kept = configuration(settings, Agents(settings), preset("certified"))
    return hand_in(db, LOCAL_USER.at(datetime.now(UTC)), Typed(text=TEXT), kept, settings)


async def measure(
    url: str, case_ids: Sequence[str], origin: str, process: int, viewers: int, seconds: float
) -> tuple[list[Viewer], float, list[float]]:
    """The viewers after so many seconds, the app's processor time a tick, and the answers to nothing, in seconds."""
    opened = list[Viewer]()
    for number in range(viewers):
        socket = await connect(
            f"{origin.replace('http', 'ws')}/_stcore/stream", origin=origin, subprotocols=["streamlit"], max_size=None
        )
        http = httpx.AsyncClient(base_url=origin, trust_env=False)
        opened.append(Viewer(socket=socket, http=http, query=urlencode({"case": case_ids[number % len(case_ids)]})))
        await opened[-1].open()
    drawing = multiprocessing.get_context("spawn").Process(target=draw_on, args=(url, case_ids, 2 * seconds))
    drawing.start()
    await asyncio.sleep(seconds / 2)  # it is imported by then
    until = time.monotonic() + seconds
    before = processor_s(process)
    watching = (each.watch(until, EVERY_S * number / viewers) for number, each in enumerate(opened))
    idle, *_ = await asyncio.gather(ask_health(origin, until), *watching)
    used = processor_s(process) - before
    drawing.terminate()
    for each in opened:
        await each.socket.close()
        await each.http.aclose()
    return opened, used / sum(len(each.seconds) for each in opened), idle


def main() -> None:
    """Print a line for each figure, with its aim."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--viewers", type=int, default=30)
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 30])
    parser.add_argument("--seconds", type=float, default=14.0)
    parser.add_argument("--database", default="sqlite")
    given = parser.parse_args()
    for texts in given.texts:
        with throwaway_url(given.database) as url, tempfile.TemporaryDirectory() as folder:
            db = Database(url)
            db.prepare()
            with app_process(url, SECOND_LOOK_DATA_DIRECTORY=folder) as (origin, process):
                case_ids = [hand_in_text(db) for _ in range(texts)]
                db.close()
                found, used, idle = asyncio.run(measure(url, case_ids, origin, process, given.viewers, given.seconds))
        _report(found, used, idle, texts)


def _report(found: list[Viewer], used: float, idle: list[float], texts: int) -> None:
    seconds = [1000 * each for viewer in found for each in viewer.seconds]
    sizes = [each for viewer in found for each in viewer.bytes]
    p95 = statistics.quantiles(seconds, n=20)[-1]
    unchanged = sum(each.unchanged for each in found)
    who = f"{len(found)} viewers of {texts} {'text' if texts == 1 else 'texts'}"
    ticks = f"{len(seconds)} ticks, {unchanged} without news"
    tell(Figure(name=f"{who}: processor time a tick", value=1000 * used, unit="ms", aim=AIM_CPU_MS, note=ticks))
    alone = 1000 * statistics.quantiles(idle, n=20)[-1]
    p50 = f"p50 {statistics.median(seconds):.0f} ms; a question for nothing meanwhile, p95 {alone:.0f} ms"
    tell(Figure(name=f"{who}: from asking to the answer, p95", value=p95, unit="ms", aim=AIM_P95_MS, note=p50))
    at_most = f"at most {max(sizes):,}"
    mean = statistics.mean(sizes)
    tell(Figure(name=f"{who}: received a tick", value=mean, unit="bytes", aim=AIM_BYTES, note=at_most))


if __name__ == "__main__":
    main()
