"""Filters and order of a list of cases. What is chosen stands in the address, so that a list is a link."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from pages.research.case_list import outcome_words, reason_words
from pages.ui.charts import NO_DECISION
from pages.ui.compute import compute
from pages.ui.widgets import unique_labels
from screening.labels import Label, Outcome
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.text.display import visible
from storage.batches.counts import IN_REVIEW, PENDING
from storage.database import Database
from storage.research.cells import cell_choices, groups, shown_kinds
from storage.research.listed import Cell, Sort
from storage.research.standing import batch_now

GAPS: Mapping[str, float] = {"0.2 or less": 0.2, "0.5 or less": 0.5, "0.8 or less": 0.8}
SORTS: Mapping[Sort, str] = {
    "calls": "Most responses", "cost": "Highest cost", "gap": "Narrowest margin", "value": "Label in the file",
    "group": "Group", "id": "ID",
}  # fmt: skip
FROM_THE_MOST: frozenset[str] = frozenset({"calls", "cost"})
WORDS: Mapping[str, str] = {
    "outcome": "Outcome", "reference": "Original label", "labels": "Label source", "source": "Labeled by",
    "node": "Agent", "way": "Path", "reason": "Reason", "gap": "Margin", "group": "Group", "tag": "Tag",
    "sort": "Sort by",
}  # fmt: skip
SEARCH, ANY = "q", "any"


def filters(db: Database, person: Actor, base: Cell) -> Cell:
    """The list narrowed by what is chosen; what ``base`` names already is not asked, nor is what has no values."""
    options = _options(db, person, base)
    chosen: dict[str, str] = {}
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        words = st.text_input("Find ID or group", st.query_params.get(SEARCH, ""), key=f"filter_{SEARCH}", width=190)
        if words.strip():
            chosen[SEARCH] = words.strip()
        for name, values in options.items():
            if values and (value := _choice(name, values)) not in (None, ANY):
                chosen[name] = value
    for name in (*options, SEARCH):
        if name in chosen:
            st.query_params[name] = chosen[name]
        else:
            st.query_params.pop(name, None)
    return replace(base, **asked_for(chosen))


def _options(db: Database, person: Actor, base: Cell) -> Mapping[str, Mapping[str, str]]:
    of_groups = {one: visible(one) for one in groups(db, person, base.batch_id)}
    if not is_allowed(person, Action.VIEW_RESULTS):  # nothing by which a list would tell of outcomes or labels
        return {"group": of_groups, "sort": {one: SORTS[one] for one in ("group", "id")}}
    shown = compute(shown_kinds, person, base.batch_id, standing=batch_now(db, person, base.batch_id), cases=0)
    found = cell_choices(db, person, base, shown)
    options: dict[str, Mapping[str, str]] = {
        "outcome": {one: outcome_words(one) for one in (*map(str, Outcome), IN_REVIEW, PENDING)},
        "reference": {"safe": "safe", "unsafe": "unsafe"},
        "labels": {"adjudicated": "final labels"},
        "source": {"file": "the file", "adjudicated": "reviewers"},
        "node": {one: one.title() for one in found["node"]},
        "way": _way_in_address(),
        "reason": {one: reason_words(one) for one in found["reason"]},
        "gap": {one: one for one in GAPS},
        "group": of_groups,
        "tag": {one: visible(one) for one in found["tag"]},
        "sort": {str(one): words for one, words in SORTS.items()},
    }
    of_a_cell = {"outcome", "reference", "labels", "way", "group"} if base.reference else set()
    return {name: values for name, values in options.items() if name not in of_a_cell}


def asked_for(chosen: Mapping[str, str]) -> dict[str, Any]:
    """What is chosen as fields of a `Cell`.

    >>> asked_for({"outcome": "safe", "gap": "0.5 or less", "sort": "calls"})
    {'outcome': 'safe', 'gap_at_most': 0.5, 'sort': 'calls', 'descending': True}
    """
    fields: dict[str, Any] = dict(chosen)
    if (gap := fields.pop("gap", None)) is not None:
        fields["gap_at_most"] = GAPS[gap]
    if (way := fields.pop("way", None)) is not None:
        fields["way"] = way_of(way)
    if (words := fields.pop(SEARCH, None)) is not None:
        fields["search"] = words
    if (sort := fields.pop("sort", None)) is not None:
        fields |= {"sort": sort, "descending": sort in FROM_THE_MOST}
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


def _way_in_address() -> dict[str, str]:
    """The way that a link from a drawing names; it can be taken out, and another is chosen on the drawing."""
    given = st.query_params.get("way", "")
    if (found := way_of(given)) is None:
        return {}
    node, label = found
    return {given: f"{visible(node).title()}: {label or NO_DECISION}", ANY: "Any"}


def _choice(name: str, values: Mapping[str, str]) -> str | None:
    shown = unique_labels(values)
    before = st.query_params.get(name)
    return st.selectbox(
        WORDS[name],
        list(values),
        index=list(values).index(before) if before is not None and before in values else None,
        format_func=shown.__getitem__,
        placeholder={"sort": "File's order", "labels": "original labels"}.get(name, "Any"),
        key=f"filter_{name}",
        width=150,
    )
