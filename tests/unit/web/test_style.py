"""The page's colours: whatever is written in one can be read, light and dark."""

import re
from pathlib import Path
from typing import Final

import pytest

import tidelog.web

STYLE: Final = (Path(tidelog.web.__file__).parent / "static" / "style.css").read_text("utf-8")
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
    # A button that cannot be pressed is the one thing that may be faint.
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
