"""Words for the options of a select box. It hands back the words, not the option: two alike would choose the last."""

from collections import Counter
from collections.abc import Mapping
from unicodedata import normalize

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
