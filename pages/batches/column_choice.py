"""Which column is what, as a person confirms it."""

from collections.abc import Mapping

import streamlit as st

from pages.components.options import told_apart
from screening.datasets.columns import ColumnMapping, propose_mapping, rivals
from screening.text.display import visible

NOT_USED = "(not used)"
ROLES: Mapping[str, str] = {
    "id": "Id",
    "title": "Title, put before the text",
    "reply": "Reply to the text",
    "label": "Reference label",
    "group": "Group",
}


def first_choice(columns: tuple[str, ...], proposed: ColumnMapping | None) -> Mapping[str, str | None]:
    """What each role begins with; nothing where several columns could fill it, and a person must say which."""
    mapping = proposed or propose_mapping(columns)
    unclear = {} if proposed else rivals(columns)
    roles = ("text", *ROLES)
    return {role: None if mapping is None or role in unclear else getattr(mapping, role) for role in roles}


def confirm_columns(columns: tuple[str, ...], proposed: ColumnMapping | None) -> ColumnMapping | None:
    """Which column is what; None until the text's is chosen. Several columns of text are joined in their order."""
    st.markdown("**Columns**: please confirm")
    shown = told_apart({one: visible(one) for one in (NOT_USED, *columns)})
    first = first_choice(columns, proposed)
    begun = [first["text"], *(proposed.joined if proposed else ())]
    places = st.columns([2, *(1 for _ in ROLES)])
    texts = places[0].multiselect(
        "Text; several are joined in this order",
        columns,
        default=[one for one in begun if one is not None],
        format_func=shown.__getitem__,
        key="column_text",
    )
    chosen = {
        role: _one(place, role, columns, first[role], shown)
        for place, role in zip(places[1:], ROLES, strict=True)
    }  # fmt: skip
    if not texts:
        st.caption("Choose the column that holds the text.")
        return None
    return ColumnMapping(
        text=texts[0],
        joined=tuple(texts[1:]),
        id=chosen["id"],
        title=chosen["title"],
        reply=chosen["reply"],
        label=chosen["label"],
        group=chosen["group"],
    )


def _one(
    place: "st.delta_generator.DeltaGenerator",
    role: str,
    columns: tuple[str, ...],
    before: str | None,
    shown: Mapping[str, str],
) -> str | None:
    options = [NOT_USED, *columns]
    at = options.index(before) if before in options else 0
    picked = place.selectbox(ROLES[role], options, index=at, format_func=shown.__getitem__, key=f"column_{role}")
    return None if picked == NOT_USED else str(picked)
