"""A field for a number that is kept somewhere."""

from typing import Any, TypeVar

from streamlit.delta_generator import DeltaGenerator

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
