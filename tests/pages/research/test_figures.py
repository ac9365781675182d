"""Figures that are read without a key: titles, numbers at the ticks, names that do not lie on one another."""

from pages.research.figures import Series, curves, histogram


def test_an_undefined_value_takes_no_place() -> None:
    series = Series(name="a", x=[1, 2], y=[None, 0.5], names=["none", "some"], mode="markers")
    (trace,) = curves([series], "What it costs", "calls", "accuracy", x_log=True, y_percent=True).data
    assert trace.y[0] is None and trace.text[1] == "some"


def test_a_histogram_counts_every_value_the_largest_in_the_last_part() -> None:
    """Texts on whose label all draws agree have a gap of 1: most texts, in most batches."""
    (trace,) = histogram([(0.0, 5), (0.15, 1), (0.3, 2), (0.95, 3), (1.0, 17)], 20, "Margins", "margin", "texts").data
    assert sum(trace.y) == 28 and (trace.y[0], trace.y[3], trace.y[6], trace.y[19]) == (5, 1, 2, 20)
