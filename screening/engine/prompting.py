"""The prompts as versioned files: which system text a node gets, and the hash that identifies the whole set."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from screening.engine.draws import NodeAgent

SHIPPED = Path(__file__).parent.parent / "prompts"
CRITERIA, POLICY, SECOND_LOOK = "criteria", "policy", "second_look"
_PARTS = frozenset({CRITERIA, POLICY, SECOND_LOOK})
_CHARACTERS_PER_TOKEN = 4.5


class PromptError(ValueError):
    """A prompt file that cannot be used; the message names the file and the way out."""


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompt files by name (without ``.md``): one per node, and the parts that nodes share."""

    files: Mapping[str, str]

    @property
    def version(self) -> str:
        """SHA-256 over all names and contents, as 64 hex digits: any edit to any file is another version."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            digest.update(f"{name}\0{len(content.encode())}\0{content}".encode())
        return digest.hexdigest()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that have a prompt."""
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
    """The shipped prompts, each replaced by the file of the same name in ``directory`` where there is one.

    Further ``.md`` files in ``directory`` are prompts of further nodes. Line ends and outer blank lines do
    not count towards the version. PromptError for a missing directory, an empty file or one not in UTF-8.

    >>> load_prompts().nodes
    ('legal', 'risk', 'worker')
    """
    files = _read(SHIPPED)
    if directory is not None:
        if not directory.is_dir():
            raise PromptError(f"the prompt directory {directory.name!r} does not exist")
        files |= _read(directory)
    return PromptSet(files)


def _read(directory: Path) -> dict[str, str]:
    return {path.stem: _content(path) for path in sorted(directory.glob("*.md"))}


def _content(path: Path) -> str:
    try:
        content = path.read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError:
        raise PromptError(f"{path.name} is not UTF-8 text") from None
    if not content:
        raise PromptError(f"{path.name} is empty")
    return content


def estimated_tokens(text: str) -> int:
    """A cautious estimate (4.5 characters a token) of what English prose costs; no tokeniser is consulted.

    >>> estimated_tokens("x" * 450)
    100
    """
    return int(len(text) / _CHARACTERS_PER_TOKEN)
