"""Plots as SVG: lines, columns, areas inside one another, lanes of spans, and bars with intervals.

Colours are variables of the page's style, so that they suit a light and a dark screen.
"""

from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from tidelog.jobs.axes import BOTTOM, RIGHT, TOP, WIDTH, Axis, Frame, figure, numbers, svg, text

COLOURS: Final = 6
_HEIGHT: Final = 280
_ROW: Final = 26
_LANE_LABELS: Final = 120
_BAR_LABELS: Final = 300
_BAR_FIGURES: Final = 130
_CHARACTER: Final = 6.6
# A span is visible however short it is.
_LEAST_WIDTH: Final = 1.5


class Bar(NamedTuple):
    """A value, and the interval that holds the true value."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


class Series(NamedTuple):
    """A value for each x, by rising x."""

    label: str
    points: Sequence[tuple[float, float]]


class Span(NamedTuple):
    """From one x to another. `kind` is `good`, `warn` or `bad`."""

    start: float
    end: float
    label: str = ""
    kind: str = "bad"


class Lane(NamedTuple):
    """One row of spans."""

    label: str
    spans: Sequence[Span]


class Limit(NamedTuple):
    """A horizontal line at a value that matters."""

    y: float
    label: str


def legend(labels: Sequence[str]) -> str:
    """The colour of each series."""
    shown = "".join(
        f'<span><i class="c{number % COLOURS}"></i>{escape(each)}</span>' for number, each in enumerate(labels)
    )
    return f'<p class="legend">{shown}</p>'


def line_plot(
    series: Sequence[Series],
    *,
    x: Axis,
    y_title: str,
    steps: bool = False,
    whole: bool = False,
    spans: Sequence[Span] = (),
    limit: Limit | None = None,
) -> str:
    """Lines over a common pair of axes; with `steps` a value holds until the next one. `spans` are shaded."""
    most = max((value for each in series for _, value in each.points), default=0.0)
    frame = Frame(x, numbers(0, max(most, 0.0 if limit is None else limit.y), y_title, whole=whole), _HEIGHT)
    drawn = _shades(frame, spans) + frame.drawn()
    if limit is not None:
        y = frame.py(limit.y)
        drawn.append(f'<path class="limit" d="M{frame.left} {y:.1f}H{WIDTH - RIGHT}"/>')
        drawn.append(text(WIDTH - RIGHT - 8, y + 16, limit.label, "end", kind="halo"))
    for number, each in enumerate(series):
        path = ""
        for at, value in each.points:
            px, py = frame.px(at), frame.py(value)
            path += f"M{px:.1f} {py:.1f}" if not path else f"H{px:.1f}V{py:.1f}" if steps else f"L{px:.1f} {py:.1f}"
        drawn.append(f'<path class="line c{number % COLOURS}" d="{path}"/>')
    return _titled(series, svg(_HEIGHT, drawn, y_title))


def _shades(frame: Frame, spans: Sequence[Span]) -> list[str]:
    """Each span over the full height, with its label beside or in it."""
    drawn = []
    for span in spans:
        start, end = frame.px(span.start), frame.px(span.end)
        width = max(_LEAST_WIDTH, end - start)
        drawn.append(
            f'<rect class="shade {span.kind}" x="{start:.1f}" y="{TOP}" width="{width:.1f}" '
            f'height="{frame.bottom - TOP:.1f}"/>'
        )
        if span.label:
            drawn.append(_beside(span.label, start, end, TOP - 4))
    return drawn


def _beside(label: str, start: float, end: float, y: float) -> str:
    """Centred over the span, but never over the edge of the picture."""
    half = len(label) * _CHARACTER / 2
    return text(min(max((start + end) / 2, half), WIDTH - half), y, label, "middle", kind="strong")


def column_plot(series: Sequence[Series], *, x: Axis, width: float, y_title: str, whole: bool = False) -> str:
    """Columns side by side, one of each series for every window of `width`, which begins at the point's x."""
    most = max((value for each in series for _, value in each.points), default=0.0)
    frame = Frame(x, numbers(0, most, y_title, whole=whole), _HEIGHT)
    drawn = frame.drawn()
    for number, each in enumerate(series):
        for at, value in each.points:
            if not value:
                continue
            left, right = frame.px(at), frame.px(at + width)
            room = (right - left) / len(series)
            top = frame.py(value)
            drawn.append(
                f'<rect class="fill c{number % COLOURS}" x="{left + number * room:.2f}" y="{top:.1f}" '
                f'width="{max(_LEAST_WIDTH, room * 0.92):.2f}" height="{frame.bottom - top:.1f}"/>'
            )
    return _titled(series, svg(_HEIGHT, drawn, y_title))


def nested_plot(series: Sequence[Series], *, x: Axis, width: float, y_title: str, whole: bool = False) -> str:
    """Areas inside one another, for figures of which each is at least the one before, such as percentiles."""
    most = max((value for each in series for _, value in each.points), default=0.0)
    frame = Frame(x, numbers(0, most, y_title, whole=whole), _HEIGHT)
    drawn = frame.drawn()
    # The largest first: the smaller ones are drawn over it.
    for number in range(len(series) - 1, -1, -1):
        for at, value in series[number].points:
            if value:
                left, right, top = frame.px(at), frame.px(at + width), frame.py(value)
                drawn.append(
                    f'<rect class="fill n{number % COLOURS}" x="{left:.2f}" y="{top:.1f}" '
                    f'width="{max(_LEAST_WIDTH, right - left):.2f}" height="{frame.bottom - top:.1f}"/>'
                )
    labels = "".join(
        f'<span><i class="n{number}"></i>{escape(each.label)}</span>' for number, each in enumerate(series)
    )
    return f'<p class="legend">{labels}</p>{svg(_HEIGHT, drawn, y_title)}'


def lane_plot(lanes: Sequence[Lane], *, x: Axis, words: str) -> str:
    """A row for each lane, and in it each span to its length."""
    height = TOP + _ROW * len(lanes) + BOTTOM
    frame = Frame(x, None, height, _LANE_LABELS)
    drawn = frame.drawn()
    for row, lane in enumerate(lanes):
        top = TOP + row * _ROW
        drawn.append(text(_LANE_LABELS - 8, top + 17, lane.label, "end"))
        for span in lane.spans:
            start, end = frame.px(span.start), frame.px(span.end)
            drawn.append(
                f'<rect class="span {span.kind}" x="{start:.1f}" y="{top + 4}" '
                f'width="{max(_LEAST_WIDTH, end - start):.1f}" height="{_ROW - 8}"/>'
            )
        for span in lane.spans:
            # After all spans, so that none covers it.
            if span.label:
                at = max(frame.px(span.end), frame.px(span.start) + _LEAST_WIDTH) + 5
                fits = at + len(span.label) * _CHARACTER < WIDTH
                where = (at, "start") if fits else (frame.px(span.start) - 5, "end")
                drawn.append(text(where[0], top + 17, span.label, where[1], kind="strong halo"))
    return svg(height, drawn, words)


def bar_plot(bars: Sequence[Bar], *, unit: str = "", most: float | None = None) -> str:
    """Horizontal bars over an axis from zero, each with its interval as a whisker."""
    top = most or max((max(bar.value, bar.high or 0.0) for bar in bars), default=0.0) or 1.0
    height = TOP + _ROW * len(bars) + BOTTOM
    frame = Frame(numbers(0, top, unit, to_tick=most is None), None, height, _BAR_LABELS)
    drawn = frame.drawn()
    for number, bar in enumerate(bars):
        y = TOP + number * _ROW + 4
        width = frame.px(bar.value) - _BAR_LABELS
        drawn.append(text(_BAR_LABELS - 8, y + 13, bar.label, "end"))
        drawn.append(f'<rect class="fill c0" x="{_BAR_LABELS}" y="{y}" width="{width:.1f}" height="18"/>')
        end = _BAR_LABELS + width
        if bar.low is not None and bar.high is not None:
            low, high = frame.px(bar.low), frame.px(bar.high)
            drawn.append(
                f'<path class="whisker" d="M{low:.1f} {y + 9}H{high:.1f}M{low:.1f} {y + 4}v10M{high:.1f} {y + 4}v10"/>'
            )
            end = max(end, high)
        shown = f"{figure(bar.value)}{unit and ' ' + unit}"
        fits = end + 6 + len(shown) * _CHARACTER < WIDTH
        drawn.append(text(end + 6 if fits else end - 6, y + 13, shown, "start" if fits else "end", kind="strong halo"))
    return svg(height, drawn, ", ".join(bar.label for bar in bars))


def _titled(series: Sequence[Series], plot: str) -> str:
    """A legend where there is more than one series."""
    return plot if len(series) == 1 else legend([each.label for each in series]) + plot
