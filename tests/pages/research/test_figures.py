"""Figures that are read without a key: titles, numbers at the ticks, names that do not lie on one another."""

from itertools import combinations

import plotly.graph_objects as go

from pages.research.figures import LIGHT, LINE_HEIGHT, Axes, Series, curves, histogram, log_ticks

AXES = Axes(title="What it costs", x="calls", y="accuracy", x_log=True, y_percent=True)


def drawn(*series: Series) -> go.Figure:
    return curves(series, AXES, LIGHT)


def test_a_figure_has_a_title_and_its_logarithmic_ticks_have_numbers() -> None:
    figure = drawn(Series(name="a", x=[3, 400], y=[0.5, 0.9]))
    assert figure.layout.title.text == "What it costs"
    assert list(figure.layout.xaxis.ticktext) == ["2", "5", "10", "20", "50", "100", "200"]
    assert log_ticks(1, 1000) == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]


def test_names_of_points_that_lie_together_are_left_to_the_pointer() -> None:
    crowd = Series(name="a", x=[10.0] * 12, y=[0.9] * 12, names=[f"condition {n}" for n in range(12)], mode="markers")
    apart = Series(name="b", x=[1.0, 1000.0], y=[0.1, 0.5], names=["cheap", "dear"], mode="markers")
    of_crowd, of_apart = (trace for trace in drawn(crowd, apart).data)
    assert 0 <= sum(bool(name) for name in of_crowd.text) < 12 and list(of_crowd.hovertext) == list(crowd.names or ())
    assert list(of_apart.text) == ["cheap", "dear"]


def test_two_neighbours_are_named_on_different_sides() -> None:
    figure = drawn(Series(name="a", x=[10, 10.5, 1000], y=[0.8, 0.8, 0.1], names=["one", "two", "far"], mode="markers"))
    (trace,) = figure.data
    places = [place for name, place in zip(trace.text, trace.textposition, strict=True) if name in ("one", "two")]
    assert all(a != b for a, b in combinations(places, 2)) and len(places) == 2


def test_an_undefined_value_takes_no_place() -> None:
    (trace,) = drawn(Series(name="a", x=[1, 2], y=[None, 0.5], names=["none", "some"], mode="markers")).data
    assert trace.y[0] is None and trace.text[1] == "some"


def test_a_histogram_counts_every_value_the_largest_in_the_last_part() -> None:
    """Texts on whose label all draws agree have a gap of 1: most texts, in most batches."""
    (trace,) = histogram([(0.0, 5), (0.15, 1), (0.3, 2), (0.95, 3), (1.0, 17)], 20, AXES, LIGHT).data
    assert sum(trace.y) == 28 and (trace.y[0], trace.y[3], trace.y[6], trace.y[19]) == (5, 1, 2, 20)


def test_a_name_at_the_right_end_stands_within_the_figure() -> None:
    last = Series(name="a", x=[1, 1000], y=[0.5, 0.9], names=["first", "recommended"], mode="markers")
    (trace,) = drawn(last).data
    assert trace.text[1] == "recommended" and trace.textposition[1].endswith("left")


def test_a_figure_is_the_higher_the_more_names_stand_below_it() -> None:
    few, many = (drawn(*(Series(name=f"{n}", x=[1], y=[0.5]) for n in range(names))) for names in (2, 5))
    assert many.layout.height - few.layout.height == 3 * LINE_HEIGHT
