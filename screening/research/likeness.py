"""Which texts are most alike by the letters they are made of: what mistakes have in common."""

from collections.abc import Mapping, Sequence

MOST_COMPARED = 1_000


def most_alike(texts: Mapping[str, str], name: str, most: int = 3) -> Sequence[tuple[str, float]]:
    """The texts most like the one of this name, with their likeness from 0 to 1, the most alike first.

    Likeness is the cosine between counts of letter sequences of 3 to 5 inside words, weighted down where many texts
    have them (TF-IDF). Texts that share nothing are left out; so is everything where there is no second text.

    >>> texts = {"a": "tired of it all", "b": "so tired of it", "c": "Bread recipes"}
    >>> [name for name, _ in most_alike(texts, "a")]
    ['b']
    """
    names = [one for one in texts if texts[one].strip()]
    if name not in names or len(names) < 2:
        return ()
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True).fit_transform(
        texts[one] for one in names
    )
    alike = (weights @ weights[names.index(name)].T).toarray().ravel()
    order = sorted(range(len(names)), key=lambda place: (-alike[place], place))
    found = [(names[place], float(min(1.0, alike[place]))) for place in order if names[place] != name]
    return tuple(pair for pair in found[:most] if pair[1] > 0)
