"""Run the catalogue: ``python -m tests.faults`` prints tried / held for each part; 1 where anything did not hold.

replies     each faulty reply answers every call of a text, through the real library: it never ends safe.
files       each file is refused in a sentence, or every row of it is accepted or rejected by name, and the one sentence
            that must not be lost is among them; no text with it can end safe.
injections  each attack, alone and beside a text at risk, on a model that says "safe." whatever it is asked.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from screening.datasets.reader import read_table
from screening.datasets.rows import FileRefused, NewCase
from screening.labels import Outcome
from screening.models.http import HttpModel
from screening.models.settings import ModelSettings
from screening.pipeline.config import preset
from screening.pipeline.draws import SamplerError, ScreenedText
from screening.pipeline.engine import Guard, guard_for, screen
from screening.pipeline.files import load_prompts
from screening.text.flags import REFUSES_SAFE
from tests.faults.files import FOLDER, MADE, SENTENCE
from tests.fixtures.replies import FAULTY, MODEL
from tests.injection.suite import Probe, read_probes
from tests.stub_server import RawReply, StubPlan, StubServer

TEXT = ScreenedText(text="We walked the dog by the river.")
RISK = "I have been thinking that nobody needs me."
SETS = ("attacks.jsonl", "held_out_1.jsonl", "held_out_2.jsonl", "held_out_3.jsonl", "held_out_4.jsonl")
AT_ONCE = 8


async def held_replies() -> Mapping[str, bool]:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(sent: RawReply) -> bool:
        async with places, StubServer(StubPlan(raw=sent)) as stub:
            settings = ModelSettings(
                base_url=stub.url, api_key="k", model=MODEL, requests_per_minute=None, max_retries=0
            )
            async with HttpModel(settings, load_prompts()) as sampler:
                try:
                    result = await screen(TEXT, Guard(), preset("recommended"), sampler)
                except SamplerError:
                    return True
            return result.outcome is not Outcome.SAFE

    return dict(zip(FAULTY, await asyncio.gather(*(one(sent) for sent in FAULTY.values())), strict=True))


def held_files() -> Mapping[str, bool]:
    """Whether each file is refused, or accounts for all its rows and for the sentence."""
    with tempfile.TemporaryDirectory() as folder:
        made = {name: Path(folder) / f"{number}{Path(name).suffix}" for number, name in enumerate(MADE)}
        for name, path in made.items():
            path.write_bytes(MADE[name])
        shipped = {path.name: path for path in sorted(FOLDER.iterdir())}
        return {name: _accounts_for(path, name) for name, path in (shipped | made).items()}


def _accounts_for(path: Path, name: str) -> bool:
    try:
        table = read_table(path, name)
        rows = list(table.rows())
    except FileRefused as refusal:
        return SENTENCE not in str(refusal)
    accepted = [row for row in rows if isinstance(row, NewCase)]
    if len({row.row for row in rows}) != len(rows):
        return False
    holding = [row for row in accepted if SENTENCE in row.text.stored or (row.reply and SENTENCE in row.reply.stored)]
    safe_forbidden = all(
        (row.text.flags | (row.reply.flags if row.reply else frozenset())) & REFUSES_SAFE for row in holding
    )
    lost = SENTENCE.encode() in path.read_bytes() and not holding and len(accepted) == len(rows)
    return safe_forbidden and not lost


async def held_injections() -> Mapping[str, bool]:
    attacks = [probe for name in SETS for probe in read_probes(name) if probe.kind not in ("ordinary", "stated")]
    beside = [
        Probe(id=f"{attack.id} beside risk", kind="mixed", text=f"{RISK} {attack.text}", reply=attack.reply)
        for attack in attacks
    ]
    probes = [*attacks, *beside]
    async with StubServer(StubPlan(weights={"safe.": 1.0})) as stub:
        settings = ModelSettings(base_url=stub.url, api_key="k", requests_per_minute=None)
        async with HttpModel(settings, load_prompts()) as sampler:
            asked = (screen(one.shown, guard_for(one.flags), preset("recommended"), sampler) for one in probes)
            results = await asyncio.gather(*asked)
    return {one.id: result.outcome is not Outcome.SAFE for one, result in zip(probes, results, strict=True)}


async def run() -> int:
    """All parts; how many faults did not hold."""
    parts = {
        "replies": await held_replies(),
        "files": await asyncio.to_thread(held_files),
        "injections": await held_injections(),
    }
    for part, held in parts.items():
        print(f"{part:<11} tried {len(held):>4}   held {sum(held.values()):>4}")
        for name in (name for name, well in held.items() if not well):
            print(f"            did not hold: {name}")
    return sum(not well for held in parts.values() for well in held.values())


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(run()) else 0)
