"""What a configuration is made of, in words: model, prompts, pipeline and rule, each with its version."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from screening.evaluation.guarantee import Binding
from screening.review.rating_form import FORM_VERSION

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
    return plain_words({name: value for name, value in sampler.items() if name not in _PROMPTS}) or "none"


def prompt_version(configuration: Mapping[str, Any]) -> str:
    """The hash of the prompts, or of the simulated agents' lexicon."""
    sampler = configuration.get("sampler", {})
    return str(sampler.get("prompts") or sampler.get("lexicon") or "none")


def pipeline_version(configuration: Mapping[str, Any]) -> str:
    """The pipeline's name, and a hash of all of it, routes included."""
    return f"{configuration.get('pipeline', {}).get('name', 'none')} {_digest(configuration)}"


def rule_words(configuration: Mapping[str, Any]) -> str:
    """Each different rule once, with all its numbers."""
    rules = [node.get("rule", {}) for node in configuration.get("pipeline", {}).get("nodes", ())]
    return "; ".join(dict.fromkeys(plain_words(rule) for rule in rules))


def plain_words(value: object) -> str:
    """A value of a configuration as a person reads it: no brackets, no quotation marks.

    >>> plain_words({"errors": {"safe|unsafe": 0.001}, "budget": 100, "curtail": True, "role": None})
    'budget 100, curtail yes, errors (safe|unsafe 0.001), role none'
    """
    if isinstance(value, Mapping):
        parts = (
            (name, f"({plain_words(one)})" if isinstance(one, Mapping) else plain_words(one))
            for name, one in sorted(value.items())
        )
        return ", ".join(f"{str(name).replace('_', ' ')} {words}" for name, words in parts)
    if isinstance(value, list | tuple):
        return " and ".join(map(plain_words, value)) or "none"
    return {True: "yes", False: "no", None: "none"}[value] if value is None or isinstance(value, bool) else str(value)


def _digest(configuration: Mapping[str, Any]) -> str:
    body = json.dumps(configuration.get("pipeline", {}), sort_keys=True)
    return sha256(body.encode()).hexdigest()[:12]
