"""What a configuration is made of, in words: model, prompts, pipeline and rule, each with its version."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from screening.review.rating_form import FORM_VERSION
from screening.statistics.verification import Binding

_PROMPTS = ("prompts", "lexicon")


def binding_of(configuration: Mapping[str, Any]) -> Binding:
    """What was measured: model, prompts, rule and label definition, from a configuration's body."""
    return Binding(
        model=model_words(configuration),
        prompt_hash=prompt_version(configuration),
        rule=f"{rule_words(configuration)}; pipeline {_digest(configuration)}".removeprefix("; "),
        label_definition=f"rating form {FORM_VERSION}",
    )


def model_words(configuration: Mapping[str, Any]) -> str:
    """The model and its settings.

    >>> model_words({"sampler": {"sampler": "simulated", "seed": 0, "lexicon": "9a1d"}})
    'sampler simulated, seed 0'
    """
    sampler = configuration.get("sampler", {})
    return ", ".join(f"{name} {value}" for name, value in sorted(sampler.items()) if name not in _PROMPTS) or "none"


def prompt_version(configuration: Mapping[str, Any]) -> str:
    """The hash of the prompts, or of what simulated agents read by."""
    sampler = configuration.get("sampler", {})
    return str(sampler.get("prompts") or sampler.get("lexicon") or "none")


def pipeline_version(configuration: Mapping[str, Any]) -> str:
    """The pipeline's name, and a hash of all of it, routes included."""
    return f"{configuration.get('pipeline', {}).get('name', 'none')} {_digest(configuration)}"


def rule_words(configuration: Mapping[str, Any]) -> str:
    """Each different rule once, with all its numbers."""
    rules = [node.get("rule", {}) for node in configuration.get("pipeline", {}).get("nodes", ())]
    return "; ".join(
        dict.fromkeys(", ".join(f"{name} {value}" for name, value in sorted(rule.items())) for rule in rules)
    )


def _digest(configuration: Mapping[str, Any]) -> str:
    body = json.dumps(configuration.get("pipeline", {}), sort_keys=True)
    return sha256(body.encode()).hexdigest()[:12]
