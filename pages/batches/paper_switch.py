"""A switch for files of the paper's data sets: prepared as the paper does, or read as they stand."""

from dataclasses import replace
from io import BytesIO

import pandas as pd
import streamlit as st

from jobs import uploads
from jobs.uploads import Upload
from pages.batches.file_reading import profile
from pages.components import resources
from screening.datasets.known import KnownDataset
from screening.datasets.reader import Table
from screening.datasets.refused import FileRefused
from screening.research.paper_sets import Prepared, prepare
from screening.text.display import visible

HOW = {
    KnownDataset.AEGIS: "The self-harm subset: rows of that category, no redacted prompt, labelled response, each id "
    "once; prompt and response together, by the label of the response.",
    KnownDataset.SWMH: "50 posts of each subreddit, drawn with seed 42; the subreddit is the group, and SuicideWatch "
    "alone is unsafe.",
}


def paper_switch(upload: Upload) -> None:
    """Offered for a file of such a data set; on, another file takes its place, and off, the first one is back."""
    known = _known_dataset(upload)
    if known is None:
        return
    key = f"paper_{upload.token}"
    on = upload.prepared_from is not None
    st.toggle(f"Prepare {known} as the paper does", value=on, key=key, help=HOW[known])
    if upload.steps:
        steps = pd.DataFrame(list(upload.steps), columns=["Step", "Rows"])
        st.dataframe(steps, hide_index=True, alt="How many rows each step of the preparation left")
    if bool(st.session_state[key]) == on:
        return
    try:
        _show(_first(upload) if on else _prepare(upload, known))
    except (FileRefused, ValueError) as refusal:
        st.error(f"It cannot be prepared: {visible(str(refusal))}.")


def _known_dataset(upload: Upload) -> KnownDataset | None:
    if upload.prepared_from is not None:
        return KnownDataset(upload.prepared_as or "")
    found = profile(upload.path, upload.name, upload.sheet)
    return found.report.known if isinstance(found, Table) else None


def _prepare(upload: Upload, known: KnownDataset) -> Upload:
    found: Prepared = prepare(known, upload.name, upload.path)
    content = BytesIO("".join(found.lines()).encode())
    kept = uploads.keep(upload.path.parent, f"{upload.name} ({known}, as in the paper)", content, upload.owner)
    marked = replace(kept, prepared_from=upload.token, prepared_as=known.value, steps=found.steps)
    uploads.remember(marked)
    return marked


def _first(upload: Upload) -> Upload:
    first = uploads.find(upload.path.parent, upload.prepared_from or "", resources.actor().id)
    if first is None:
        raise ValueError("the file as it stood is gone: choose it again")
    uploads.discard(upload)
    return first


def _show(upload: Upload) -> None:
    st.query_params["upload"] = upload.token
    st.rerun()
