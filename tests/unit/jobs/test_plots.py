"""Axes have round ticks with units, and plots draw each value and each span where and as long as it was."""

import re
from xml.etree import ElementTree

import pytest

from tidelog.jobs.axes import LEFT, RIGHT, WIDTH, numbers, times
from tidelog.jobs.plots import (
    Bar,
    Lane,
    Limit,
    Series,
    Span,
    bar_plot,
    column_plot,
    lane_plot,
    line_plot,
    nested_plot,
)

NOON_MS = 1_767_614_400_000
X = numbers(0, 10, "seconds")


def parts(drawn: str, tag: str, kind: str) -> list[dict[str, str]]:
    """The attributes of all elements of a picture that have a class."""
    root = ElementTree.fromstring(drawn[drawn.index("<svg") : drawn.index("</svg>") + 6])
    return [each.attrib for each in root.iter() if each.tag.endswith(tag) and kind in each.get("class", "").split()]


@pytest.mark.parametrize(
    ("high", "whole", "labels"),
    [
        (8.139, False, ["0", "2", "4", "6", "8", "10"]),
        (110_350, False, ["0", "20,000", "40,000", "60,000", "80,000", "100,000", "120,000"]),
        (3, True, ["0", "1", "2", "3"]),
        (0.7, False, ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]),
        (0, True, ["0", "1"]),
    ],
)
def test_ticks_are_round_numbers_from_zero(high: float, whole: bool, labels: list[str]) -> None:
    axis = numbers(0, high, "records", whole=whole)
    assert [tick.label for tick in axis.ticks] == labels
    assert axis.share(0) == 0 and axis.share(axis.high) == 1


@pytest.mark.parametrize(
    ("minutes", "labels"),
    [
        (1, ["12:00:00", "12:00:10", "12:00:20", "12:00:30", "12:00:40", "12:00:50", "12:01:00"]),
        (90, ["12:00", "12:15", "12:30", "12:45", "13:00", "13:15", "13:30"]),
        (26 * 60, ["05 Jan 12:00", "05 Jan 18:00", "06 Jan 00:00", "06 Jan 06:00", "06 Jan 12:00"]),
    ],
)
def test_an_axis_of_moments_has_round_times(minutes: int, labels: list[str]) -> None:
    axis = times(NOON_MS, NOON_MS + minutes * 60_000)
    assert [tick.label for tick in axis.ticks] == labels
    assert axis.title.startswith("time (UTC), 2026-01-05 12:00:00 to ")


def test_an_outage_is_drawn_to_its_length() -> None:
    wide = WIDTH - LEFT - RIGHT
    (shade,) = parts(line_plot([Series("x", [(0, 1)])], x=X, y_title="", spans=[Span(2, 4.5, "down")]), "rect", "shade")
    assert float(shade["width"]) == pytest.approx(wide / 4, abs=0.1)
    lanes = lane_plot([Lane("node 1", [Span(0, 2, kind="good"), Span(2, 2.0001), Span(5, 10)])], x=X, words="nodes")
    up, brief, long = parts(lanes, "rect", "span")
    assert float(long["x"]) == pytest.approx(float(up["x"]) + 2.5 * float(up["width"]), abs=0.2)
    assert float(brief["width"]) >= 1, "seen however short it is"


def test_windows_are_columns_side_by_side_and_percentiles_lie_in_each_other() -> None:
    one, two = Series("shrinks", [(0, 4), (5, 0)]), Series("moves", [(0, 2), (5, 1)])
    columns = parts(column_plot([one, two], x=X, width=5, y_title="", whole=True), "rect", "fill")
    assert [each["class"] for each in columns] == ["fill c0", "fill c1", "fill c1"]
    first, second, _ = ((float(each["x"]), float(each["width"])) for each in columns)
    assert second[0] >= first[0] + first[1], "none covers another"
    nested = parts(nested_plot([two, one], x=X, width=5, y_title=""), "rect", "fill")
    assert [each["class"] for each in nested] == ["fill n1", "fill n0", "fill n0"], "the largest is drawn first"


def test_labels_are_escaped_and_stay_in_the_picture() -> None:
    series = [Series("<lag>", [(0.0, 1.0), (5.0, 3.0)]), Series("b", [])]
    drawn = line_plot(series, x=X, y_title="records & more", steps=True, limit=Limit(2, "<2"))
    assert "&lt;lag&gt;" in drawn and "records &amp; more" in drawn and "&lt;2" in drawn
    bars = bar_plot([Bar("a" * 20, 100.0, 90.0, 100.0), Bar("b", 0.0)], unit="%", most=100)
    ends = [float(each["x"]) for each in parts(bars, "text", "strong")]
    anchors = re.findall(r'text-anchor="(\w+)">(?:100|0) %', bars)
    assert anchors == ["end", "start"] and max(ends) <= WIDTH


def test_nothing_to_draw_is_an_empty_frame() -> None:
    assert "<svg" in line_plot([], x=X, y_title="records")
    assert "<svg" in column_plot([], x=times(0, 0), width=0, y_title="")
