"""An upload under way: its file taken in beside the pages, progress, buttons, paths of its texts, and what it cost."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import streamlit as st

from jobs.intake import BY_PEOPLE, NOBODY, IntakeRuns, Upload
from jobs.process import system_clock
from pages.ui import context, engine_view, widgets
from pages.ui.context import compute, compute_again, singleton
from pages.ui.words import STATE_WORDS, WORDS, duration, error_words, literal, local_time, money, reason_words
from screening.datasets.rows import FileRefused
from screening.labels import OUTCOMES, Label
from screening.pipeline.config import PipelineConfig
from screening.pipeline.files import NO_LABEL
from screening.review.policy import Action, Actor, is_allowed
from screening.review.triage import Reach
from screening.words import count_of
from storage.batches.batch_state import ACTIVE, ENDED, STOPPED, BatchState
from storage.batches.batches import BatchSummary, Progress
from storage.batches.configurations import active_version, load_configuration
from storage.batches.counts import batch_now
from storage.batches.overnight import OvernightProgress
from storage.batches.results import Ways, batch_overview
from storage.database import Database
from storage.site import health


@singleton
def intake_runs() -> IntakeRuns:
    """The files being taken in; made once per process, when it goes on with what an earlier one left."""
    settings = context.settings()
    runs = IntakeRuns(context.database(), settings, settings.data_directory / BY_PEOPLE, system_clock)
    runs.resume()
    return runs


WAYS_S = 5.0
"""Seconds between two looks at what is counted with more effort than the progress."""
_NEED_WORKER = ACTIVE - {BatchState.ROWS_MISSING}

_STATE_COLORS = {
    BatchState.FINISHED: "green",
    BatchState.CAPPED: "orange",
    BatchState.NEEDS_RETRY: "orange",
    BatchState.ROWS_MISSING: "orange",
    BatchState.RUNNING: "blue",
    BatchState.TAKING_IN: "blue",
}


def show_progress(batch_id: str, found: Progress, *, held: str | None = None, linked: bool = True) -> None:
    """State, how far it is, counts by outcome, each ``linked`` to its cases, and what it used."""
    words = state_words(found.state, held)
    color = _STATE_COLORS.get(found.state, "gray") if words == STATE_WORDS[found.state] else "orange"
    why = f" {literal(error_words(found.why))}" if found.why else ""
    st.markdown(f":{color}-badge[{literal(words)}]{why}")
    st.progress((found.accepted - found.pending) / max(1, found.accepted))
    st.html(widgets.result_links_html(batch_id, found, linked=linked))
    if found.failed:
        again = "" if found.state in ENDED else ", to be retried"
        st.caption(f"{found.failed:,} of those {'not screened' if found.state in ENDED else 'pending'} failed{again}.")
    caps = [f"limit {count_of(found.caps.max_calls, 'response')}"] if found.caps.max_calls else []
    caps += [f"limit ${found.caps.max_cost_usd:,.2f}"] if found.caps.max_cost_usd else []
    lost = [f"{found.lost_calls:,} of them lost, their cost not in the sum"] if found.lost_calls else []
    left = [f"about {duration(found.seconds_left)} left"] if found.seconds_left is not None else []
    rows = f"{count_of(found.rows_in, 'row')}: {found.accepted:,} accepted, {found.rejected:,} rejected"
    used = [rows, count_of(found.calls, "AI response"), *lost, money(found.cost_usd), *caps, *left]
    st.caption(literal(" · ".join(used)))


def find_hold(db: Database, now: datetime) -> str | None:
    """What keeps every batch of the site from going on at this moment, in words."""
    if not health.workers_answer(db, now)[0]:
        return "Screening is down: no background service is running"
    fault = health.find_lasting(db, health.Fault.MODEL)
    return None if fault is None else error_words(fault.cause or NO_LABEL).capitalize()


def status_lines(db: Database, now: datetime) -> list[tuple[bool, str]]:
    """Whether the screening service and the model do their work, in a sentence each."""
    works, heard = health.workers_answer(db, now)
    fault, ended = health.find_lasting(db, health.Fault.MODEL), health.last_ended(db)
    service, model = "Screening service: running", "no text screened yet"
    if not works:
        since = f" since {local_time(heard, now)}" if heard else ""
        service = f"Screening is down{since}. New texts wait and nobody is screening them."
    if fault is not None:
        why = error_words(fault.cause or NO_LABEL).removeprefix("the model ")
        model = f"{why} since {local_time(fault.began_at, now)}"
    elif ended:
        model = f"last text screened {local_time(ended, now)}"
    settings, own = context.settings_now(), active_version(db)  # a preset's nodes name no model
    models = dict.fromkeys(node.model or settings.model for node in own.pipeline.nodes) if own else [settings.model]
    agents = f"AI model{'' if len(models) == 1 else 's'} {', '.join(models)}"
    agents = "Keyword script (demo mode)" if settings.simulated else agents
    return [(works, service), (works and fault is None, f"{agents}: {model}")]


def state_words(state: BatchState, held: str | None) -> str:
    """The state; where cases would be screened and something keeps them from it, that.

    >>> state_words(BatchState.RUNNING, "Screening is down"), state_words(BatchState.PAUSED, "Screening is down")
    ('! Screening is down', '‖ Paused')
    """
    return STATE_WORDS[state] if held is None or state not in _NEED_WORKER else f"! {held}"


def overnight_words(found: OvernightProgress, state: BatchState) -> str:
    """How far it is, in words.

    >>> from screening.pipeline.draws import Usage
    >>> overnight_words(OvernightProgress(round=2, requests=90, processed=40, under_way=True, answers=200, unneeded=10,
    ...     waiting=50, failed=1, usage=Usage()), BatchState.RUNNING)
    'Round 2 is under way: 40 of 90 requests are processed. 200 answers so far, 10 of them (5%) beyond what was \
needed. 1 request failed and was or will be asked again.'
    """
    if found.under_way:
        done = f"{found.processed:,} of {found.requests:,} requests are processed"
        parts = [f"Round {found.round} is under way: {done}."]
    elif state is BatchState.FINISHED:
        parts = [f"Done after {count_of(found.round, 'round')}."]
    else:
        parts = ["No round is under way." if found.round else "The first round has not begun."]
    if found.answers:
        share = 100 * found.unneeded / found.answers
        answers = count_of(found.answers, "answer")
        parts.append(f"{answers} so far, {found.unneeded:,} of them ({share:.0f}%) beyond what was needed.")
    if found.failed:
        requests = count_of(found.failed, "request failed and was", "requests failed and were")
        parts.append(f"{requests} or will be asked again.")
    return " ".join(parts)


def batch_line(one: BatchSummary, *, held: str | None = None) -> str:
    """One upload on a line of the first page, for a label in Markdown: its name, state and how far it is."""
    found = one.progress
    far = f"{found.accepted - found.pending:,} of {found.accepted:,}"
    return f"{literal(one.name)} · {literal(state_words(found.state, held))} · {far}"


def list_row(one: BatchSummary, *, held: str | None = None) -> dict[str, object]:
    """One batch as a row of the list; the name is a cell, so nothing in it is markup."""
    found = one.progress
    return {
        "File": one.name,
        "Started": one.created_at,
        "State": state_words(found.state, held),
        "Rows": found.rows_in,
        "Rejected": found.rejected,
        "Safe": found.safe,
        "Unsafe": found.unsafe,
        "Escalated": found.human_review,
        "Pending": found.pending,
        "AI responses": found.calls,
        "Cost": money(found.cost_usd),
    }


def find_stopped(batch_id: str, state: BatchState) -> tuple[Upload, Exception] | None:
    """Its file and why, where this process has taken it in and stopped before the end."""
    return None if state in ENDED else intake_runs().stopped(batch_id)


def offers(batch_id: str, found: Progress) -> tuple[object, ...]:
    """What the sentences and buttons around the progress follow from."""
    return found.state, found.why, found.rows_missing, found.failed > 0, find_stopped(batch_id, found.state)


def missing_rows(person: Actor, one: BatchSummary, found: tuple[Upload, Exception] | None) -> None:
    """Why rows of the file are not in, and the way on: a button where this process has the file."""
    if found is None and one.progress.rows_missing is None:
        return
    code = one.progress.rows_missing or ""
    # what brings in the rest of a file that another process has, by what is known of its intake
    way = next(said for name, said in WORDS["way_on"].items() if name in one.intake or name == "app")
    why = f"{error_words(code).capitalize()}. {way}"
    if found:  # a refusal is written for people; of anything else only its kind is told, for it may quote a text
        ours, kind = isinstance(found[1], FileRefused), type(found[1]).__name__
        why = str(found[1]) if ours else f"{error_words('internal_error').capitalize()} ({kind})."
    lost = code == NOBODY and not found  # what took it in is not known to live
    end = "If nobody has the file any more, cancel the upload." if lost else "The file is kept."
    others = "wait until the upload goes on" if one.progress.state in STOPPED else "are screened"
    st.error(
        f"**Import stopped after {count_of(one.progress.rows_in, 'row')}:** {literal(why)} "
        f"The rows imported so far {others}. {end}"
    )
    may = found and is_allowed(person, Action.CONTROL_BATCH, one.created_by)
    if found and may and st.button("Continue importing rows", icon=":material/play_arrow:"):
        intake_runs().start(found[0])
        st.rerun()


def reach_fact(reach: Reach) -> str:
    """What holds for an upload that has begun; in red where unsafe texts are not reviewed.

    >>> reach_fact(Reach.READ)
    'Texts the AI labels unsafe or cannot decide are reviewed.'
    """
    if reach is Reach.READ:
        return "Texts the AI labels unsafe or cannot decide are reviewed."
    listed = " They are listed for sign-off." if reach is Reach.LIST else ""
    return (
        f":red[**Texts labeled unsafe are not reviewed in this upload**], except a random quality-check sample."
        f"{listed} Escalated texts are reviewed."
    )


def ways_panel(db: Database, person: Actor, one: BatchSummary) -> None:
    """The drawing as of this moment, each number with its list, and what is on no way of it."""
    linked = is_allowed(person, Action.VIEW_RESULTS)
    pipeline = load_configuration(db, one.configuration_version).pipeline
    counted = compute if one.progress.state in ENDED else compute_again  # at most as old as the next look
    standing = batch_now(db, person, one.id)
    found, costs, calls = counted(batch_overview, person, one.id, standing=standing, cases=one.progress.accepted)
    st.html(ways_html(pipeline, found, one.id, linked=linked))
    if one.progress.state not in ENDED:
        st.caption(f"The counts of this drawing and of the table are updated every {WAYS_S:.0f} seconds.")
    if found.kept_back:
        more = f"{count_of(sum(found.kept_back.values()), 'more text')} escalated outside this drawing"
        causes = "; ".join(f"{count:,}: {literal(reason_words(reason))}" for reason, count in found.kept_back.items())
        # of one text its cause is what became of it: not for whoever may still have to review it
        st.caption(f"{more}. {causes}." if linked else f"{more}: by a rule about the text, or after a fault.")
    used = {each.node: each for each in costs}
    if used:
        st.caption(calls_sentence(one.intake.get("estimate"), calls))
        rows = [row(node.title, used[node.name]) for node in pipeline.nodes if node.name in used]
        st.dataframe(rows, hide_index=True, alt="Calls and cost by agent")


def ways_html(pipeline: PipelineConfig, found: Ways, batch_id: str, *, linked: bool) -> str:
    """The drawing with its counts, ``linked`` to their cases."""
    asked = {node.name: count_of(found.asked.get(node.name, 0), "text") for node in pipeline.nodes}
    ways: dict[engine_view.Way, tuple[int, str | None]] = {}
    for node in pipeline.nodes:
        for label in (*Label, None):
            target = node.target(label)
            count = found.taken.get((node.name, label), 0)
            said = label.value if label else engine_view.NO_DECISION
            ended = {"node": node.name, "outcome": target}
            where = ended if target in OUTCOMES else {"way": f"{node.name}:{said}"}
            ways[node.name, said] = (count, widgets.results_address(batch_id, **where) if linked else None)
    return engine_view.diagram_html(pipeline, asked, ways)


def calls_sentence(estimate: Mapping[str, Any] | None, calls: int) -> str:
    """The calls made, beside what was expected, as a sentence.

    >>> calls_sentence({"expected": 1200.4, "low": 900.0, "high": 1500.0, "worst": 30000}, 1310)
    '1,310 AI responses (estimate 1,200, 900 to 1,500; at most 30,000).'
    >>> calls_sentence(None, 12)
    '12 AI responses.'
    """
    made = count_of(calls, "AI response")
    if not estimate:
        return f"{made}."
    spread = f", {estimate['low']:,.0f} to {estimate['high']:,.0f}" if estimate.get("low") is not None else ""
    return f"{made} (estimate {estimate['expected']:,.0f}{spread}; at most {estimate['worst']:,.0f})."


def row(title: str, one: Any) -> dict[str, str]:
    """One agent as a row of the table.

    >>> from types import SimpleNamespace
    >>> used = dict(node="risk", texts=3, calls=30, input_tokens=4000, output_tokens=60, cached=1000, cost_usd=0.5)
    >>> row("Risk", SimpleNamespace(**used))["From the cache"]
    '25%'
    """
    cached = f"{100 * one.cached / one.input_tokens:.0f}%" if one.input_tokens else "–"
    return {
        "Agent": title,
        "Texts": f"{one.texts:,}",
        "AI responses": f"{one.calls:,}",
        "Tokens in": f"{one.input_tokens:,}",
        "From the cache": cached,
        "Tokens out": f"{one.output_tokens:,}",
        "Cost": money(one.cost_usd),
    }
