"""The editor of one agent of a draft: who answers, by which rule, and where each label leads."""

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.batches.pipeline_draft import Draft, insert_after, node_names, remove, targets_after, with_node
from pages.ui.labels import literal
from pages.ui.widgets import number_field
from screening.labels import LABELS
from screening.pipeline.config import RULES
from screening.pipeline.files import PromptSet
from screening.settings import ModelServer
from screening.stopping.certificates import CERTIFICATES, Certificate, CertifiedMixture
from screening.stopping.rules import DEFAULT_CONTRACT

RULE_WORDS = {
    "certified-mixture": "Certified (recommended)",
    "pairwise-mixture": "Pairwise, Ville's bound",
    "successive-elimination": "Paper: Algorithm 1",
    "majority-vote": "Majority vote (no error bound)",
}
ROLES = {"worker": "Worker", "risk": "Risk", "legal": "Legal"}
ABSTAINS = {"human_review": "escalate to a clinician", "next": "goes where escalate goes"}
PROTOCOLS = {
    "messages": "Messages API",
    "chat": "chat completions",
    "logprobs": "chat completions, probabilities read off",
}
OWN = "its own, written here"
CONTRACTS = {
    "any wrong label 0.05 in all, safe 0.001": DEFAULT_CONTRACT,
}


def edit_node(draft: Draft, prompts: PromptSet, servers: Mapping[str, ModelServer], key: str) -> Draft:
    """The inputs of the agent that is chosen; the draft with what they say now."""
    names = node_names(draft)
    titles = {str(node["name"]): literal(str(node["title"])) for node in draft["nodes"]}
    name = st.segmented_control(
        "Agent", names, default=names[0], format_func=titles.__getitem__, key=f"{key}_node", required=True
    )
    if name not in names:
        name = names[0]
    node = draft["nodes"][names.index(name)]
    changed = with_node(draft, name, _values(node, draft, prompts, servers, f"{key}_{name}"))
    return _rearrange(changed, name, key)


def _values(
    node: Mapping[str, Any], draft: Draft, prompts: PromptSet, servers: Mapping[str, ModelServer], key: str
) -> dict[str, Any]:
    title = st.text_input("Title", node["title"], max_chars=60, key=f"{key}_title")
    question = st.text_input("Question, as people read it", node["question"], max_chars=300, key=f"{key}_question")
    values = {"title": title, "question": question}
    return values | _agent(node, prompts, servers, key) | _rule(node, key) | _routes(node, draft, key)


def _agent(node: Mapping[str, Any], prompts: PromptSet, servers: Mapping[str, ModelServer], key: str) -> dict[str, Any]:
    own_name = node["name"] if node["name"] in prompts.nodes else None
    named = node["prompt"] if node.get("prompt") in prompts.nodes else own_name
    shown = OWN if node.get("instructions") or named is None else named
    options = [*prompts.nodes, OWN]
    prompt = st.selectbox("Prompt", options, index=options.index(shown), key=f"{key}_prompt")
    instructions = None
    if prompt == OWN:
        written = node.get("instructions") or (prompts.files[named] if named else "# \n")
        instructions = st.text_area("Instructions", written, height=220, key=f"{key}_instructions") or " "
    left, right = st.columns(2)
    model = left.text_input("Model", node.get("model") or "", placeholder="the site's", key=f"{key}_model")
    heat = right.text_input(
        "Temperature", _as_text(node.get("temperature")), placeholder="the site's", key=f"{key}_heat"
    )
    named = list(dict.fromkeys([None, *servers, node.get("server")]))  # an unknown server is refused by name
    server = left.selectbox(
        "Server", named, format_func=lambda one: one or "the site's", key=f"{key}_server",
        index=named.index(node.get("server")),
    )  # fmt: skip
    role = right.selectbox(
        "Demo behavior", [None, *ROLES], format_func=lambda one: ROLES.get(one, "by name"),
        index=[None, *ROLES].index(node.get("role")), key=f"{key}_role",
    )  # fmt: skip
    protocol = st.selectbox(
        "API style", [None, *PROTOCOLS],
        format_func=lambda one: PROTOCOLS.get(one, "default"),
        index=[None, *PROTOCOLS].index(node.get("protocol")), key=f"{key}_protocol",
    )  # fmt: skip
    return {
        "prompt": prompt if prompt not in (OWN, own_name) else None,
        "instructions": instructions,
        "model": model.strip() or None,
        "temperature": heat.strip() or None,
        "server": server,
        "protocol": protocol,
        "role": role,
    }


def _as_text(value: object) -> str:
    return "" if value is None else str(value)


def _rule(node: Mapping[str, Any], key: str) -> dict[str, Any]:
    rule = dict(node["rule"])
    kinds = list(RULES)
    kind: str = st.selectbox("Rule", kinds, index=kinds.index(rule["kind"]), key=f"{key}_rule",
                        format_func=lambda kind: RULE_WORDS.get(kind, kind))  # fmt: skip
    left, _ = st.columns(2)
    if kind == "majority-vote":
        votes = left.number_input("Draws", 1, 1_000, rule.get("n", 3), key=f"{key}_n")
        return {"rule": {"kind": kind, "n": votes}}
    kept = rule if kind == rule["kind"] else {}
    if kind == "certified-mixture":
        return _certified_fields(kept, left, key)
    return _uncertified_fields(kind, rule, kept, key)


def _uncertified_fields(kind: str, rule: Mapping[str, Any], kept: Mapping[str, Any], key: str) -> dict[str, Any]:
    left, right = st.columns(2)
    budget = left.number_input("Calls at most", 1, 100_000, rule.get("budget", 100), key=f"{key}_budget")
    if kind == "successive-elimination":
        delta = number_field(right, "δ", 1e-6, 0.5, kept.get("delta", 0.05), format="%g", key=f"{key}_delta")
        return {"rule": {**kept, "kind": kind, "budget": budget, "delta": delta}}
    if kind != "pairwise-mixture":
        return {"rule": {**kept, "kind": kind, "budget": budget}}
    level = number_field(right, "Any wrong label", 1e-6, 0.5, kept.get("default_error", 0.025), format="%g",
                               key=f"{key}_level")  # fmt: skip
    errors = dict(kept.get("errors", {"safe|unsafe": 0.001}))
    words, now = "Safe, when its mode is unsafe", errors.get("safe|unsafe", level)
    strict = number_field(left, words, 1e-6, 0.5, now, format="%g", key=f"{key}_strict")
    levels = {"default_error": level, "errors": errors | {"safe|unsafe": strict}}
    return {"rule": {**kept, "kind": kind, "budget": budget, **levels}}


def _certified_fields(rule: Mapping[str, Any], place: DeltaGenerator, key: str) -> dict[str, Any]:
    certificate = rule.get("certificate", "default")
    held = None if certificate == "default" else Certificate.model_validate(certificate)
    contracts = dict(CONTRACTS)
    if held is not None and held.contract not in contracts.values():
        contracts[held.contract.words()] = held.contract
    shown = DEFAULT_CONTRACT if held is None else held.contract
    chosen = contracts[
        st.selectbox(
            "Error guarantee", list(contracts), index=list(contracts.values()).index(shown), key=f"{key}_contract"
        )
    ]
    most = max(
        [each.budget for each in CERTIFICATES if each.contract == chosen]
        + ([held.budget] if held and held.contract == chosen else [])
    )
    budget = place.number_input(
        "Calls at most", 1, most, min(most, rule.get("budget", 100)), key=f"{key}_certified_budget"
    )
    kept = held is not None and held.contract == chosen and budget <= held.budget
    made = CertifiedMixture.for_contract(chosen, budget)
    record = certificate if kept or made is None else made.certificate.model_dump(mode="json")
    values = {"kind": "certified-mixture", "budget": budget, "certificate": record}
    return {"rule": {**rule, **CertifiedMixture.model_validate(values).model_dump(mode="json")}}


def _routes(node: Mapping[str, Any], draft: Draft, key: str) -> dict[str, Any]:
    options = targets_after(draft, node["name"])
    titles = {str(one["name"]): str(one["title"]) for one in draft["nodes"]} | {"human_review": "a clinician"}
    routes = {}
    for column, label in zip(st.columns(3), LABELS, strict=True):
        target = node["routes"][label.value]
        routes[label.value] = column.selectbox(
            f"{label.value} →", options, index=options.index(target) if target in options else 0,
            format_func=lambda one: titles.get(one, one), key=f"{key}_to_{label.value}_{len(options)}",
        )  # fmt: skip
    abstains = st.selectbox("If undecided", list(ABSTAINS), format_func=ABSTAINS.__getitem__,
                            index=list(ABSTAINS).index(node["on_abstain"]), key=f"{key}_abstain")  # fmt: skip
    return {"routes": routes, "on_abstain": abstains}


def _rearrange(draft: Draft, name: str, key: str) -> Draft:
    """The draft after "add" or "remove" was pressed; else as it is."""
    st.divider()
    title = st.text_input("Add agent after this one", placeholder="Cultural context", max_chars=30, key=f"{key}_new")
    with st.container(horizontal=True):
        add = st.button("Add agent", icon=":material/add:", key=f"{key}_add", disabled=not title.strip())
        out = st.button(
            "Remove this agent", icon=":material/delete:", key=f"{key}_remove", disabled=len(draft["nodes"]) < 2
        )
    if out:
        return remove(draft, name)
    if add:
        try:
            return insert_after(draft, name, name_of(title), title.strip())
        except ValueError as taken:
            st.error(f"{str(taken).capitalize()}.")
    return draft


def name_of(title: str) -> str:
    """A title as a name: small letters and underscores.

    >>> name_of("Cultural context, 2"), name_of("Ärzte")
    ('cultural_context_2', 'rzte')
    """
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in title.strip().lower())
    return "_".join(part for part in kept.split("_") if part)[:31] or "agent"
