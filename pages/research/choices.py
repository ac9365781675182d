"""What the research pages share above their figures: the batch, where its labels come from, tabs of which one runs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import streamlit as st

from pages.ui.format import local_time
from pages.ui.widgets import unique_labels
from screening.review.actors import Actor
from screening.text.display import visible
from screening.words import count_of
from storage.batches.batches import BatchSummary, list_batches
from storage.database import Database


def choose_batch(db: Database, person: Actor, page: str) -> BatchSummary | None:
    """The batch chosen, the newest one where none is; None where there is no batch at all."""
    found = {batch.id: batch for batch in list_batches(db, person, limit=200)}
    if not found:
        return None
    asked = st.query_params.get("batch")
    places, titles = list(found), batch_titles(found.values())
    chosen = st.selectbox(
        "Batch",
        places,
        index=places.index(asked) if asked in found else 0,
        format_func=titles.__getitem__,
        key=f"{page}_batch",
    )
    if chosen != asked:
        st.query_params.from_dict({"batch": chosen})  # the case or the cell in the address was another batch's
    return found[chosen]


def batch_titles(batches: Iterable[BatchSummary]) -> dict[str, str]:
    """Each batch in one line of its own, by id."""
    return unique_labels(
        {
            one.id: f"{visible(one.name)} · {local_time(one.created_at)} · {count_of(one.progress.accepted, 'text')}"
            for one in batches
        }
    )


def provenance(intake: Mapping[str, Any]) -> str:
    """Where the file said it, and who gave the labels; plain text with nothing hidden in it, never markup.

    >>> provenance({"label_column": "y"}), provenance({"provenance": "a jury of three"})
    ('column "y" of your file (source not stated)', 'a jury of three')
    """
    source = str(intake.get("provenance") or "source not stated")
    column = intake.get("label_column")
    return visible(f'column "{column}" of your file ({source})' if column else source)


def show_open(key: str, parts: Mapping[str, Callable[[], None]]) -> None:
    """A tab for each part, in their order; the part of the open tab runs."""
    for tab, show in zip(st.tabs(list(parts), on_change="rerun", key=key), parts.values(), strict=True):
        if tab.open:
            with tab:
                show()
