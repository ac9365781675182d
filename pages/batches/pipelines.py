"""A pipeline on a page: chosen by preset, δ and budget, refused where it could never decide; and edited, by values that
need not be right yet and the inputs of one agent: who answers, by which rule, and where each label leads.
"""

import difflib
import hashlib
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, get_args

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from jobs.agents import reads_off
from pages.ui import context
from pages.ui.widgets import known_models_or_refuse, number_field, select
from pages.ui.words import DELTA_MEANING, PROBABILITIES_MEANING, WORDS, literal, sentence
from screening.labels import LABELS, OUTCOMES, Label
from screening.pipeline.config import (
    RULES,
    PipelineConfig,
    Preset,
    UndecidableError,
    chain_bound,
    longest,
    preset,
    promise,
)
from screening.pipeline.draws import cost_usd
from screening.pipeline.files import PipelineRefused, PromptSet, check, usage_per_call, write_pipeline
from screening.settings import ModelServer, Settings
from screening.stopping.certificates import CERTIFICATES, Certificate, CertifiedMixture
from screening.stopping.rules import DEFAULT_CONTRACT, PairwiseMixture, StoppingRule, minimum_budget
from storage.batches.configurations import PipelineVersion

PRESETS: Mapping[Preset, str] = {name: WORDS["preset"][name] for name in get_args(Preset)}
OWN = "own"
OWN_LEVELS = 0.0
DELTAS = (OWN_LEVELS, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001)
MOST_BUDGET = 10_000


Chosen = PipelineConfig | UndecidableError
"""The pipeline of a choice, or why it could never decide, which names the smallest budget that could."""


def choose(settings: Settings, own: PipelineVersion | None, key: str) -> Chosen:
    """The inputs. Never disabled while something runs: a widget that is loses what was chosen."""
    words = ({OWN: f"{own.title} (active)"} if own else {}) | {str(name): title for name, title in PRESETS.items()}
    chosen = st.selectbox(
        "Pipeline",
        list(words),
        index=0 if own else list(words).index(settings.preset),
        format_func=words.__getitem__,
        key=f"{key}_preset",
        help="When an agent has asked its model often enough. They differ in the error bound and in how many "
        "responses it takes; *Paper* takes about twelve times as many. See Methods.",
    )
    if own and chosen == OWN:
        st.caption("Its error bounds and limits are part of the pipeline: see Pipelines.")
        return own.pipeline
    left, right = st.columns(2)
    delta = left.selectbox(
        "Error bound (δ)",
        DELTAS,
        format_func=lambda value: "default" if value == OWN_LEVELS else f"{value:g}",
        key=f"{key}_delta",
        help="Default: 0.001 for labeling safe what the model mostly calls unsafe. Certified: the same for escalate, "
        "and 0.05 for any wrong label in all; for each mix-up, and Ville: 0.025 for each other one; paper: 0.05.",
    )
    budget = number_field(
        right,
        "Max responses per agent",
        1,
        MOST_BUDGET,
        settings.budget,
        key=f"{key}_budget",
        help="The most an agent may be asked about one text. What stays undecided is escalated.",
    )
    try:
        return preset(next(name for name in PRESETS if name == chosen), delta=delta or None, budget=int(budget))
    except UndecidableError as refusal:
        return refusal


def decide_or_refuse(chosen: Chosen) -> PipelineConfig | None:
    """The pipeline, or None after saying why it is refused; what can never be said is said here too."""
    if isinstance(chosen, UndecidableError):
        st.error(sentence(chosen), icon=":material/block:")
        return None
    if not known_models_or_refuse(chosen):
        return None
    for node in chosen.nodes:
        for words in (words for holds, words in promises(node.rule) if not holds):
            st.error(f"{literal(node.title)}: {words}.", icon=":material/block:")
    return chosen


def show_guarantees(pipeline: PipelineConfig) -> None:
    said = {node.title: [words for holds, words in promises(node.rule) if holds] for node in pipeline.nodes}
    chain = chain_bound(pipeline)
    whole = "no error bound for the whole pipeline" if chain is None else f"whole pipeline: at most {chain:g}"
    alike = len({tuple(words) for words in said.values()}) == 1
    lines = [f"Each agent, {'; '.join(next(iter(said.values())))}"] if alike else []
    lines = lines or [f"{literal(title)}, {'; '.join(words)}" for title, words in said.items() if words]
    fewest, for_safe = (minimum_budget(pipeline.nodes[0].rule, label) for label in (None, Label.SAFE))
    least = f"{fewest} calls ({for_safe} for safe)" if for_safe != fewest else f"{fewest} calls"
    st.caption(
        f"Statistical guarantees. {'. '.join([*lines, whole.capitalize()])}. An agent that always answers the same is "
        f"done after {least}."
    )
    st.caption(DELTA_MEANING)
    if reads_off(context.settings(), pipeline):
        st.info(PROBABILITIES_MEANING, icon=":material/info:")
    if all(node.rule == PairwiseMixture(budget=node.rule.budget) for node in pipeline.nodes):
        st.caption(WORDS["meaning"]["ville_left"])


Draft = dict[str, Any]
TYPICAL_CHARACTERS = 600
RULE_WORDS, ROLES, ABSTAINS, PROTOCOLS = (WORDS[of] for of in ("rule", "role", "abstain", "protocol"))
OWN_PROMPT = "its own, written here"


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
    made = {key: deepcopy(value) for key, value in before.items() if key in ("rule", "on_abstain")}
    made |= {"name": new, "title": title, "question": "", "instructions": f"# {title}\n\nWhat this agent judges.\n"}
    made["routes"] = {"safe": "safe", "unsafe": "unsafe", "escalate": onward}
    for label, target in before["routes"].items():
        if label == Label.ESCALATE or (target == onward and target not in OUTCOMES):
            before["routes"][label] = new
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
    changed, at = deepcopy(draft), node_names(draft).index(name)
    kept = {key: value for key, value in (changed["nodes"][at] | values).items() if value is not None}
    changed["nodes"][at] = kept
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
    """Dollars for a thousand typical texts when every budget is spent, each looked at twice."""
    known: dict[str, float] = {}
    for node in pipeline.nodes:
        price = cost_usd(node.model or model, usage_per_call(prompts, (node,), TYPICAL_CHARACTERS))
        if price is None or node.server:
            return None
        known[node.name] = float(price * 1000 * node.rule.budget)
    return longest(pipeline, known, flagged=True)


def differences(before: PipelineConfig, after: PipelineConfig) -> list[str]:
    """The lines that differ between two pipelines, as a unified difference of their files; empty for none."""
    old, new = write_pipeline(before).splitlines(), write_pipeline(after).splitlines()
    return list(difflib.unified_diff(old, new, before.name, after.name, lineterm="", n=2))[2:]


def prompt_facts(before: PipelineConfig, after: PipelineConfig, prompts: PromptSet) -> list[tuple[str, list[str]]]:
    """Each agent's prompt in a line, and what differs from the one in force. PromptError without a prompt."""
    known, found = {node.name: node for node in before.nodes}, []
    for node in after.nodes:
        text, was = prompts.system(node.name, agent=node.agent), known.get(node.name)
        old = "" if was is None else prompts.system(was.name, agent=was.agent)
        lines = list(difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm="", n=1))[2:]
        state = "a new agent" if was is None else "changed" if lines else "as in the active one"
        found.append((f"{node.title} · {hashlib.sha256(text.encode()).hexdigest()[:12]} · {state}", lines))
    return found


def edit_node(draft: Draft, prompts: PromptSet, servers: Mapping[str, ModelServer], key: str) -> Draft:
    """The draft after what is filled in of one agent, or after one was added or removed."""
    names = node_names(draft)
    titles = {str(node["name"]): literal(str(node["title"])) for node in draft["nodes"]}
    name = st.segmented_control(
        "Agent", names, default=names[0], format_func=titles.__getitem__, key=f"{key}_node", required=True
    )
    name = name if name in names else names[0]
    node, of = draft["nodes"][names.index(name)], f"{key}_{name}"
    values: dict[str, Any] = {
        "title": st.text_input("Title", node["title"], max_chars=60, key=f"{of}_title"),
        "question": st.text_input("Question, as people read it", node["question"], max_chars=300, key=f"{of}_question"),
    }
    values |= _agent(node, prompts, servers, of)
    values["rule"] = _rule(node["rule"], of)
    return _rearrange(with_node(draft, name, values | _routes(node, draft, of)), name, key)


def _agent(node: Mapping[str, Any], prompts: PromptSet, servers: Mapping[str, ModelServer], key: str) -> dict[str, Any]:
    own_name = node["name"] if node["name"] in prompts.nodes else None
    named = node["prompt"] if node.get("prompt") in prompts.nodes else own_name
    shown = OWN_PROMPT if node.get("instructions") or named is None else named
    options = [*prompts.nodes, OWN_PROMPT]
    prompt = st.selectbox("Prompt", options, index=options.index(shown), key=f"{key}_prompt")
    instructions = None
    if prompt == OWN_PROMPT:
        written = node.get("instructions") or (prompts.files[named] if named else "# \n")
        instructions = st.text_area("Instructions", written, height=220, key=f"{key}_instructions") or " "
    left, right = st.columns(2)
    model = left.text_input("Model", node.get("model") or "", placeholder="the site's", key=f"{key}_model")
    now = node.get("temperature")
    heat = right.text_input("Temperature", "" if now is None else str(now), placeholder="the site's", key=f"{key}_heat")
    named = {one: one for one in (*servers, node.get("server")) if one}  # an unknown one is refused by its name
    return {
        "prompt": prompt if prompt not in (OWN_PROMPT, own_name) else None,
        "instructions": instructions,
        "model": model.strip() or None,
        "temperature": heat.strip() or None,
        "server": select(left, "Server", {None: "the site's", **named}, node.get("server"), f"{key}_server"),
        "role": select(right, "Demo behavior", {None: "by name", **ROLES}, node.get("role"), f"{key}_role"),
        "protocol": select(st, "API style", {None: "default", **PROTOCOLS}, node.get("protocol"), f"{key}_protocol"),
    }


def _rule(rule: Mapping[str, Any], key: str) -> dict[str, Any]:
    words = {name: RULE_WORDS.get(name, one.title[:1].upper() + one.title[1:]) for name, one in RULES.items()}
    kind = select(st, "Rule", words, rule["kind"], f"{key}_rule")
    if kind not in RULE_WORDS and (said := RULES[kind].__doc__):
        st.caption(literal(" ".join(said.split())))
    left, right = st.columns(2)
    kept = rule if kind == rule["kind"] else {}
    if kind == "majority-vote":
        return {"kind": kind, "n": left.number_input("Draws", 1, 1_000, rule.get("n", 3), key=f"{key}_n")}
    if kind == "certified-mixture":
        return _certified_rule(kept, left, key)
    budget = left.number_input("Calls at most", 1, 100_000, rule.get("budget", 100), key=f"{key}_budget")
    made = {**kept, "kind": kind, "budget": budget}
    if kind == "successive-elimination":
        delta = number_field(right, "δ", 1e-6, 0.5, kept.get("delta", 0.05), format="%g", key=f"{key}_delta")
        return made | {"delta": delta}
    if kind != "pairwise-mixture":
        return made | _own_fields(kind, kept, key)
    now = kept.get("default_error", 0.025)
    level = number_field(right, "Any wrong label", 1e-6, 0.5, now, format="%g", key=f"{key}_level")
    errors = dict(kept.get("errors", {"safe|unsafe": 0.001}))
    words_of_it, now = "Safe, when its most frequent answer is unsafe", errors.get("safe|unsafe", level)
    errors["safe|unsafe"] = number_field(left, words_of_it, 1e-6, 0.5, now, format="%g", key=f"{key}_strict")
    return made | {"default_error": level, "errors": errors}


def _own_fields(kind: str, kept: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The settings that a rule of the site's own declares; one of another type stays as it is."""
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


def _certified_rule(rule: Mapping[str, Any], place: DeltaGenerator, key: str) -> dict[str, Any]:
    certificate = rule.get("certificate", "default")
    held = None if certificate == "default" else Certificate.model_validate(certificate)
    now = held.contract if held else DEFAULT_CONTRACT
    contracts = {DEFAULT_CONTRACT: "any wrong label 0.05 in all, safe 0.001"}
    contracts.setdefault(now, now.words())
    chosen = select(st, "Error guarantee", contracts, now, f"{key}_contract")
    own = held if held and held.contract == chosen else None
    most = max(each.budget for each in (*CERTIFICATES, own) if each and each.contract == chosen)
    begun = min(most, rule.get("budget", 100))
    budget = place.number_input("Calls at most", 1, most, begun, key=f"{key}_certified_budget")
    made = None if own and budget <= own.budget else CertifiedMixture.for_contract(chosen, budget)
    record = made.certificate.model_dump(mode="json") if made else certificate
    values = {"kind": "certified-mixture", "budget": budget, "certificate": record}
    return {**rule, **CertifiedMixture.model_validate(values).model_dump(mode="json")}


def _routes(node: Mapping[str, Any], draft: Draft, key: str) -> dict[str, Any]:
    titles = {str(one["name"]): str(one["title"]) for one in draft["nodes"]} | {"human_review": "a clinician"}
    options = {one: titles.get(one, one) for one in targets_after(draft, node["name"])}
    routes = {
        label.value: select(
            place, f"{label} →", options, node["routes"][label.value], f"{key}_to_{label}_{len(options)}"
        )
        for place, label in zip(st.columns(3), LABELS, strict=True)
    }
    return {"routes": routes, "on_abstain": select(st, "If undecided", ABSTAINS, node["on_abstain"], f"{key}_abstain")}


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
    return re.sub("[^a-z0-9]+", "_", title.lower()).strip("_")[:31] or "agent"
