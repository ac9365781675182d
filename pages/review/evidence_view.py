"""The AI's view of one case after the reveal: per node its evidence, draws, why it stopped, calls and cost."""

from typing import Any

from pydantic import ValidationError

from pages.ui import engine_view, html
from pages.ui.words import FLAG_WORDS, OUTCOME_WORDS, REASON_WORDS, WORDS, money
from screening.labels import Label, Outcome
from screening.pipeline.config import NodeConfig, PipelineConfig
from screening.pipeline.draws import decode_draws, read_distribution
from screening.pipeline.engine import MAIN, Reason, unusable_sentence
from screening.text.flags import FORBIDS, Flag, Forbids
from screening.words import count_of
from storage.review.evidence import Evidence

DRAW_WORDS = WORDS["draw"]


def pipeline_of(evidence: Evidence) -> PipelineConfig | None:
    """The pipeline it ran with, as it decided this case; None where this version cannot read it."""
    try:
        return PipelineConfig.model_validate((evidence.configuration or {}).get("pipeline"))
    except ValidationError:
        return None


def evidence_html(evidence: Evidence, *, opened: bool = False) -> str:
    """All runs in their order, then the nodes that were not asked; ``opened`` shows questions as well."""
    pipeline = pipeline_of(evidence)
    nodes = {node.name: node for node in pipeline.nodes} if pipeline else {}
    asked = {run.node for run in evidence.runs}
    sampled = [nodes[run.node].rule for run in evidence.runs if run.node in nodes and run.draws]
    return html.macros("evidence").runs(
        [_run(run, nodes.get(run.node), full=opened) for run in evidence.runs],
        [node.title for node in nodes.values() if node.name not in asked],
        engine_view.legend_html(sampled, read_off=any(run.distribution for run in evidence.runs)),
    )


def trail_html(evidence: Evidence) -> str:
    """The way that the case took, on the drawing of its pipeline; empty where nothing was asked."""
    pipeline = pipeline_of(evidence)
    if pipeline is None or not evidence.runs:
        return ""
    draws = {f"{run.node}/{run.variant}": run.draws or run.distribution or "" for run in evidence.runs}
    return engine_view.way_html(pipeline, draws, ended=True, outcome=evidence.outcome)


def outcome_words(evidence: Evidence) -> str:
    if evidence.outcome is None or evidence.reason is None:
        return "No AI decision."  # nor is it ever where its batch was cancelled
    pipeline = pipeline_of(evidence)
    titles = {node.name: node.title for node in pipeline.nodes} if pipeline else {}
    at = f"{titles.get(evidence.node, evidence.node)}: " if evidence.node else ""
    outcome = OUTCOME_WORDS.get(Outcome(evidence.outcome), evidence.outcome)
    decided = next((run for run in evidence.runs if (run.node, run.variant) == (evidence.node, MAIN)), None)
    label = engine_label(evidence)
    if label is not None and decided is not None and evidence.reason == Reason.IDENTIFIED:
        return f"{outcome}. {at}{engine_view.evidence_sentence(decided.codes, label)}"
    reason = REASON_WORDS[Reason(evidence.reason)] if evidence.reason in set(Reason) else evidence.reason
    said = f" Its answers: {answers_words(decided)}." if decided is not None and decided.draws else ""
    return f"{outcome}. {at}{reason}.{said}"


def answers_words(run: Any) -> str:
    """How many answers there were of each kind.

    >>> from types import SimpleNamespace
    >>> answers_words(SimpleNamespace(draws="UEU"))
    '2 unsafe, 1 escalate'
    """
    return ", ".join(f"{run.draws.count(code)} {DRAW_WORDS.get(code, code)}" for code in dict.fromkeys(run.draws))


def outcome_sentence(shown: Evidence) -> str:
    """Outcome, calls and δ in a line; where something was read off from probabilities, that no error level holds."""
    level = "" if shown.delta is None else f" · error bound of the agents asked, together: δ = {shown.delta:g}"
    if any(run.distribution and not run.draws for run in shown.runs):
        level = " · read off from the server's probabilities: no error bound holds"
    return f"{outcome_words(shown)} {count_of(shown.calls, 'call')}{level}"


def _run(run: Any, node: NodeConfig | None, *, full: bool) -> dict[str, object]:
    """What the template shows of it; without bars where this version does not know its agent."""
    answers = [f"Answers: {answers_words(run)}."] if run.draws else []
    told = read_distribution(run.distribution or "")
    if told is not None and run.draws:
        words = engine_view.distribution_words(told)
        answers.insert(0, f"{words[0].upper()}{words[1:]}, more than is accepted: answers were sampled instead.")
    shown: dict[str, object] = {
        "title": run.node,
        "sentences": answers,
        "unusable": sorted((int(number), raw) for number, raw in run.unusable.items()) if run.draws else [],
        "unusable_words": count_of(len(run.unusable), "answer that was", "answers that were"),
    }
    if node is None:
        return shown | dict.fromkeys(("badge", "calls", "question", "bars", "bands"), "")
    view = engine_view.node_view(
        node, run.codes, ended=True, title=None if run.variant == MAIN else f"{node.title}, second wording"
    )
    return shown | {
        "title": view.title,
        "badge": engine_view.badge_html(view),
        "calls": f"{count_of(run.calls, 'call')} · {money(run.cost_usd)}",
        "question": node.question if full else "",
        "bars": engine_view.bars_html(view.compared, view.rule),
        "sentences": [stopped_words(view), *answers],
        "bands": engine_view.bands_fold_html(view.rule, run.draws),
    }


def stopped_words(view: engine_view.NodeView) -> str:
    """Why the node stopped, in words that claim no more than its rule does."""
    if view.state is engine_view.State.NO_ANSWER:
        return f"{unusable_sentence(decode_draws(view.codes))}: that is no answer, and says nothing about the text."
    if view.label is not None:
        return engine_view.evidence_sentence(view.codes, view.label)
    if view.distribution is not None:
        words = engine_view.distribution_words(view.distribution)
        return f"{words[0].upper()}{words[1:]}: no label leads by more than that, so this agent gives no label."
    counts = ", ".join(f"{view.codes.count(code)} {DRAW_WORDS[code]}" for code in DRAW_WORDS if code in view.codes)
    limit, asked = f"its {view.rule.budget}-answer limit", count_of(len(view.codes), "answer")
    why = {
        engine_view.State.EXHAUSTED: f"No label won within {limit}",
        engine_view.State.FUTILITY: f"After {asked} no label could win within {limit} any more",
    }.get(view.state, "It was stopped before one label won")
    return f"{why}: {counts}. So this agent gives no label."


def engine_label(evidence: Evidence) -> Label | None:
    """The label the AI gave, None where it left the case to a person."""
    return Label(evidence.outcome) if evidence.outcome in (Label.SAFE, Label.UNSAFE) else None


def flag_sentence(flag: str) -> str:
    """A finding and what it forbids; one that this version does not know forbids safe as well.

    >>> flag_sentence("suspected_injection")
    'appears to address the AI or to answer in its place; safe is not accepted'
    """
    if flag not in set(Flag):
        return f"{flag.replace('_', ' ')}; safe is not accepted"
    known = Flag(flag)
    words = {Forbids.NOTHING: "", Forbids.UNCHECKED_SAFE: "; safe needs a second check"}
    forbids = words.get(FORBIDS[known], "; safe is not accepted")
    return f"{FLAG_WORDS[known].partition(':')[0]}{forbids}"
