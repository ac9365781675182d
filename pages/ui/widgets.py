"""Small fields, links and forms that more than one page has."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, NoReturn, TypeVar
from unicodedata import normalize
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from jobs.agents import unanswerable
from pages.ui import context
from pages.ui.html import Link, links_html
from pages.ui.shell import FOLDER, mount
from pages.ui.words import WORDS, literal, local_time
from screening.labels import Outcome
from screening.pipeline.config import PipelineConfig
from screening.review.policy import Actor
from screening.text.display import visible
from screening.words import count_of
from storage.batches.batch_state import ENDED, Caps, UnknownBatch
from storage.batches.batches import BatchSummary, Progress, find_batch, list_batches
from storage.batches.counts import PENDING
from storage.database import Database

T = TypeVar("T")
N = TypeVar("N", int, float)
CASE_ID = re.compile("[0-9a-f]{32}")


def case_of(query: Mapping[str, str]) -> str | None:
    """The case that an address names; None where there is none, or something that cannot be one."""
    found = query.get("case", "")
    return found if CASE_ID.fullmatch(found) else None


def in_address(name: str, value: str | None) -> None:
    """Let this stand in the address; None or nothing takes it out."""
    if value:
        st.query_params[name] = value
    else:
        st.query_params.pop(name, None)


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
    """`number_input` whose limits make room for ``now``, which may lie beyond what a form would take."""
    shown: N = place.number_input(words, min(low, now), max(high, now), now, step, format, **options)
    return shown


def choose_caps(key: str) -> Caps:
    left, right = st.columns(2)
    most = left.number_input("Response limit", min_value=1, value=None, placeholder="none", key=f"{key}most_calls")
    cost = right.number_input("Cost limit (USD)", min_value=0.01, value=None, placeholder="none", key=f"{key}most_cost")
    return Caps(max_calls=most, max_cost_usd=cost)


def select(
    place: Any, words: str, options: Mapping[T, str], now: object, key: str | None = None, help: str | None = None
) -> T:
    """One of these, shown in words; the first where ``now`` is none of them."""
    keys = list(options)
    at = keys.index(now) if now in keys else 0
    chosen: T = place.selectbox(words, keys, at, options.__getitem__, key=key, help=help)
    return chosen


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


def pressed_rows(table: str) -> list[int]:
    """The row of a table in which a cell was pressed just now, else those that are ticked."""
    selection, before = st.session_state[table]["selection"], st.session_state.get(f"{table}_pressed")
    pressed = st.session_state[f"{table}_pressed"] = list(selection["cells"])
    return [row for row, _ in pressed] if pressed and pressed != before else list(selection["rows"])


def choose_cases(
    rows: Sequence[Any], ids: Sequence[str], name: str, mode: Literal["multi-row", "single-row"], **of: Any
) -> list[str]:
    """A table of these cases, and those ticked; with a link to one alone. No tick is taken over into another list."""
    key = f"{name}_{sha256(' '.join(ids).encode()).hexdigest()[:16]}"
    chosen = st.dataframe(rows, hide_index=True, on_select="rerun", selection_mode=mode, key=key, **of)
    picked = [ids[at] for at in chosen["selection"]["rows"]]
    if len(picked) == 1:
        case_link(picked[0])
    return picked


def results_address(batch_id: str, **filters: str) -> str:
    """The address of a list of results.

    >>> results_address("b1", outcome="safe", reference="unsafe")
    '/results?batch=b1&outcome=safe&reference=unsafe'
    """
    return f"/results?{urlencode({'batch': batch_id, **filters})}"


def result_links_html(batch_id: str, found: Progress, *, linked: bool = True) -> str:
    """Counts of a batch by outcome, each with its list for whoever may see outcomes."""
    counted = (
        ("safe", found.safe, "safe", Outcome.SAFE.value),
        ("unsafe", found.unsafe, "unsafe", Outcome.UNSAFE.value),
        ("person", found.human_review, "escalated", Outcome.HUMAN_REVIEW.value),
        ("quiet", found.pending, "not screened" if found.state in ENDED else "pending", PENDING),
        ("", found.accepted, "all", None),
    )
    links = []
    for kind, count, words, outcome in counted:
        address = results_address(batch_id, **({} if outcome is None else {"outcome": outcome}))
        links.append(Link(words, address if linked else None, f"{count:,}", kind))
    return links_html(links)


FIELDS = ("decide_why_", "follow_up_note_")
_RECORDED = "typed_recorded"


def keep_typed(person: Actor, *, fields: bool = True) -> None:
    """Have the browser keep what is typed in a page's `FIELDS` until it is recorded; once a page."""
    recorded = st.session_state.pop(_RECORDED, [])
    if not fields and not recorded:
        return
    with st.container(key="typed"):
        mount("typed", {"me": person.id, "fields": FIELDS, "recorded": recorded}, "typed_fields")


def forget_typed(key: str) -> None:
    st.session_state[_RECORDED] = [*st.session_state.get(_RECORDED, ()), key]


def say_after_rerun(key: str, words: str) -> NoReturn:
    """Run the page again, which says this where `show_said` has its place."""
    st.session_state[f"{key}_said"] = words
    st.rerun()


def show_said(key: str, say: Callable[..., object] = st.success, **of: Any) -> bool:
    """Say once what `say_after_rerun` left by this key; whether there was anything."""
    if words := st.session_state.pop(f"{key}_said", None):
        say(words, **of)
    return bool(words)


def how_to_read(said: str, name: str, **values: object) -> None:
    """One sentence below a figure, and how to read it, as `words.toml` has it by this name, behind a button."""
    left, right = st.columns([4, 1], vertical_alignment="center")
    left.caption(said)
    with right.popover("How to read this", type="tertiary"):
        st.markdown(WORDS["how_to_read"][name].format(**values))


MOST_BATCHES = 200


def choose_batch(db: Database, person: Actor, page: str) -> BatchSummary | None:
    """The batch chosen, which stands in the address; the newest one where none is, None where there is no batch."""
    found = {batch.id: batch for batch in list_batches(db, person, MOST_BATCHES, now=context.now())}
    asked = st.query_params.get("batch")
    if asked and asked not in found:
        try:
            found[asked] = find_batch(db, person, asked, now=context.now())
        except UnknownBatch:
            st.error(
                f"There is no such upload{'; the newest is shown' if found else ''}.", icon=":material/search_off:"
            )
    if not found:
        return None
    ids, titles = list(found), batch_titles(found.values())
    at = ids.index(asked) if asked in found else 0
    chosen = st.selectbox("Upload", ids, index=at, format_func=titles.__getitem__, key=f"{page}_batch")
    if asked is None:
        st.query_params["batch"] = chosen
    elif chosen != asked:
        st.query_params.from_dict({"batch": chosen})  # the case or the cell in the address was another batch's
    return found[chosen]


def batch_titles(batches: Iterable[BatchSummary]) -> dict[str, str]:
    """Each batch in one line of its own, by id."""
    told = {one.id: (visible(one.name), local_time(one.created_at), one.progress.accepted) for one in batches}
    return unique_labels({key: f"{name} · {at} · {count_of(texts, 'text')}" for key, (name, at, texts) in told.items()})


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
