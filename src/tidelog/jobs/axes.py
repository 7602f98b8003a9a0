"""Axes of a plot: round ticks, positions in the picture, a grid, and labels with units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 900
LEFT: Final = 64
RIGHT: Final = 24
TOP: Final = 26
BOTTOM: Final = 42
_MOST_TICKS: Final = 8
_WHOLE: Final = 10_000
_STEPS: Final = (1, 2, 5, 10)
_SECOND_MS: Final = 1000
_DAY_MS: Final = 86_400_000
# Steps of an axis of time, in seconds.
# fmt: off
_TIME_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
)
# fmt: on


def figure(value: float) -> str:
    """A number for people: large ones whole and in groups of three, small ones to four digits."""
    return f"{value:,.0f}" if abs(value) >= _WHOLE or value == int(value) else f"{value:.4g}"


class Tick(NamedTuple):
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """`title` says what is measured, and in which unit."""

    low: float
    high: float
    ticks: Sequence[Tick]
    title: str

    def share(self, value: float) -> float:
        """Where a value is between the ends, from 0 to 1."""
        return min(1.0, max(0.0, (value - self.low) / ((self.high - self.low) or 1.0)))


def numbers(low: float, high: float, title: str, *, whole: bool = False, to_tick: bool = True) -> Axis:
    """An axis from zero, or from `low` if that is negative, that ends at a round number above `high`, or at `high`."""
    low, high = min(0.0, low), high if high > 0 else 1.0
    step = _round_step((high - low) / _MOST_TICKS)
    if whole:
        step = max(1.0, step)
    end = math.ceil(high / step - 1e-9) * step if to_tick else high
    first = math.ceil(low / step)
    ticks = [
        Tick(number * step, figure(round(number * step, 9))) for number in range(first, int(end / step + 1e-9) + 1)
    ]
    return Axis(low, end, ticks, title)


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in _STEPS if factor * power >= least * (1 - 1e-9))


def times(low_ms: float, high_ms: float) -> Axis:
    """An axis of moments, in milliseconds since 1970; ticks are at round times in UTC."""
    span_s = max(1.0, (high_ms - low_ms) / _SECOND_MS)
    step_s = next((step for step in _TIME_STEPS_S if span_s / step <= _MOST_TICKS), 0)
    step_s = step_s or math.ceil(span_s / _MOST_TICKS / _TIME_STEPS_S[-1]) * _TIME_STEPS_S[-1]
    step_ms = step_s * _SECOND_MS
    words = "%H:%M:%S" if step_s < 60 else "%H:%M"
    if int(low_ms // _DAY_MS) != int(high_ms // _DAY_MS):
        words = "%d %b" if step_ms >= _DAY_MS else "%d %b %H:%M"
    ticks = [
        Tick(number * step_ms, _moment(number * step_ms, words))
        for number in range(math.ceil(low_ms / step_ms), math.floor(high_ms / step_ms) + 1)
    ]
    return Axis(
        low_ms, high_ms, ticks, f"time (UTC), {_moment(low_ms, '%Y-%m-%d %H:%M:%S')} to {_end(low_ms, high_ms)}"
    )


def _end(low_ms: float, high_ms: float) -> str:
    same_day = int(low_ms // _DAY_MS) == int(high_ms // _DAY_MS)
    return _moment(high_ms, "%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S")


def _moment(ms: float, words: str) -> str:
    return datetime.fromtimestamp(ms / _SECOND_MS, UTC).strftime(words)


@dataclass(frozen=True, slots=True)
class Frame:
    """The area between two axes. Without `y` it has rows, which the plot labels itself."""

    x: Axis
    y: Axis | None
    height: int
    left: int = LEFT

    @property
    def bottom(self) -> float:
        return self.height - BOTTOM

    def px(self, x: float) -> float:
        return self.left + self.x.share(x) * (WIDTH - self.left - RIGHT)

    def py(self, y: float) -> float:
        assert self.y is not None, "rows have no scale"
        return self.bottom - self.y.share(y) * (self.bottom - TOP)

    def drawn(self) -> list[str]:
        right = WIDTH - RIGHT
        parts = []
        if self.y is not None:
            parts.append(text(4, TOP - 12, self.y.title))
            for tick in self.y.ticks:
                y = self.py(tick.at)
                parts.append(f'<path class="grid" d="M{self.left} {y:.1f}H{right}"/>')
                parts.append(text(self.left - 8, y + 4, tick.label, "end"))
        for tick in self.x.ticks:
            x = self.px(tick.at)
            parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{self.bottom + 4}"/>')
            parts.append(text(x, self.bottom + 18, tick.label, "middle"))
        parts.append(f'<path class="axis" d="M{self.left} {TOP}V{self.bottom}H{right}"/>')
        parts.append(text((self.left + right) / 2, self.height - 6, self.x.title, "middle"))
        return parts


def text(x: float, y: float, words: str, anchor: str = "start", *, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f'<text{mark} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def svg(height: int, drawn: Sequence[str], words: str) -> str:
    """A picture; `words` describe it to screen readers."""
    return (
        f'<div class="plot"><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(words)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(drawn)}</svg></div>'
    )
