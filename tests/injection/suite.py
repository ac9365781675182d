"""Reading the published attacks and the texts the detector was not tuned on."""

import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A text and what it is: a kind of attack, ``attack`` or ``ordinary``."""

    id: str
    kind: str
    text: str


def read_probes(name: str) -> tuple[Probe, ...]:
    """The probes in a file of this folder, in its order."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return tuple(Probe(**json.loads(line)) for line in lines)
