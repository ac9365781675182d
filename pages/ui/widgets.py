"""Small fields, links and forms that more than one page has."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar
from unicodedata import normalize
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from jobs.agents import unanswerable
from pages.ui import context
from pages.ui.labels import literal
from pages.ui.shell import FOLDER
from screening.labels import Outcome
from screening.pipeline.config import PipelineConfig
from screening.review.actors import Actor
from storage.batches.batches import Progress
from storage.batches.counts import PENDING

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

N = TypeVar("N", int, float)


def number_field(
    place: DeltaGenerator,
    words: str,
    low: N,
    high: N,
    now: N,
    step: N | None = None,
    format: str | None = None,
    **options: Any,
) -> N:
    """`number_input` whose limits make room for ``now``: what is kept may lie beyond what a form would take, and is
    shown as it is; a field of its own would end the page.
    """
    shown: N = place.number_input(words, min(low, now), max(high, now), now, step, format, **options)
    return shown


END = 6
"""Characters of a key that mostly tell two apart: our ids end at random."""


def unique_labels(words: Mapping[str, str]) -> dict[str, str]:
    """Each key's words; where two look alike with the end of the key behind them.

    Should somebody have named a thing after the end of another's key, every key follows whole.

    >>> unique_labels({"a1b2c3d4": "Dr Kim", "a1b2c3e5": "dr  Kim", "a1b2c3f6": "Ann"})
    {'a1b2c3d4': 'Dr Kim · b2c3d4', 'a1b2c3e5': 'dr  Kim · b2c3e5', 'a1b2c3f6': 'Ann'}
    """
    keys = {key: ascii(key)[1:-1] for key in words}  # one line, no "·" in it, never the same for two
    alike = _alike(words)
    shown = {key: f"{said} · {keys[key][-END:]}" if key in alike else said for key, said in words.items()}
    return {key: f"{said} · {keys[key]}" for key, said in words.items()} if _alike(shown) else shown


def _alike(shown: Mapping[str, str]) -> set[str]:
    """The keys whose words a person, or a browser that folds spaces, could take for another's."""
    folded = {key: " ".join(normalize("NFKC", said).split()).casefold() for key, said in shown.items()}
    times = Counter(folded.values())
    return {key for key, said in folded.items() if times[said] > 1}


def known_models_or_refuse(pipeline: PipelineConfig) -> bool:
    """Whether the site knows every server and model that this pipeline names; the page says which it does not."""
    wrong = unanswerable(context.settings_now(), pipeline)
    if wrong:
        st.error(literal(f"{wrong[:1].upper()}{wrong[1:]}."), icon=":material/block:")
    return not wrong


def case_link(case_id: str) -> None:
    """A link to the case's page. The case's name is not in it: a link's label is markup, and names come from files."""
    st.page_link(FOLDER / "case.py", label="Open this case", icon=":material/article:", query_params={"case": case_id})


def list_key(name: str, case_ids: Iterable[str]) -> str:
    """The key of a table of these cases. A tick is of a place: it is not taken over into another list."""
    return f"{name}_{sha256(' '.join(case_ids).encode()).hexdigest()[:16]}"


def results_address(batch_id: str, **filters: str) -> str:
    """The address of a list of results.

    >>> results_address("b1", outcome="safe", reference="unsafe")
    '/results?batch=b1&outcome=safe&reference=unsafe'
    """
    return f"/results?{urlencode({'batch': batch_id, **filters})}"


def result_links_html(batch_id: str, found: Progress, *, linked: bool = True) -> str:
    """Counts of a batch by outcome, each with its list for whoever may see outcomes; the rejected rows are in their
    file.
    """
    counted = (
        ("safe", found.safe, "safe", Outcome.SAFE.value),
        ("unsafe", found.unsafe, "unsafe", Outcome.UNSAFE.value),
        ("person", found.human_review, "escalated", Outcome.HUMAN_REVIEW.value),
        ("quiet", found.pending, "not screened", PENDING),
        ("", found.accepted, "all", None),
    )
    tiles = "".join(
        f'<a class="{kind}"{_link(batch_id, outcome) if linked else ""}><b>{count:,}</b>{words}</a>'
        for kind, count, words, outcome in counted
    )
    return f'<div class="sl-tiles">{tiles}</div>'


def _link(batch_id: str, outcome: str | None) -> str:
    address = results_address(batch_id, **({} if outcome is None else {"outcome": outcome}))
    return f' href="{address}" target="_self"'


FIELDS = ("decide_why_", "follow_up_note_")
"""The prefix of these fields' keys."""
_RECORDED = "typed_recorded"


def keep_typed(person: Actor, *, fields: bool = True) -> None:
    """Have the browser keep what is typed; call it once on a page that may have such ``fields``. Nothing where it has
    none now and nothing was recorded.
    """
    recorded = st.session_state.pop(_RECORDED, [])
    if not fields and not recorded:
        return
    with st.container(key="typed"):
        _component()(data=[{"me": person.id, "fields": FIELDS, "recorded": recorded}], key="typed_fields")


def forget_typed(key: str) -> None:
    """What stood in this field is recorded: the browser need not keep it."""
    st.session_state[_RECORDED] = [*st.session_state.get(_RECORDED, ()), key]


@lru_cache(maxsize=1)
def _component() -> "ComponentRenderer":
    return st.components.v2.component("second-look-browser.typed", js="typed.js")


def how_to_read(said: str, more: str) -> None:
    """One sentence below a figure, and how to read it behind a button."""
    left, right = st.columns([4, 1], vertical_alignment="center")
    left.caption(said)
    with right.popover("How to read this", type="tertiary"):
        st.markdown(more)
