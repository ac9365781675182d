"""Screening of text for self-harm risk: rules, pipeline, samplers and what may be claimed of them.

For notebooks and programs: ``from screening import screen_texts, replay, metrics, certify`` (docs/library.md). They are
imported when they are first asked for, so that the command line stays quick.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from screening.evaluation.library import certify as certify
    from screening.evaluation.library import metrics as metrics
    from screening.evaluation.library import replay as replay
    from screening.evaluation.library import screen_texts as screen_texts

__version__ = "0.1.0"
__all__ = ["__version__", "certify", "metrics", "replay", "screen_texts"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from screening.evaluation import library

    return getattr(library, name)
