"""Reports as one HTML file: tables, and plots as SVG. Nothing is loaded from anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

from tidelog.jobs.axes import figure

_STYLE: Final = Path(__file__).with_name("page.css")


class Code(str):
    """Text of a cell that is shown as a program."""

    __slots__ = ()


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
        """`left_out`: how many further rows are not shown."""
        numeric = [bool(rows) and all(_is_number(row[column]) for row in rows) for column in range(len(headings))]
        head = "".join(
            f"<th{' class=n' if right else ''}>{escape(each)}</th>"
            for each, right in zip(headings, numeric, strict=True)
        )
        body = "".join(f"<tr>{''.join(_cell(each) for each in row)}</tr>" for row in rows)
        self._parts.append(f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>')
        if left_out > 0:
            self.text(f"and {figure(left_out)} more")

    def plot(self, drawn: str) -> None:
        """What a function of `plots` returns."""
        self._parts.append(drawn)

    def html(self) -> str:
        title, style = escape(self.title), _STYLE.read_text("utf-8")
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{style}</style></head>'
            f"<body><h1>{title}</h1>\n" + "\n".join(self._parts) + "\n</body></html>\n"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if isinstance(value, Code):
        return f"<td><code>{escape(value)}</code></td>"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape('-' if value is None or value == '' else str(value))}</td>"
    return f'<td class="n">{figure(value)}</td>'
