"""Filters and order of a list of results, kept in the address."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from pages.components.computed import compute
from pages.components.diagram import NOT_SETTLED
from pages.components.options import unique_labels
from pages.research.case_words import outcome_words, reason_words
from pages.research.cell_list import FROM_THE_MOST, GAPS, SORTS, SOURCES
from screening.labels import Label, Outcome
from screening.review.actors import Actor
from screening.text.display import visible
from storage.database import Database
from storage.kinds import IN_REVIEW, PENDING
from storage.research.cells import cell_choices, groups, shown_kinds
from storage.research.listed import Cell
from storage.research.standing import batch_now

OUTCOMES = (*map(str, Outcome), IN_REVIEW, PENDING)
WORDS: Mapping[str, str] = {
    "outcome": "Outcome", "reference": "Reference", "labels": "Reference as", "source": "Label from", "node": "Node",
    "way": "Way taken", "reason": "Reason", "gap": "Gap", "group": "Group", "tag": "Tag", "sort": "Sort by",
}  # fmt: skip
SEARCH, ANY = "q", "any"


def chosen_filters(db: Database, person: Actor, batch_id: str) -> Cell:
    """The filters on the page; what is chosen stands in the address, so that a list is a link."""
    shown = compute(shown_kinds, person, batch_id, standing=batch_now(db, person, batch_id), cases=0)
    found = cell_choices(db, person, Cell(batch_id=batch_id), shown)
    options: Mapping[str, Mapping[str, str]] = {
        "outcome": {one: outcome_words(one) for one in OUTCOMES},
        "reference": {"safe": "safe", "unsafe": "unsafe"},
        "labels": {"adjudicated": "with adjudications"},
        "source": {str(one): words for one, words in SOURCES.items()},
        "node": {one: one.title() for one in found["node"]},
        "way": _way_in_address(),
        "reason": {one: reason_words(one) for one in found["reason"]},
        "gap": {one: one for one in GAPS},
        "group": {one: visible(one) for one in groups(db, person, batch_id)},
        "tag": {one: visible(one) for one in found["tag"]},
        "sort": {str(one): words for one, words in SORTS.items()},
    }
    chosen: dict[str, str] = {}
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        before = st.query_params.get(SEARCH, "")
        words = st.text_input("Find id or group", value=before, key=f"results_{SEARCH}", width=190)
        if words.strip():
            chosen[SEARCH] = words.strip()
        for name, values in options.items():
            if values and (value := _choice(name, values)) not in (None, ANY):
                chosen[name] = value
    _keep_in_address(chosen)
    return cell_of(batch_id, chosen)


def cell_of(batch_id: str, chosen: Mapping[str, str]) -> Cell:
    """The list that is meant.

    >>> cell_of("b", {"outcome": "safe", "gap": "0.5 or less", "sort": "gap"}).gap_at_most
    0.5
    """
    names = ("outcome", "reference", "source", "node", "reason", "group", "tag")
    plain: dict[str, Any] = {name: chosen.get(name) for name in names}
    sort = chosen.get("sort")
    order = {} if sort is None else {"sort": sort, "descending": sort in FROM_THE_MOST}
    return Cell(
        batch_id=batch_id,
        gap_at_most=GAPS.get(chosen.get("gap", "")),
        search=chosen.get(SEARCH),
        way=way_of(chosen.get("way", "")),
        labels="adjudicated" if chosen.get("labels") == "adjudicated" else "original",
        **plain,
        **order,  # type: ignore[arg-type]
    )


def way_of(given: str) -> tuple[str, Label | None] | None:
    """The agent and its label in an address, None instead of a label for what it did not settle; None for no way.

    >>> way_of("risk:escalate"), way_of("risk:not settled")
    (('risk', <Label.ESCALATE: 'escalate'>), ('risk', None))
    >>> way_of("risk"), way_of("risk:perhaps"), way_of("")
    (None, None, None)
    """
    node, _, said = given.partition(":")
    if not node or said not in (*Label, NOT_SETTLED):
        return None
    return node, None if said == NOT_SETTLED else Label(said)


def _way_in_address() -> dict[str, str]:
    """The way that a link from a drawing names; it can be taken out, and another is chosen on the drawing."""
    given = st.query_params.get("way", "")
    if (found := way_of(given)) is None:
        return {}
    node, label = found
    return {given: f"{visible(node).title()}: {label or NOT_SETTLED}", ANY: "Any"}


def _choice(name: str, values: Mapping[str, str]) -> str | None:
    shown = unique_labels(values)
    before = st.query_params.get(name)
    return st.selectbox(
        WORDS[name],
        list(values),
        index=list(values).index(before) if before is not None and before in values else None,
        format_func=shown.__getitem__,
        placeholder={"sort": "File's order", "labels": "in the file"}.get(name, "Any"),
        key=f"results_{name}",
        width=150,
    )


def _keep_in_address(chosen: Mapping[str, str]) -> None:
    for name in (*WORDS, SEARCH):
        if name in chosen:
            st.query_params[name] = chosen[name]
        else:
            st.query_params.pop(name, None)
