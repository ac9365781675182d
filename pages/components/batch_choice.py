"""Choosing a batch on the researcher's pages; the choice is in the address, so it survives a reload."""

import streamlit as st

from storage.actors import Actor
from storage.batches import BatchSummary, list_batches
from storage.database import Database


def choose_batch(db: Database, person: Actor, page: str) -> BatchSummary | None:
    """The batch chosen, the newest one where none is; None where there is no batch at all."""
    found = {batch.id: batch for batch in list_batches(db, person, limit=200)}
    if not found:
        return None
    asked = st.query_params.get("batch")
    places = list(found)
    chosen = st.selectbox(
        "Batch",
        places,
        index=places.index(asked) if asked in found else 0,
        format_func=lambda batch_id: _name(found[batch_id]),
        key=f"{page}_batch",
    )
    if chosen != asked:
        st.query_params["batch"] = chosen
    return found[chosen]


def _name(batch: BatchSummary) -> str:
    return f"{batch.name} · {batch.created_at:%Y-%m-%d %H:%M} · {batch.progress.accepted:,} texts"
