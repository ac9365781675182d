"""Words that agree with their number."""


def count_of(number: int, one: str, several: str = "") -> str:
    """How many of something; ``several`` where that is more than an s behind ``one``.

    >>> count_of(1, "text"), count_of(1200, "text"), count_of(2, "text was", "texts were")
    ('1 text', '1,200 texts', '2 texts were')
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
