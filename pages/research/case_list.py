"""A list of cases on any page: a page of rows, one read below it, and those chosen, or all, sent to review. What it is
filtered by stands in the address, so that a list is a link.
"""

import re
import secrets
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, NoReturn

import pandas as pd
import streamlit as st

from pages.ui import context, html, shell, widgets
from pages.ui.downloads import COUNTS_AS_SEEN
from pages.ui.engine_view import NO_DECISION
from pages.ui.words import OUTCOME_WORDS, WORDS, literal, local_time, reason_words, sentence
from screening.labels import Label, Outcome
from screening.review.policy import Action, Actor, Forbidden, is_allowed
from screening.text.display import visible
from screening.words import count_of
from storage.batches.counts import IN_REVIEW, PENDING
from storage.batches.results import Result
from storage.database import Database
from storage.research import cells
from storage.research.cells import Cell
from storage.review import claims, evidence
from storage.review.follow_ups import MOST, SecondLooks, request_second_looks
from storage.visibility import choose_hiding, hides_in_review, is_erased

PAGE, QUICK_TAGS = 25, 5
HIDE = "hide_in_review"
NO_OUTCOMES = "Outcomes are shown to seniors and researchers."
BLINDED = (
    "Cases enter the queue unmarked, mixed with controls from the cells beside, so reviewers stay blinded. A review of "
    "your own is stored as not blinded, since you have seen the result."
)

GAPS: Mapping[str, float] = {"0.2 or less": 0.2, "0.5 or less": 0.5, "0.8 or less": 0.8}
FROM_THE_MOST: frozenset[str] = frozenset({"calls", "cost"})
SORTS, FILTERS = WORDS["sort"], WORDS["filter"]
SEARCH, ANY = "q", "any"


def outcome_words(outcome: str) -> str:
    """An outcome of a list in words.

    >>> outcome_words("unsafe"), outcome_words("in review")
    ('labeled unsafe', 'in review')
    """
    return OUTCOME_WORDS[Outcome(outcome)].lower() if outcome in set(Outcome) else outcome


def filters(db: Database, person: Actor, base: Cell) -> Cell:
    """The list narrowed by what is chosen; what ``base`` names already is not asked, nor is what has no values."""
    options, chosen = _options(db, person, base), dict[str, str]()
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        words = st.text_input("Find ID or group", st.query_params.get(SEARCH, ""), key=f"filter_{SEARCH}", width=190)
        if words.strip():
            chosen[SEARCH] = words.strip()
        for name, values in options.items():
            if values and (value := _choice(name, values)) not in (None, ANY):
                chosen[name] = value
    for name in (*options, SEARCH):
        widgets.in_address(name, chosen.get(name))
    return replace(base, **asked_for(chosen))


def _options(db: Database, person: Actor, base: Cell) -> Mapping[str, Mapping[str, str]]:
    of_groups = {one: visible(one) for one in cells.groups(db, person, base.batch_id)}
    if not is_allowed(person, Action.VIEW_RESULTS):  # nothing by which a list would tell of outcomes or labels
        return {"group": of_groups, "sort": {one: SORTS[one] for one in ("group", "id")}}
    found, asked = cells.cell_choices(db, person, base), st.query_params.get("way", "")
    way = way_of(asked)  # of a link from a drawing; it can be taken out, and another is chosen on the drawing
    options: dict[str, Mapping[str, str]] = {
        "outcome": {one: outcome_words(one) for one in (*map(str, Outcome), IN_REVIEW, PENDING)},
        "reference": {"safe": "safe", "unsafe": "unsafe"},
        "labels": {"adjudicated": "final labels"},
        "source": {"file": "the file", "adjudicated": "reviewers"},
        "node": {one: one.title() for one in found["node"]},
        "way": {asked: f"{visible(way[0]).title()}: {way[1] or NO_DECISION}", ANY: "Any"} if way else {},
        "reason": {one: reason_words(one) for one in found["reason"]},
        "gap": {one: one for one in GAPS},
        "group": of_groups,
        "tag": {one: visible(one) for one in found["tag"]},
        "sort": SORTS,
    }
    of_a_cell = {"outcome", "reference", "labels", "way", "group"} if base.reference else set()
    return {name: values for name, values in options.items() if name not in of_a_cell}


def _choice(name: str, values: Mapping[str, str]) -> str | None:
    before, keys = st.query_params.get(name, ""), list(values)
    return st.selectbox(
        FILTERS[name],
        keys,
        index=keys.index(before) if before in values else None,
        format_func=widgets.unique_labels(values).__getitem__,
        placeholder={"sort": "File's order", "labels": "original labels"}.get(name, "Any"),
        key=f"filter_{name}",
        width=150,
    )


def asked_for(chosen: Mapping[str, str]) -> dict[str, Any]:
    """What is chosen as fields of a `Cell`.

    >>> asked_for({"outcome": "safe", "gap": "0.5 or less", "sort": "calls"})
    {'outcome': 'safe', 'sort': 'calls', 'gap_at_most': 0.5, 'descending': True}
    """
    fields: dict[str, Any] = dict(chosen)
    if SEARCH in fields:
        fields["search"] = fields.pop(SEARCH)
    if "gap" in fields:
        fields["gap_at_most"] = GAPS[fields.pop("gap")]
    if "way" in fields:
        fields["way"] = way_of(fields["way"])
    if "sort" in fields:
        fields["descending"] = fields["sort"] in FROM_THE_MOST
    return fields


def way_of(given: str) -> tuple[str, Label | None] | None:
    """The agent and its label in an address, None instead of a label for what it did not settle; None for no way.

    >>> way_of("risk:escalate"), way_of("risk:no decision")
    (('risk', <Label.ESCALATE: 'escalate'>), ('risk', None))
    >>> way_of("risk"), way_of("risk:perhaps"), way_of("")
    (None, None, None)
    """
    node, _, said = given.partition(":")
    if not node or said not in (*Label, NO_DECISION):
        return None
    return node, None if said == NO_DECISION else Label(said)


def hide_switch(db: Database, person: Actor) -> None:
    """The one switch above every list, as it stands now, in whatever tab it was changed."""
    if not is_allowed(person, Action.VIEW_RESULTS):
        st.caption(NO_OUTCOMES)
        return
    with db.read() as conn:
        hides = hides_in_review(conn, person)
    st.session_state[HIDE] = hides

    def choose() -> None:
        choose_hiding(db, person.at(context.now()), hide=bool(st.session_state[HIDE]))

    st.toggle("Hide outcomes of cases in review", key=HIDE, on_change=choose, help=COUNTS_AS_SEEN)
    if not hides and is_allowed(person, Action.CLAIM_NEXT):
        st.caption(COUNTS_AS_SEEN)


def case_list(db: Database, person: Actor, cell: Cell) -> None:
    """The cases with what became of each, for who may see it; choosing a row opens it below."""
    outcomes = is_allowed(person, Action.VIEW_RESULTS)
    with_text = is_allowed(person, Action.VIEW_TEXT) and st.toggle(
        "Show the start of each text", key="cell_texts", help="Each text shown is in the audit log."
    )
    hide_switch(db, person)
    key = sha256(repr(cell).encode()).hexdigest()[:16]  # all of it: under another filter the page may not exist
    by, number = person.at(context.now()), st.session_state.get(f"page_{key}", 1)
    page = cells.cell_page(db, by, cell, PAGE, PAGE * (number - 1))
    if not page.cases and number > 1:  # there are now too few cases for it
        page, number = cells.cell_page(db, by, cell, PAGE), 1
    said = count_of(page.found, "case")
    if page.more:
        said = f"The first {page.found:,} cases in the file's order; narrow the list to sort it or to see others"
    if page.hidden:
        said += f". {page.hidden:,} more are in review and hidden by the switch above"
    st.caption(said + ".")
    if not page.cases:
        return
    shown = [case.case_id for case in page.cases]
    starts = starts_of(db, person, shown) if with_text else {}
    rows = [_row(case, starts.get(case.case_id), outcomes=outcomes) for case in page.cases]
    help = "How far the most frequent answer lay ahead of the second at the agent that ended the case."
    margin = st.column_config.ProgressColumn("Margin", min_value=0, max_value=1, format="%.2f", help=help)
    table: dict[str, Any] = {"column_config": {"Margin": margin}, "placeholder": ""}
    if outcomes:
        chosen = choose_and_open(rows, shown, f"cases_{key}_{number}", "multi-row", alt="Cases", **table)
    else:
        st.dataframe(pd.DataFrame(rows), hide_index=True, alt="Cases", **table)
    if page.found > PAGE:
        st.pagination(-(-page.found // PAGE), key=f"page_{key}")
    if outcomes:
        read = viewer(db, person, page.ids)
        send_panel(db, person, cell, page.ids, chosen if len(chosen) > 1 else [read] if read else [])


def choose_and_open(
    rows: Sequence[Any], ids: Sequence[str], name: str, mode: Literal["multi-row", "single-row"], alt: str, **of: Any
) -> list[str]:
    """A table of cases, and the ids of those chosen. One pressed, or chosen alone, is read below it: see `viewer`."""

    def open_chosen() -> None:
        chosen = widgets.pressed_rows(name)  # what is sent to review is always the one that is open, or all ticked
        if len(chosen) == 1 and chosen[0] < len(ids):
            widgets.in_address("case", ids[chosen[0]])

    of |= {"hide_index": True, "on_select": open_chosen, "selection_mode": [mode, "single-cell"], "key": name}
    selected = st.dataframe(pd.DataFrame(rows), alt=f"{alt}; a press on one opens it below", **of)
    return [ids[row] for row in selected["selection"]["rows"] if row < len(ids)]


def _row(case: Result, start: str | None, *, outcomes: bool) -> dict[str, object]:
    row: dict[str, object] = {"Row": case.row, "ID": visible(case.external_id)}
    if start is not None:
        row["Text begins"] = start
    if not outcomes:
        return row | {"Group": visible(case.group or "")}
    source = "reviewers" if case.accepted is not None else "file"
    return row | {
        "Original label": case.reference,
        "Outcome": outcome_words(case.outcome),
        "Agent": "" if case.hidden else (case.node or "").title(),
        "Margin": case.gap,
        "Responses": case.calls,
        "Reason": "" if case.hidden else reason_words(case.reason),
        "Final label": IN_REVIEW if case.in_review else (case.accepted or "").replace("_", " "),
        "Group": visible(case.group or ""),
        "In the file": visible(case.reference_value or ""),
        "Labeled by": "" if case.reference is None and case.accepted is None else source,
        "Tags": ", ".join(map(visible, case.tags)),
    }


_IDENTIFYING = re.compile(r"\bhttps?://\S+|\bwww\.\S+|\S+@\S+\.\S+|[@#]\w+|u/\w+|\d(?:[\d ./-]*\d){3,}", re.IGNORECASE)


def mask_line(start: str) -> str:
    """One line of text with addresses, handles and long numbers taken out.

    >>> mask_line("call me on 0123 456 789,\\nor @someone")
    'call me on ▒▒▒, or ▒▒▒'
    """
    return _IDENTIFYING.sub("▒▒▒", visible(" ".join(start.split())))


def starts_of(db: Database, person: Actor, case_ids: Sequence[str]) -> Mapping[str, str]:
    """The masked beginning of each text; each is one view in the audit log, however often the page is drawn."""
    seen: MutableMapping[str, str] = st.session_state.setdefault("text_starts", {})
    if missing := [case_id for case_id in case_ids if case_id not in seen]:
        found = evidence.reveal_text_starts(db, person.at(context.now()), missing)
        seen.update({case_id: mask_line(start) for case_id, start in found.items()})
    return seen


def viewer(db: Database, person: Actor, ids: Sequence[str]) -> str | None:
    """The case that the address names, where it is one of the list, and its id."""
    case_id = st.query_params.get("case")
    if case_id is None or case_id not in ids:
        return None
    case = cells.listed_case(db, person.at(context.now()), case_id)
    if case is not None:
        with st.container(border=True, key="viewer"):
            _steps(ids, case)
            _text(db, person, case)
            st.markdown(facts(case))
            if case.hidden:
                st.caption("In review: its outcome is hidden by the switch above the list.")
            else:
                _tags(db, person, case)
                _comments(db, person, case)
    return case_id


def facts(case: Result) -> str:
    """The original label with the file's own value, the final label, and how the agents ended, in Markdown."""
    value = f" ({literal(case.reference_value)}, file)" if case.reference_value else ""
    found = [f"Original label **{case.reference or 'none'}**{value}"]
    if case.hidden:
        return found[0]
    if case.in_review:
        found.append("**in review**")
    if case.accepted:
        found.append(f"final label **{literal(case.accepted.replace('_', ' '))}**")
    found.append(f"outcome **{literal(outcome_words(case.outcome))}**")
    if case.node:
        found.append(f"{literal(case.node.title())}: {literal(reason_words(case.reason))}")
    if case.calls is not None:
        found.append(count_of(case.calls, "response"))
    if case.gap is not None:
        found.append(f"margin {case.gap:.2f}")
    return " · ".join(found)


def _steps(ids: Sequence[str], case: Result) -> None:
    at = ids.index(case.case_id)
    with st.container(horizontal=True, vertical_alignment="center"):
        named = f"**{literal(case.external_id)}** row {case.row:,} · {at + 1:,} of {len(ids):,}"
        st.markdown(named, width="content")
        for words, key, to in (("Previous", "k", at - 1), ("Next", "j", at + 1)):
            target, out = (ids[to], False) if 0 <= to < len(ids) else (None, True)
            go, where = widgets.in_address, ("case", target)
            st.button(words, key=f"viewer_{words}", shortcut=key, on_click=go, args=where, disabled=out)
        widgets.case_link(case.case_id)
        st.button("Close", key="viewer_close", on_click=widgets.in_address, args=("case", None))


def _text(db: Database, person: Actor, case: Result) -> None:
    """Each text is read, and logged, once a visit, and once more after it was erased."""
    kept = f"viewer_texts_{is_erased(db, case.case_id)}"
    seen: dict[str, evidence.CaseText | None] = st.session_state.setdefault(kept, {})
    if case.case_id not in seen:
        try:
            seen[case.case_id] = evidence.reveal_text(db, person.at(context.now()), case.case_id)
        except Forbidden as refused:
            context.remember_refusal(refused, case.case_id)
            seen[case.case_id] = None
    text = seen[case.case_id]
    if text is None:
        st.caption("Your role does not let you read texts.")
        return
    st.html(html.texts_html(text.text, text.thread, text.reply, label="Text"))


def _tags(db: Database, person: Actor, case: Result) -> None:
    def add(words: str) -> None:
        try:
            evidence.add_tag(db, person.at(context.now()), case.case_id, words)
        except ValueError as refused:
            st.toast(literal(str(refused)))

    def remove(tag: str) -> None:
        evidence.remove_tag(db, person.at(context.now()), case.case_id, tag)

    counts = evidence.tag_counts(db, person, case.batch_id)
    for tag in case.tags:
        st.button(f"✕ {literal(tag)}", key=f"untag_{tag}", on_click=remove, args=(tag,))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for number, tag in enumerate([tag for tag in counts if tag not in case.tags][:QUICK_TAGS], start=1):
            st.button(
                f"{literal(tag)} ({counts[tag]:,})",
                key=f"tag_{case.case_id}_{number}",
                shortcut=str(number),
                on_click=add,
                args=(tag,),
            )
        with st.form(f"new_tag_{case.case_id}", clear_on_submit=True, border=False), st.container(horizontal=True):
            words = st.text_input("New tag", placeholder="sarcasm, lyrics …", max_chars=evidence.TAG_LIMIT, width=220)
            if st.form_submit_button("Tag") and words.strip():
                add(words)
                st.rerun()


def _comments(db: Database, person: Actor, case: Result) -> None:
    def add() -> None:
        """Save it, or say why not and show what was written: the field is empty by then, or gone with the case."""
        words = str(st.session_state[f"new_comment_{case.case_id}"])
        try:
            if words.strip():
                evidence.add_remark(db, person.at(context.now()), case.case_id, words)
        except ValueError as refused:
            st.error(f"Your comment was not saved: {literal(str(refused))}.")
            st.code(visible(words), language=None, wrap_lines=True)

    written = evidence.remarks(db, person, case.case_id)
    with st.expander(f"Comments ({len(written)})"):
        for one in written:
            st.text(f"{local_time(one.at)} {visible(one.author_name)}: {visible(one.remark)}")
        with st.form(f"comment_{case.case_id}", clear_on_submit=True, border=False):
            st.text_area("New comment", max_chars=evidence.REMARK_LIMIT, height=80, key=f"new_comment_{case.case_id}")
            st.form_submit_button("Add comment", on_click=add)


def send_panel(db: Database, person: Actor, cell: Cell, listed: Sequence[str], chosen: Sequence[str] = ()) -> None:
    """The buttons below a list; with cases chosen they are of these, else of all that are listed."""
    if not is_allowed(person, Action.REQUEST_REVIEW) or not listed:
        return
    show_sent(cell.batch_id)
    with st.container(horizontal=True, vertical_alignment="center"):
        mixed = st.toggle("Add an equal number of control cases", value=True, key="send_controls")
        picked = list(chosen or listed)[: MOST // 2 if mixed else MOST]
        kind: Literal["primary", "secondary"] = "primary" if chosen else "secondary"
        which = "" if chosen else "all " if len(picked) == len(listed) else "the first "
        words = f"Send {which}{len(picked):,} to review{' with controls' if mixed else ''}"
        if st.button(words, type=kind, icon=":material/inbox:", key="send_cases"):
            say_sent(_send(db, person, cell, picked, mixed=mixed))
        if len(picked) == 1:
            _review_now(db, person, cell, picked[0], mixed=mixed)
    st.caption(BLINDED)


def show_sent(batch_id: str) -> None:
    if widgets.show_said("sent_to_review"):
        of_batch = {"batch": batch_id} if batch_id else {}
        st.page_link(shell.FOLDER / "inbox.py", label="Open in queue", icon=":material/inbox:", query_params=of_batch)


def say_sent(sent: SecondLooks, *, controls: bool = True) -> NoReturn:
    widgets.say_after_rerun("sent_to_review", sent_words(sent, controls=controls))


def _send(db: Database, person: Actor, cell: Cell, picked: Sequence[str], *, mixed: bool) -> SecondLooks:
    number = len(picked) if mixed else 0
    controls = cells.control_cases(db, person, cell, picked, number, secrets.token_hex(8)) if number else {}
    return request_second_looks(db, person.at(context.now()), (*picked, *controls), shown=picked, controls=controls)


def _review_now(db: Database, person: Actor, cell: Cell, case_id: str, *, mixed: bool) -> None:
    """The same for one case, and it is opened at once, for whoever may open a named one."""
    may = is_allowed(person, Action.CLAIM_NEXT) and is_allowed(person, Action.CLAIM_NAMED, person.id)
    if not may or not st.button("Review it now", icon=":material/rate_review:", key="review_now"):
        return
    _send(db, person, cell, [case_id], mixed=mixed)
    try:
        claims.claim(db, person.at(context.now()), case_id, context.site().lease)
    except claims.NotAvailable as refused:
        st.warning(sentence(refused))
        return
    st.switch_page(shell.FOLDER / "inbox.py", query_params={"case": case_id})


def sent_words(sent: SecondLooks, *, controls: bool = True) -> str:
    """What became of it; with ``controls`` these are among the numbers.

    >>> sent_words(SecondLooks(opened=17, there_before=3, undecided=1))
    '17 cases sent to review, controls included; 3 were already there. Not sent: 1 not screened to the end.'
    """
    left = {"not screened to the end": sent.undecided, "deleted": sent.erased}
    rest = "; ".join(f"{number:,} {why}" for why, number in left.items() if number)
    before = f"; {sent.there_before:,} {'was' if sent.there_before == 1 else 'were'} already there"
    words = f"{count_of(sent.opened, 'case')} sent to review{', controls included' if controls else ''}"
    return f"{words}{before if sent.there_before else ''}.{f' Not sent: {rest}.' if rest else ''}"
