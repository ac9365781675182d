"""What screens a text now: agents, rule, limits and what their settings mean on the wire; and one call to try it."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from jobs.agents import model_settings
from screening.models.http import preflight
from screening.models.settings import dialect
from screening.models.wire import cache_notes
from screening.pipeline.config import PipelineConfig, promise
from screening.pipeline.draws import Preflight
from screening.pipeline.files import load_prompts
from screening.settings import Settings
from screening.words import count_of
from storage.batches.configurations import Configuration

PATIENCE_S = 20.0
"""Longest wait for the one call of the check: somebody is looking at the page."""
MASKED = (
    "mail addresses, phone numbers, links, handles and long numbers are masked in what the model is shown; "
    "names, places, dates and what only the context tells are not found"
)
_SENT = {
    "sampler": "Agents",
    "model": "Model",
    "temperature": "Temperature",
    "api_version": "API version header",
    "max_output_tokens": "Most output tokens",
    "thinking": "Thinking",
    "prompts": "Prompts (hash)",
    "host": "Server",
    "path": "Path of its address (hash)",
    "own_server": "Not Anthropic's server",
    "top_p": "top_p, as sent",
    "top_k": "top_k, as sent",
    "min_p": "min_p, as sent",
    "seed": "Seed",
    "lexicon": "Lexicon (hash)",
    "servers": "Further servers",
}


def facts(configuration: Configuration, settings: Settings) -> list[tuple[str, str]]:
    """The configuration as pairs of name and value, in the order of the table."""
    sent = [
        (_SENT.get(name, name.replace("_", " ")), _value(name, value)) for name, value in configuration.sampler.items()
    ]
    return [
        ("Configuration (hash)", configuration.version),
        *sent,
        ("Pipeline", f"{configuration.pipeline.name}: {_chain(configuration.pipeline)}"),
        ("Stopping rule", _rule(configuration.pipeline)),
        ("Calls per minute, at most", f"{settings.requests_per_minute:,} in all"),
        ("Calls in flight, at most", f"{settings.concurrency:,} in all"),
        ("Longest wait", f"{settings.call_timeout_s:g} s for an answer, {settings.node_deadline_s:g} s for a wave"),
        ("In-flight requests", _under_way(settings)),
        ("Longest text", f"{settings.max_text_characters:,} characters"),
        ("“Safe” allowed only for", ", ".join(settings.languages)),
        ("Masking", MASKED if settings.mask_before_sending else "off: the model is shown the texts as they are"),
        ("Audit sample", f"{settings.audit_rate:.0%} of AI decisions are reviewed by clinicians, unmarked"),
    ]


def _under_way(settings: Settings) -> str:
    if settings.simulated or not model_settings(settings).breaks_off:
        return "always completed (they are billed)"
    return "stopped once their answers no longer matter: the server bills nothing"


def _value(name: str, value: object) -> str:
    if value is None:
        return "the model's own (T = 1); none is sent" if name == "temperature" else "not sent"
    if isinstance(value, Mapping):
        return "; ".join(f"{server}: {told['host']} ({told['protocol']})" for server, told in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _chain(pipeline: PipelineConfig) -> str:
    return " → ".join(node.title for node in pipeline.nodes)


def _rule(pipeline: PipelineConfig) -> str:
    """What each different rule promises, and the most calls that it makes."""
    rules = [node.rule for node in pipeline.nodes]
    return " | ".join(dict.fromkeys(f"{promise(rule)}; {count_of(rule.budget, 'call')} at most" for rule in rules))


def notes(settings: Settings) -> tuple[str, ...]:
    """What these settings mean on the wire, prompt caching included; empty with simulated agents."""
    if settings.simulated:
        return ()
    asked, prompts = model_settings(settings), load_prompts(settings.prompts_directory)
    caching = cache_notes(asked, prompts)
    told = () if caching or asked.elsewhere else ("Prompt caching is asked for: every prompt is long enough.",)
    return dialect(asked).notes + caching + told


def try_settings(settings: Settings) -> Preflight:
    """One call with a harmless text under the present settings (a second one where a temperature was refused)."""
    asked = model_settings(settings)
    patient = replace(
        asked,
        max_retries=1,
        call_timeout_s=min(asked.call_timeout_s, PATIENCE_S),
        node_deadline_s=min(asked.node_deadline_s, PATIENCE_S),
    )
    return asyncio.run(preflight(patient, load_prompts(settings.prompts_directory)))
