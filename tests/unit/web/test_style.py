"""The page's colours: every text has enough contrast, light and dark. Nothing moves by itself."""

import re
from pathlib import Path
from typing import Final

import pytest

import tidelog.web

STATIC: Final = Path(tidelog.web.__file__).parent / "static"
STYLE: Final = "".join(path.read_text("utf-8") for path in sorted(STATIC.glob("*.css")))
# WCAG 2, level AA, for text of any size.
LEAST: Final = 4.5
SCHEMES: Final = ("light", "dark")


def colours(scheme: str) -> dict[str, str]:
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", STYLE)
    return {name: (light, dark)[SCHEMES.index(scheme)] for name, light, dark in found}


def luminance(colour: str) -> float:
    def linear(part: str) -> float:
        value = int(part, 16) / 255
        return value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(colour[at : at + 2]) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_stands_out(scheme: str) -> None:
    known = colours(scheme)
    # Only a disabled button may be faint.
    rules = [body for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", STYLE) if ":disabled" not in selector]
    written = {name for body in rules for name in re.findall(r"(?<![\w-])color: var\(--([\w-]+)\)", body)}
    assert {"ink", "muted", "warning", "danger"} <= written
    weak = {
        f"{name} on {ground}": round(found, 2)
        for name in sorted(written - {"leader-ink"})
        for ground in ("panel", "paper")
        if (found := contrast(known[name], known[ground])) < LEAST
    }
    assert weak == {}
    assert contrast(known["leader-ink"], known["leader"]) >= LEAST


@pytest.mark.parametrize("scheme", SCHEMES)
def test_marks_and_borders_that_mean_something_stand_out(scheme: str) -> None:
    known = colours(scheme)
    # WCAG 2, level AA, for parts of a drawing.
    marks = ("committed", "isr", "leader", "warning", "stall", "danger", "good", "focus")
    weak = {
        f"{name} on {ground}": round(found, 2)
        for name in marks
        for ground in ("panel", "paper", "track")
        if (found := contrast(known[name], known[ground])) < 3.0
    }
    assert weak == {}


def test_nothing_is_animated() -> None:
    """Reduced motion needs no rule of its own as long as the page has no motion."""
    assert re.findall(r"(?:transition|animation|scroll-behavior)[\w-]*:", STYLE) == []
