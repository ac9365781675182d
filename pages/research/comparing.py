"""Trying a version on a past batch: begin, follow, paired differences with intervals, the cases where the two part."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from jobs.agents import reads_off
from pages.research.case_list import hide_switch
from pages.ui import context
from pages.ui.widgets import choose_batch, choose_caps, choose_cases, known_models_or_refuse
from pages.ui.words import OUTCOME_WORDS, difference, error_words, money
from screening.evaluation.metrics import Difference, exact_mcnemar, paired_amounts, paired_rates
from screening.labels import Outcome
from screening.pipeline.config import PipelineConfig, most_calls
from screening.pipeline.files import error_kind
from screening.review.policy import Action, Actor, is_allowed
from screening.text.display import visible
from screening.words import count_of
from storage.batches.batch_state import CAP_REACHED
from storage.batches.configurations import save_configuration
from storage.database import Database
from storage.research import comparisons
from storage.research.comparisons import Comparison, Pair, Side, paired_outcomes
from storage.visibility import record_shown

MOST_SHOWN = 200


def comparison_panel(db: Database, person: Actor, pipelines: Mapping[str, PipelineConfig]) -> Comparison | None:
    if not (is_allowed(person, Action.VIEW_RESULTS) or is_allowed(person, Action.ACTIVATE_PIPELINE)):
        st.caption("Comparisons are shown to seniors, researchers and administrators.")
        return None
    st.text("A second pipeline screens texts of an upload again. It decides nothing and sends nothing to review.")
    if is_allowed(person, Action.CREATE_BATCH) and is_allowed(person, Action.VIEW_RESULTS):
        _begin(db, person, pipelines)
    found = {one.id: one for one in comparisons.list_comparisons(db, person)}
    if not found:
        st.caption("Nothing was compared yet.")
        return None
    chosen = st.selectbox("Comparison", list(found), format_func=lambda key: title_of(found[key]), key="compared")
    _show(db, person, found[chosen])
    return found[chosen]


def title_of(one: Comparison) -> str:
    state = f", ended: {error_words(one.ended_why)}" if one.ended_why else ", under way" if one.running else ""
    return f"{one.name} on {visible(one.batch_name)}: {one.done:,} of {count_of(one.of, 'text')}{state}"


def figures_of(db: Database, person: Actor, comparison_id: str) -> dict[str, Any]:
    """The paired figures as they are kept with an activation."""
    return {"comparison": comparison_id, "figures": figures(paired_outcomes(db, person, comparison_id))}


def _begin(db: Database, person: Actor, pipelines: Mapping[str, PipelineConfig]) -> None:
    batch = choose_batch(db, person, "compare")
    if batch is None:
        st.caption("There is no upload yet whose texts could be screened again.")
        return
    left, right = st.columns(2)
    name = left.selectbox("Pipeline to try", list(pipelines), key="compare_pipeline")
    most = right.number_input("Texts at most", 1, 100_000, 200, key="compare_most")
    caps = choose_caps("compare_")
    worst = most_calls(pipelines[name], flagged=True, read_off=reads_off(context.settings(), pipelines[name]))
    st.caption(f"At the worst {int(most) * worst:,} calls; they are paid like any others.")
    known = known_models_or_refuse(pipelines[name])
    if st.button("Compare", icon=":material/compare_arrows:", key="compare_begin", disabled=not known):
        version = save_configuration(db, context.configuration(pipelines[name]), context.now())
        texts, by = int(most), person.at(context.now())
        comparisons.begin_comparison(db, by, batch.id, configuration=version, name=name, most_cases=texts, caps=caps)
        st.rerun()


def _show(db: Database, person: Actor, one: Comparison) -> None:
    found = paired_outcomes(db, person, one.id)
    calls = count_of(one.totals.calls + one.totals.lost_calls, "call")
    caps = [count_of(one.caps.max_calls, "call")] if one.caps.max_calls else []
    caps += [f"${one.caps.max_cost_usd:,.2f}"] if one.caps.max_cost_usd else []
    st.text(
        f"{one.done:,} of {count_of(one.of, 'text was', 'texts were')} screened with {one.name}. {calls} so far, "
        f"{money(one.totals.known_cost_usd)}; {' and '.join(caps) or 'no'} cap."
    )
    if one.running:
        st.caption("The worker goes on with it; reload to see more.")
        if is_allowed(person, Action.CREATE_BATCH) and st.button("Stop comparing", key="compare_stop"):
            comparisons.end_comparison(db, person.at(context.now()), one.id, "stopped")
            st.rerun()
    if one.ended_why is not None:  # who can mend that, and the way to go on where there is one
        may = is_allowed(person, Action.CREATE_BATCH) and is_allowed(person, Action.VIEW_RESULTS)
        st.text(_end_words(one, one.ended_why, may=may))
        if one.may_go_on and may and st.button("Go on", icon=":material/play_arrow:", key="compare_resume"):
            comparisons.resume_comparison(db, person.at(context.now()), one.id)
            st.rerun()
    if found:
        _show_figures(found)
    else:
        st.caption("Not yet: 0 texts.")
    if is_allowed(person, Action.VIEW_RESULTS):
        _cases(db, person, found)


def _end_words(one: Comparison, why: str, *, may: bool) -> str:
    said = f"It ended: {error_words(why)}."
    if why in CAP_REACHED:
        return f"{said} It stays ended; begin it again with another cap."
    if not (first := error_kind(why).mend):
        return said
    if not one.may_go_on:
        return f"{said} {first}; then it can be begun again."
    return f"{said} {first}; then {'press' if may else 'whoever compares presses'} Go on."


def _show_figures(found: Sequence[Pair]) -> None:
    st.dataframe(figures(found), hide_index=True, alt="Paired differences")
    st.caption(
        "Paired by text; each interval at 95% for itself, so one of several is exploratory. Labels: the "
        "final label, else the original one. Decided: what these texts were screened with at first."
    )
    rows = [
        {"Decided ↓ tried →": OUTCOME_WORDS[Outcome(first)]}
        | {OUTCOME_WORDS[Outcome(second)]: count for second, count in row.items()}
        for first, row in agreement(found).items()
    ]
    st.dataframe(rows, hide_index=True, alt="Outcomes decided and tried")


def _cases(db: Database, person: Actor, found: Sequence[Pair]) -> None:
    differing = differing_pairs(found)
    st.subheader(f"Texts with another outcome: {len(differing):,}")
    hide_switch(db, person)
    cases = [one for one in differing if not one.hidden]
    if hidden := len(differing) - len(cases):
        st.caption(f"{hidden:,} of them are in review and hidden by the switch above.")
    if not cases:
        return
    shown = cases[:MOST_SHOWN]
    ids = [one.case_id for one in shown]
    record_shown(db, person.at(context.now()), ids)
    rows = [
        {
            "Text": visible(one.external_id),
            "Label": one.reference or "none",
            "Decided": one.first.outcome.replace("_", " "),
            "Tried": one.second.outcome.replace("_", " "),
        }
        for one in shown
    ]
    choose_cases(rows, ids, "compare_cases", "single-row", alt="Texts with another outcome")
    if len(cases) > MOST_SHOWN:
        st.caption(f"The first {MOST_SHOWN} of {len(cases):,}.")


_SAFE, _UNSAFE, _HUMAN = (outcome.value for outcome in (Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW))


def figures(pairs: Sequence[Pair]) -> list[dict[str, str]]:
    """Both pipelines on the same cases: rates against the labels where cases have one, and what both cost."""
    unsafe, safe = ([pair for pair in pairs if pair.reference == label] for label in (_UNSAFE, _SAFE))
    labeled = [*unsafe, *safe]
    priced = [pair for pair in pairs if pair.first.cost_usd is not None and pair.second.cost_usd is not None]
    rates: Mapping[str, tuple[Sequence[Pair], Callable[[Pair, Side], float]]] = {
        "FNR: unsafe labeled safe": (unsafe, lambda _, side: side.outcome == _SAFE),
        "FPR: safe labeled unsafe": (safe, lambda _, side: side.outcome == _UNSAFE),
        "Accuracy, an escalation counts as wrong": (labeled, lambda pair, side: side.outcome == pair.reference),
        "Escalated to a clinician": (pairs, lambda _, side: side.outcome == _HUMAN),
    }
    amounts: Mapping[str, tuple[Sequence[Pair], Callable[[Pair, Side], float]]] = {
        "Responses per text": (pairs, lambda _, side: side.calls),
        "Cost per text (USD)": (priced, lambda _, side: side.cost_usd or 0.0),
    }
    rows = []
    for words, (of, amount) in {**rates, **amounts}.items():
        first = [float(amount(pair, pair.first)) for pair in of]
        second = [float(amount(pair, pair.second)) for pair in of]
        if words in amounts:
            rows.append(_row(words, paired_amounts(first, second, bounds=None)))
        else:
            apart = [one - other for one, other in zip(first, second, strict=True)]
            rows.append(_row(words, paired_rates(first, second), exact_mcnemar(apart.count(1), apart.count(-1))))
    return [*rows, _row("90th percentile latency (s)", _slowest_tenth(pairs))]


def _slowest_tenth(pairs: Sequence[Pair]) -> Difference:
    waits = np.array([(pair.first.seconds, pair.second.seconds) for pair in pairs])
    one, other = map(float, np.quantile(waits, 0.9, axis=0)) if pairs else (None, None)
    value = None if one is None or other is None else other - one
    return Difference(n=len(pairs), first=one, second=other, value=value, low=None, high=None, confidence=0.95)


def _row(words: str, found: Difference, p: float | None = None) -> dict[str, str]:
    """One figure under both pipelines; ``p`` is McNemar's for rates, None for amounts."""
    rate = p is not None
    row = {"Figure": words, "Decided": "–", "Tried": "–", "Difference": difference(found, share=rate)}
    if found.value is None or found.first is None or found.second is None:
        return row
    shown = [f"{100 * one:.1f}%" if rate else f"{one:.4g}" for one in (found.first, found.second)]
    row |= {"Decided": shown[0], "Tried": shown[1]}
    return row | ({} if p is None else {"p (McNemar)": f"{p:.3f}" if p >= 0.001 else "< 0.001"})


def differing_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.first.outcome != pair.second.outcome]


def agreement(pairs: Sequence[Pair]) -> dict[str, dict[str, int]]:
    """How many cases have each outcome decided (rows) and tried (columns)."""
    counted, names = Counter((pair.first.outcome, pair.second.outcome) for pair in pairs), (_SAFE, _UNSAFE, _HUMAN)
    return {first: {second: counted[first, second] for second in names} for first in names}
