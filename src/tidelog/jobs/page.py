"""Reports as one HTML file: tables, and plots drawn as SVG here. Nothing is loaded from anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, NamedTuple

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.6rem;margin:0 0 .3rem} h2{font-size:1.15rem;margin:2rem 0 .5rem} p{margin:.4rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;border-bottom:1px solid #d8dee4;text-align:left;vertical-align:top}
th{font-weight:600;background:#f6f8fa} td.n{text-align:right;white-space:nowrap}
code{background:#f6f8fa;padding:.1rem .3rem;border-radius:3px;font-size:.9em;overflow-wrap:anywhere}
.good{color:#1a7f37;font-weight:600} .bad{color:#cf222e;font-weight:600} .scroll{overflow-x:auto}
svg{max-width:100%;height:auto} svg text{font:12px system-ui,sans-serif;fill:#57606a}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}th,code{background:#161b22}
th,td{border-color:#30363d}svg text{fill:#8b949e}}
"""
COLOURS: Final = ("#0969da", "#cf222e", "#1a7f37", "#9a6700", "#8250df", "#bf3989")
_WIDTH: Final = 860
_LEFT: Final = 60
_RIGHT: Final = 20
_TOP: Final = 12
# Above the lines: what they show, and what happened.
_HEAD: Final = 34
_WHOLE: Final = 10_000


class Code(str):
    """Text of a cell that is shown as a program would be."""

    __slots__ = ()


class Bar(NamedTuple):
    """A value, and the interval that it is believed to lie in."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


class Series(NamedTuple):
    """A line: points by rising x."""

    label: str
    points: Sequence[tuple[float, float]]


class Mark(NamedTuple):
    """Something that happened at an x."""

    x: float
    label: str


def figure(value: float) -> str:
    """A number for people: large ones whole and in groups of three, small ones to four digits."""
    return f"{value:,.0f}" if abs(value) >= _WHOLE or value == int(value) else f"{value:.4g}"


@dataclass(slots=True)
class Page:
    """Filled from top to bottom."""

    title: str
    _parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str, *, good: bool | None = None) -> None:
        mark = "" if good is None else f' class="{"good" if good else "bad"}"'
        self._parts.append(f"<p{mark}>{escape(text)}</p>")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]], *, left_out: int = 0) -> None:
        """`left_out`: how many rows there are beside these."""
        head = "".join(f"<th>{escape(each)}</th>" for each in headings)
        body = "".join(f"<tr>{''.join(_cell(each) for each in row)}</tr>" for row in rows)
        self._parts.append(f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>')
        if left_out > 0:
            self.text(f"and {figure(left_out)} more")

    def bars(self, bars: Sequence[Bar], *, unit: str = "", most: float | None = None) -> None:
        self._parts.append(bar_plot(bars, unit=unit, most=most))

    def lines(
        self,
        series: Sequence[Series],
        *,
        x_label: str,
        y_label: str,
        steps: bool = False,
        marks: Sequence[Mark] = (),
    ) -> None:
        self._parts.append(line_plot(series, x_label=x_label, y_label=y_label, steps=steps, marks=marks))

    def html(self) -> str:
        title = escape(self.title)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>'
            f"<body><h1>{title}</h1>\n" + "\n".join(self._parts) + "\n</body></html>\n"
        )


def _cell(value: object) -> str:
    if isinstance(value, Code):
        return f"<td><code>{escape(value)}</code></td>"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape('-' if value is None or value == '' else str(value))}</td>"
    return f'<td class="n">{figure(value)}</td>'


def bar_plot(bars: Sequence[Bar], *, unit: str = "", most: float | None = None) -> str:
    """Bars lying on their side, each with its interval as a whisker."""
    row, label_width = 26, 300
    top = most or max((max(bar.value, bar.high or 0.0) for bar in bars), default=0.0) or 1.0
    room = _WIDTH - label_width - 130
    height = _TOP + row * len(bars) + 8
    drawn = []
    for number, bar in enumerate(bars):
        y = _TOP + number * row
        width = max(0.0, min(1.0, bar.value / top)) * room
        drawn.append(f'<text x="{label_width - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>')
        drawn.append(
            f'<rect x="{label_width}" y="{y}" width="{width:.1f}" height="18" fill="{COLOURS[0]}" opacity=".8"/>'
        )
        end = label_width + width
        if bar.low is not None and bar.high is not None:
            low, high = (label_width + max(0.0, min(1.0, each / top)) * room for each in (bar.low, bar.high))
            drawn.append(
                f'<path d="M{low:.1f} {y + 9}H{high:.1f}M{low:.1f} {y + 4}v10M{high:.1f} {y + 4}v10" '
                f'stroke="{COLOURS[1]}" fill="none" stroke-width="1.5"/>'
            )
            end = max(end, high)
        drawn.append(f'<text x="{end + 6:.1f}" y="{y + 14}">{figure(bar.value)}{escape(unit)}</text>')
    return _svg(height, drawn)


def line_plot(
    series: Sequence[Series], *, x_label: str, y_label: str, steps: bool = False, marks: Sequence[Mark] = ()
) -> str:
    """Lines over a common pair of axes; with `steps` a value holds until the next one."""
    height, bottom = 282, 48
    points = [point for each in series for point in each.points]
    if not points:
        return f"<p>{escape(y_label)}: nothing to draw.</p>"
    x0, x1 = min(x for x, _ in points), max(x for x, _ in points)
    y1 = max(y for _, y in points) or 1.0
    wide, high = _WIDTH - _LEFT - _RIGHT, height - _HEAD - bottom

    def at(x: float, y: float) -> tuple[float, float]:
        return _LEFT + (x - x0) / ((x1 - x0) or 1.0) * wide, _HEAD + high - y / y1 * high

    drawn = [
        f'<path d="M{_LEFT} {_HEAD}V{_HEAD + high}H{_WIDTH - _RIGHT}" stroke="#8b949e" fill="none"/>',
        f'<text x="{_LEFT - 6}" y="{_HEAD + 10}" text-anchor="end">{figure(y1)}</text>',
        f'<text x="{_LEFT - 6}" y="{_HEAD + high}" text-anchor="end">0</text>',
        f'<text x="{_LEFT}" y="{_HEAD + high + 16}">{figure(x0)}</text>',
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEAD + high + 16}" text-anchor="end">{figure(x1)} {escape(x_label)}</text>',
        f'<text x="{_LEFT}" y="{_TOP}">{escape(y_label)}</text>',
    ]
    for mark in marks:
        px, _ = at(mark.x, 0)
        drawn.append(f'<path d="M{px:.1f} {_HEAD}v{high}" stroke="#8b949e" fill="none" stroke-dasharray="3 3"/>')
        drawn.append(f'<text x="{px:.1f}" y="{_HEAD - 6}" text-anchor="middle">{escape(mark.label)}</text>')
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        path = ""
        for x, y in each.points:
            px, py = at(x, y)
            if not path:
                path = f"M{px:.1f} {py:.1f}"
            else:
                path += f"H{px:.1f}V{py:.1f}" if steps else f"L{px:.1f} {py:.1f}"
        drawn.append(f'<path d="{path}" stroke="{colour}" fill="none" stroke-width="1.6"/>')
        x = _LEFT + number * 190
        drawn.append(f'<text x="{x}" y="{height - 8}" style="fill:{colour}">{escape(each.label)}</text>')
    return _svg(height, drawn)


def _svg(height: int, drawn: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(drawn)}</svg>'
    )
