"""Which sheet and columns a file is read by, as a person confirms it, or as a kept mapping says."""

from collections.abc import Mapping, Sequence

import streamlit as st

from pages.batches.conversation_choice import choose_conversation, wants
from pages.components.options import unique_labels
from pages.components.sign_in import check_before
from screening.datasets.columns import ColumnMapping, Shape, propose_mapping, rivals
from screening.datasets.mapping import FileMapping, mapping_json, read_mapping
from screening.datasets.refused import FileRefused
from screening.review.policy import Action
from screening.text.display import visible

NOT_USED = "(not used)"
ROLES: Mapping[str, str] = {
    "id": "Id",
    "title": "Title, put before the text",
    "reply": "Reply to the text",
    "label": "Reference label",
    "group": "Group",
    "where": "Where to act",
}
_LARGEST_MAPPING = 1_000_000


def chosen_sheet(token: str, sheets: Sequence[str]) -> None:
    """Which sheet of a workbook is read; it is asked for where there are several."""
    if len(sheets) > 1:
        shown = unique_labels({one: visible(one) for one in sheets})
        st.selectbox("Sheet", sheets, format_func=shown.__getitem__, key=sheet_key(token))


def sheet_key(token: str) -> str:
    """Under which the sheet chosen for an upload is remembered."""
    return f"sheet_{token}"


def kept_mapping(token: str) -> tuple[FileMapping | None, str]:
    """A mapping from a file, where one was given for this upload, and a suffix for the keys of what it fills in."""
    name = f"mapping_{token}"
    with st.expander("Use a mapping kept from another file", icon=":material/upload:"):
        given = st.file_uploader("A mapping (JSON)", type="json", key=f"{name}_file")
        if given is not None and st.button("Use this mapping", key=f"{name}_use"):
            try:
                content = given.getvalue()[:_LARGEST_MAPPING]
                number = st.session_state.get(name, (None, 0))[1] + 1
                st.session_state[name] = read_mapping(content), number
                st.rerun()
            except FileRefused as refusal:
                st.error(visible(str(refusal)))
    found, number = st.session_state.get(name, (None, 0))
    return found, f"_{number}" if number else ""


def offer_mapping(mapping: FileMapping) -> None:
    """The mapping as a file, for the command line and for the next file of this kind."""
    st.download_button(
        "Keep this mapping",
        check_before(Action.CREATE_BATCH, lambda: mapping_json(mapping)),  # a file held ready is gone after a rerun
        "mapping.json",
        "application/json",
        on_click="ignore",
        icon=":material/download:",
        help="For another file of this kind, here or with `--mapping` on the command line.",
    )


def first_choice(columns: tuple[str, ...], proposed: ColumnMapping | None) -> Mapping[str, str | None]:
    """What each role begins with; nothing where several columns could fill it, and a person must say which."""
    mapping = proposed or propose_mapping(columns)
    unclear = {} if proposed else rivals(columns)
    roles = ("text", *ROLES)
    return {role: None if mapping is None or role in unclear else getattr(mapping, role) for role in roles}


def confirm_columns(columns: tuple[str, ...], proposed: ColumnMapping | None, suffix: str = "") -> ColumnMapping | None:
    """Which column is what; None until the text's is chosen. Several columns of text are joined in their order."""
    st.markdown("**Columns**: please confirm")
    shown = unique_labels({one: visible(one) for one in (NOT_USED, *columns)})
    first = first_choice(columns, proposed)
    begun = [first["text"], *(proposed.joined if proposed else ())]
    places = st.columns([2, *(1 for _ in ROLES)])
    texts = places[0].multiselect(
        "Text; several are joined in this order",
        columns,
        default=[one for one in begun if one is not None],
        format_func=shown.__getitem__,
        key=f"column_text{suffix}",
    )
    chosen = {
        role: _one(place, role, columns, first[role], shown, suffix)
        for place, role in zip(places[1:], ROLES, strict=True)
    }  # fmt: skip
    known = propose_mapping(columns)
    conversation = choose_conversation(columns, proposed.conversation if proposed else None, suffix)
    lists = conversation is None and st.toggle(
        "Join texts that are lists of strings",
        value=bool(proposed and proposed.lists),
        key=f"column_lists{suffix}",
        help="Strings are joined with an empty line between.",
    )
    if not texts:
        st.caption("Choose the column that holds the text.")
        return None
    if conversation is not None and conversation.shape is Shape.ROWS and chosen["id"] is None:
        chosen["id"] = known.id if known else None  # several rows share it, so that it is the group of texts
    if (wanting := wants(conversation, chosen["id"])) is not None:
        st.caption(wanting)
        return None
    return ColumnMapping(
        text=texts[0],
        joined=tuple(texts[1:]),
        id=chosen["id"],
        title=chosen["title"],
        reply=chosen["reply"],
        label=chosen["label"],
        group=chosen["group"],
        where=chosen["where"],
        lists=lists,
        conversation=conversation,
    )


def _one(
    place: "st.delta_generator.DeltaGenerator",
    role: str,
    columns: tuple[str, ...],
    before: str | None,
    shown: Mapping[str, str],
    suffix: str,
) -> str | None:
    options = [NOT_USED, *columns]
    at = options.index(before) if before in options else 0
    key = f"column_{role}{suffix}"
    picked = place.selectbox(ROLES[role], options, index=at, format_func=shown.__getitem__, key=key)
    return None if picked == NOT_USED else str(picked)
