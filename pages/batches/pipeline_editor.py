"""A pipeline while it is edited: values that need not be right yet, what is to be said of them, and the inputs of one
agent: who answers, by which rule, and where each label leads.
"""

import difflib
import hashlib
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.labels import literal
from pages.ui.widgets import number_field
from screening.labels import LABELS, OUTCOMES, Label
from screening.pipeline.config import RULES, PipelineConfig, longest, promise
from screening.pipeline.cost import cost_usd, usage_per_call
from screening.pipeline.files import PipelineRefused, PromptSet, check, write_pipeline
from screening.settings import ModelServer
from screening.stopping.certificates import CERTIFICATES, Certificate, CertifiedMixture
from screening.stopping.rules import DEFAULT_CONTRACT, StoppingRule, minimum_budget

Draft = dict[str, Any]
TYPICAL_CHARACTERS = 600
"""Length of the text for which a price is told, when there is no file yet."""
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


def draft_of(pipeline: PipelineConfig) -> Draft:
    return pipeline.model_dump(mode="json")


def node_names(draft: Draft) -> list[str]:
    return [str(node["name"]) for node in draft["nodes"]]


def targets_after(draft: Draft, name: str) -> list[str]:
    """Where a label of this agent may lead: an outcome, or an agent that comes later."""
    names = node_names(draft)
    return [*sorted(OUTCOMES), *names[names.index(name) + 1 :]]


def insert_after(draft: Draft, name: str, new: str, title: str) -> Draft:
    """A new agent after this one: what led from it to a later agent now leads to the new one, which leads on there.

    ValueError for a name that is taken.
    """
    names = node_names(draft)
    if new in names or new in OUTCOMES:
        raise ValueError(f"there is already something called {new!r}")
    changed = deepcopy(draft)
    position = names.index(name)
    before = changed["nodes"][position]
    onward = before["routes"][Label.ESCALATE.value]
    made = {key: value for key, value in deepcopy(before).items() if key in ("rule", "on_abstain")}
    made |= {"name": new, "title": title, "question": "", "instructions": f"# {title}\n\nWhat this agent judges.\n"}
    made["routes"] = {"safe": "safe", "unsafe": "unsafe", "escalate": onward}
    before["routes"] = {label: new if target == onward and target not in OUTCOMES else target
                        for label, target in before["routes"].items()}  # fmt: skip
    before["routes"][Label.ESCALATE.value] = new
    changed["nodes"].insert(position + 1, made)
    return changed


def remove(draft: Draft, name: str) -> Draft:
    changed = deepcopy(draft)
    gone = changed["nodes"].pop(node_names(draft).index(name))
    onward = gone["routes"][Label.ESCALATE.value]
    for node in changed["nodes"]:
        node["routes"] = {label: onward if target == name else target for label, target in node["routes"].items()}
    return changed


def with_node(draft: Draft, name: str, values: Mapping[str, Any]) -> Draft:
    """With these values of one agent; None takes a value out."""
    changed = deepcopy(draft)
    node = changed["nodes"][node_names(draft).index(name)]
    node.update(values)
    for key in [key for key, value in node.items() if value is None]:
        del node[key]
    return changed


def judge_draft(draft: Draft) -> tuple[PipelineConfig | None, str]:
    try:
        return check(draft), ""
    except PipelineRefused as refused:
        return None, str(refused)


def checks(pipeline: PipelineConfig) -> list[tuple[bool, str]]:
    """What is true of every pipeline that may be saved, and what it can and cannot decide; whether each holds."""
    found = [(True, "No loops; every agent can be reached; unsafe can never become safe.")]
    for node in pipeline.nodes:
        fewest, for_safe = minimum_budget(node.rule), minimum_budget(node.rule, Label.SAFE)
        calls = f"{fewest} calls" if for_safe == fewest else f"{fewest} calls, {for_safe} for safe"
        found.append((True, f"{node.title}: a clear answer takes {calls}."))
        found += [(holds, f"{node.title}: {words}.") for holds, words in promises(node.rule)]
    return found


def promises(rule: StoppingRule) -> tuple[tuple[bool, str], ...]:
    """What a rule promises, in words, and whether it can say safe at all within its budget.

    >>> from screening.stopping.rules import PairwiseMixture
    >>> promises(PairwiseMixture(budget=9))[1]
    (False, 'safe can never be said within 9 calls; it takes 11')
    """
    promised = (rule.contract is not None, promise(rule))
    needed = minimum_budget(rule, Label.SAFE)
    never = ((False, f"safe can never be said within {rule.budget} calls; it takes {needed}"),)
    return (promised, *(never if needed > rule.budget else ()))


def price_at_worst(pipeline: PipelineConfig, prompts: PromptSet, model: str) -> float | None:
    """Dollars for a thousand typical texts at list price when every budget is spent, each looked at
    twice; None where no price is known.
    """
    known: dict[str, float] = {}
    for node in pipeline.nodes:
        usage = usage_per_call(prompts, (node,), TYPICAL_CHARACTERS)
        price = None if node.server else cost_usd(node.model or model, usage)
        if price is None:
            return None
        known[node.name] = float(price * 1000 * node.rule.budget)
    return longest(pipeline, known, flagged=True)


def differences(before: PipelineConfig, after: PipelineConfig) -> list[str]:
    """The lines that differ between two pipelines, as a unified difference of their files; empty for none."""
    old, new = write_pipeline(before).splitlines(), write_pipeline(after).splitlines()
    return list(difflib.unified_diff(old, new, before.name, after.name, lineterm="", n=2))[2:]


def prompt_facts(before: PipelineConfig, after: PipelineConfig, prompts: PromptSet) -> list[tuple[str, list[str]]]:
    """The prompt of every agent of the draft in a line, with the start of its SHA-256, and the lines that differ from
    what is in force. PromptError, which names the agent, where one has no prompt.
    """
    known, found = {node.name: node for node in before.nodes}, []
    for node in after.nodes:
        text, was = prompts.system(node.name, agent=node.agent), known.get(node.name)
        old = "" if was is None else prompts.system(was.name, agent=was.agent)
        lines = list(difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm="", n=1))[2:]
        state = "a new agent" if was is None else "changed" if lines else "as in the active one"
        found.append((f"{node.title} · {hashlib.sha256(text.encode()).hexdigest()[:12]} · {state}", lines))
    return found


def edit_node(draft: Draft, prompts: PromptSet, servers: Mapping[str, ModelServer], key: str) -> Draft:
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
    now = node.get("temperature")
    heat = right.text_input("Temperature", "" if now is None else str(now), placeholder="the site's", key=f"{key}_heat")
    named = {one: one for one in (*servers, node.get("server")) if one}  # an unknown one is refused by its name
    server = _choice(left, "Server", {None: "the site's", **named}, node.get("server"), f"{key}_server")
    role = _choice(right, "Demo behavior", {None: "by name", **ROLES}, node.get("role"), f"{key}_role")
    protocol = _choice(st, "API style", {None: "default", **PROTOCOLS}, node.get("protocol"), f"{key}_protocol")
    return {
        "prompt": prompt if prompt not in (OWN, own_name) else None,
        "instructions": instructions,
        "model": model.strip() or None,
        "temperature": heat.strip() or None,
        "server": server,
        "protocol": protocol,
        "role": role,
    }


def _choice(place: Any, label: str, words: Mapping[Any, str], now: object, key: str) -> Any:
    """One of these, in words; the first where ``now`` is none of them."""
    options = list(words)
    return place.selectbox(
        label, options, options.index(now) if now in options else 0, format_func=words.__getitem__, key=key
    )


def _rule(node: Mapping[str, Any], key: str) -> dict[str, Any]:
    rule = dict(node["rule"])
    words = {name: RULE_WORDS.get(name, one.title[:1].upper() + one.title[1:]) for name, one in RULES.items()}
    kind: str = _choice(st, "Rule", words, rule["kind"], f"{key}_rule")
    if kind not in RULE_WORDS and (said := RULES[kind].__doc__):
        st.caption(literal(" ".join(said.split())))
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
        return {"rule": {**kept, "kind": kind, "budget": budget} | _own_fields(kind, kept, key)}
    level = number_field(right, "Any wrong label", 1e-6, 0.5, kept.get("default_error", 0.025), format="%g",
                               key=f"{key}_level")  # fmt: skip
    errors = dict(kept.get("errors", {"safe|unsafe": 0.001}))
    words, now = "Safe, when its most frequent answer is unsafe", errors.get("safe|unsafe", level)
    strict = number_field(left, words, 1e-6, 0.5, now, format="%g", key=f"{key}_strict")
    levels = {"default_error": level, "errors": errors | {"safe|unsafe": strict}}
    return {"rule": {**kept, "kind": kind, "budget": budget, **levels}}


def _own_fields(kind: str, kept: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The settings that a rule of the site's own declares, under the words that it has for them; one that is neither a
    number, a switch nor a word stays as it is.
    """
    filled: dict[str, Any] = {}
    for name, field in RULES[kind].model_json_schema()["properties"].items():
        words, now = field.get("title", name.replace("_", " ")), kept.get(name, field.get("default"))
        options: dict[str, Any] = {"help": field.get("description"), "key": f"{key}_{kind}_{name}"}
        if name in ("kind", "budget", "stop_for_futility"):
            continue
        if field.get("type") == "boolean":
            filled[name] = st.checkbox(words, bool(now), **options)
        elif field.get("type") in ("integer", "number"):
            least, most = (field.get(limit, field.get(f"exclusive{limit.title()}")) for limit in ("minimum", "maximum"))
            filled[name] = st.number_input(
                words, least, most, now, format=None if isinstance(now, int) else "%g", **options
            )
        elif "enum" in field:
            filled[name] = st.selectbox(
                words, field["enum"], field["enum"].index(now) if now in field["enum"] else 0, **options
            )
        elif field.get("type") == "string":
            filled[name] = st.text_input(words, now or "", **options)
    return filled


def _certified_fields(rule: Mapping[str, Any], place: DeltaGenerator, key: str) -> dict[str, Any]:
    certificate = rule.get("certificate", "default")
    held = None if certificate == "default" else Certificate.model_validate(certificate)
    contracts = {"any wrong label 0.05 in all, safe 0.001": DEFAULT_CONTRACT}
    if held is not None and held.contract not in contracts.values():
        contracts[held.contract.words()] = held.contract
    shown = DEFAULT_CONTRACT if held is None else held.contract
    now = next(words for words, contract in contracts.items() if contract == shown)
    chosen = contracts[_choice(st, "Error guarantee", {words: words for words in contracts}, now, f"{key}_contract")]
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
    titles = {str(one["name"]): str(one["title"]) for one in draft["nodes"]} | {"human_review": "a clinician"}
    options, routes = {one: titles.get(one, one) for one in targets_after(draft, node["name"])}, {}
    for column, label in zip(st.columns(3), LABELS, strict=True):
        target = node["routes"][label.value]
        routes[label.value] = _choice(
            column, f"{label.value} →", options, target, f"{key}_to_{label.value}_{len(options)}"
        )
    return {
        "routes": routes,
        "on_abstain": _choice(st, "If undecided", ABSTAINS, node["on_abstain"], f"{key}_abstain"),
    }


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
