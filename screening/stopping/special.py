"""SciPy's special functions by their names there, as attributes of this module: `special.betaln(3, 7)`.

SciPy is imported when the first of them is asked for. That takes longer than a page takes to be drawn, and app, worker
and command line begin without any.

>>> from screening.stopping import special
>>> round(float(special.betainc(1, 3, 0.5)), 4)
0.875
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """The function of this name, kept as if it had been imported. AttributeError where SciPy has none."""
    if name.startswith("__"):
        raise AttributeError(name)
    import scipy.special

    function = globals()[name] = getattr(scipy.special, name)
    return function
