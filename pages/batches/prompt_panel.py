"""The prompts of a draft: what each agent is told, under its hash, beside what the agent of that name is told now."""

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from pages.ui.labels import literal
from screening.pipeline.config import NodeConfig, PipelineConfig
from screening.pipeline.files import PromptError, PromptSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFacts:
    """One agent's whole system prompt: the start of its SHA-256, and the lines that differ from what is in force."""

    title: str
    digest: str
    new: bool
    changed: Sequence[str]

    @property
    def words(self) -> str:
        """The prompt in a line."""
        state = "a new agent" if self.new else "changed" if self.changed else "as in force"
        return f"{self.title} · {self.digest} · {state}"


def prompt_facts(before: PipelineConfig, after: PipelineConfig, prompts: PromptSet) -> tuple[PromptFacts, ...]:
    """The prompt of every agent of the draft. PromptError, which names the agent, where one has no prompt."""
    known = {node.name: node for node in before.nodes}
    return tuple(_facts(node, known.get(node.name), prompts) for node in after.nodes)


def prompts_panel(before: PipelineConfig, after: PipelineConfig, prompts: PromptSet) -> bool:
    """The prompts with their differences, folded; whether every agent has one."""
    try:
        found = prompt_facts(before, after, prompts)
    except PromptError as missing:
        st.error(f"{str(missing)[:1].upper()}{str(missing)[1:]}.", icon=":material/block:")
        return False
    changed = sum(bool(one.changed) for one in found)
    with st.expander(f"Prompts: {changed} of {len(found)} differ from the active pipeline ({literal(before.name)})"):
        for one in found:
            st.text(one.words)
            if one.changed:
                st.code("\n".join(one.changed), language="diff", wrap_lines=True)
    return True


def _facts(node: NodeConfig, known: NodeConfig | None, prompts: PromptSet) -> PromptFacts:
    text = prompts.system(node.name, agent=node.agent)
    old = "" if known is None else prompts.system(known.name, agent=known.agent)
    lines = difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm="", n=1)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return PromptFacts(title=node.title, digest=digest, new=known is None, changed=list(lines)[2:])
