"""What comes in files: a pipeline as a TOML text, which a site writes, keeps and exchanges; the prompts, with what a
call of them takes; and every kind of error of a case and reason of a stop.
"""

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w
from pydantic import ValidationError

from screening.pipeline.config import (
    NodeConfig,
    PipelineConfig,
    UndecidableError,
    chain_bound,
    promises,
    require_decidable,
)
from screening.pipeline.draws import NodeAgent, Usage

PIPELINES = Path(__file__).parents[2] / "pipelines"
MOST_CHARACTERS = 1_000_000


class PipelineRefused(ValueError):
    """One sentence that names the node and the field."""


def read_pipeline(text: str) -> PipelineConfig:
    """The pipeline that a TOML text describes. Raises PipelineRefused.

    >>> read_pipeline("nodes: [worker]")
    Traceback (most recent call last):
    screening.pipeline.files.PipelineRefused: not TOML: Expected '=' after a key ... (at line 1, column 6)
    """
    if len(text) > MOST_CHARACTERS:
        raise PipelineRefused(f"the file has {len(text):,} characters; a pipeline has at most {MOST_CHARACTERS:,}")
    try:
        given = tomllib.loads(text.removeprefix("\ufeff"))  # the mark that some editors write at the start
    except tomllib.TOMLDecodeError as problem:
        raise PipelineRefused(f"not TOML: {problem}") from None
    return check(given)


def check(given: Mapping[str, Any]) -> PipelineConfig:
    """The pipeline in these values: acyclic, safe and decidable. Raises PipelineRefused."""
    values = dict(given)
    if "node" in values:  # in TOML a node is written [[node]]
        values["nodes"] = values.pop("node")
    try:
        return require_decidable(PipelineConfig.model_validate(values))
    except ValidationError as problem:
        raise PipelineRefused(_sentence(values, problem)) from None
    except UndecidableError as problem:
        raise PipelineRefused(str(problem)) from None


def write_pipeline(pipeline: PipelineConfig) -> str:
    """As TOML, headed by the bound for the whole pipeline and the contracts; `read_pipeline` gives the same back."""
    values, bound = pipeline.model_dump(mode="json"), chain_bound(pipeline)
    said = "no bound: an agent has none" if bound is None else f"at most {bound:g}"
    head = f"# Naming, anywhere on the longest path, a label that is not the agent's mode: {said}.\n"
    head += f"# At each agent: {promises(pipeline)}\n"
    written = {"name": values["name"], "node": values["nodes"]}
    # TOML reads every end of a line within such a string as "\n"
    return head + tomli_w.dumps(written, multiline_strings=r"\r" not in json.dumps(written))


@cache
def shipped_pipelines() -> Mapping[str, PipelineConfig]:
    """The pipelines that come with the program, by name.

    >>> sorted(shipped_pipelines())
    ['certified', 'four_agents', 'paper', 'recommended']
    """
    return {path.stem: read_pipeline(path.read_text(encoding="utf-8")) for path in sorted(PIPELINES.glob("*.toml"))}


def _sentence(values: Mapping[str, Any], problem: ValidationError) -> str:
    first = problem.errors(include_url=False, include_input=False)[0]
    words = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "too_long" and first["loc"] == ("nodes",):
        words = "a pipeline has at most {max_length} nodes, and this one {actual_length:,}".format(**first["ctx"])
    place = _place(values, first["loc"])
    return f"{place}: {words}" if place and not words.startswith(f"{place}:") else words


def _place(values: Mapping[str, Any], location: Sequence[int | str]) -> str:
    """The node's name and the field, in the words of the file."""
    position = location[1] if len(location) > 1 else None
    if not isinstance(position, int):  # only nodes are counted
        return ".".join(str(part) for part in location)
    node = f"node {_name(values, position)}"
    field = ".".join(str(part) for part in location[2:] if "-" not in str(part))  # a rule's kind is no field
    return f"{node}, {field}" if field else node


def _name(values: Mapping[str, Any], position: int) -> str:
    nodes = values["nodes"]
    name = nodes[position].get("name") if isinstance(nodes[position], Mapping) else None
    return name if isinstance(name, str) and len(name) < 40 else f"number {position + 1}"


PROMPTS = Path(__file__).parent.parent / "prompts"
CRITERIA, POLICY, SECOND_LOOK = "criteria", "policy", "second_look"
_PARTS = frozenset({CRITERIA, POLICY, SECOND_LOOK})
_CHARACTERS_PER_TOKEN = 4.5


class PromptError(ValueError):
    """The message names the file and the way out."""


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompt files by name (without ``.md``): one per node, and the parts that nodes share."""

    files: Mapping[str, str]

    @property
    def version(self) -> str:
        """SHA-256 over all names and contents, as 64 hex digits."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            digest.update(f"{name}\0{len(content.encode())}\0{content}".encode())
        return digest.hexdigest()

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(sorted(self.files.keys() - _PARTS))

    def system(self, node: str, variant: str = "main", agent: NodeAgent | None = None) -> str:
        """The fixed part of a node's system prompt: the agent's own instructions, else the file it or the node names.
        PromptError where there is no such file, or no such variant.
        """
        if variant == SECOND_LOOK:
            return f"{self.files[SECOND_LOOK]}\n\n{self.files[CRITERIA]}"
        if variant != "main":
            raise PromptError(f"there is no prompt variant {variant!r}")
        return "\n\n".join((self._first(node, agent), self.files[CRITERIA], self.files[POLICY]))

    def _first(self, node: str, agent: NodeAgent | None) -> str:
        if agent is not None and agent.instructions is not None:
            return agent.instructions
        name = (agent and agent.prompt) or node
        if name not in self.nodes:
            raise PromptError(f"node {node!r} has no prompt: add {name}.md to the prompt directory")
        return self.files[name]


def load_prompts(directory: Path | None = None) -> PromptSet:
    """The shipped prompts, each replaced by the file of the same name in ``directory``, where further ``.md`` files are
    prompts of further nodes. Outer blank lines do not count towards the version.

    >>> load_prompts().nodes
    ('legal', 'risk', 'worker')
    """
    if directory is not None and not directory.is_dir():
        raise PromptError(f"the prompt directory {directory.name!r} does not exist")
    folders = [PROMPTS] if directory is None else [PROMPTS, directory]
    return PromptSet({path.stem: _content(path) for folder in folders for path in sorted(folder.glob("*.md"))})


def _content(path: Path) -> str:
    try:
        content = path.read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError:
        raise PromptError(f"{path.name} is not UTF-8 text") from None
    if not content:
        raise PromptError(f"{path.name} is empty")
    return content


def estimated_tokens(text: str) -> int:
    """A cautious estimate of what English prose costs; no tokeniser is consulted.

    >>> estimated_tokens("x" * 450)
    100
    """
    return int(len(text) / _CHARACTERS_PER_TOKEN)


_FRAME_TOKENS = 120  # nonce, tags and JSON around a text
_ANSWER_TOKENS = 10  # one word, and never more than is asked for
_TEXT_CHARACTERS_PER_TOKEN = 3  # chat, names and emoji take more tokens than prose


def usage_per_call(prompts: PromptSet, nodes: Sequence[NodeConfig], characters: float) -> Usage:
    """About what one call costs for a text of so many characters, over these nodes on average; without caching, so it
    errs on the dear side. Once there are calls, their mean is the better guide.
    """
    fixed = sum(estimated_tokens(prompts.system(node.name, agent=node.agent)) for node in nodes) / len(nodes)
    frame_and_text = _FRAME_TOKENS + math.ceil(characters / _TEXT_CHARACTERS_PER_TOKEN)
    return Usage(input_tokens=math.ceil(fixed) + frame_and_text, output_tokens=_ANSWER_TOKENS)


class Whose(StrEnum):
    MODEL = "model"
    TEXT = "text"
    SITE = "site"


class ErrorKind(NamedTuple):
    whose: Whose
    words: str
    passes: bool = False
    mend: str = ""


NO_LABEL = "no_usable_answer"
_TABLE = tomllib.loads(Path(__file__).with_name("errors.toml").read_text(encoding="utf-8"))
ERROR_KINDS: Mapping[str, ErrorKind] = {
    kind: ErrorKind(whose, told["words"], told.get("passes", False), _TABLE["mends"].get(told.get("mend"), ""))
    for whose in Whose
    for kind, told in _TABLE[whose].items()
}
NOT_THE_MODEL = sorted(kind for kind, known in ERROR_KINDS.items() if known.whose is not Whose.MODEL)


def error_kind(kind: str) -> ErrorKind:
    """What is known of this kind. One that is not listed is the model's, comes again, and is told as it is called.

    >>> error_kind("node_melted")
    ErrorKind(whose=<Whose.MODEL: 'model'>, words='node melted', passes=False, mend='')
    """
    return ERROR_KINDS.get(kind) or ErrorKind(Whose.MODEL, kind.replace("_", " "))
