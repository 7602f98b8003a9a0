"""Reports as one HTML file: tables, and plots as SVG. Nothing is loaded from anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from tidelog.jobs.axes import figure

# Colours of series differ in brightness as well, so that a colour-blind reader and a grey printer tell them apart.
_STYLE: Final = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d8dee4;--grid:#eaeef2;--head:#f6f8fa;
--good:#1a7f37;--warn:#bf8700;--bad:#cf222e;--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;
--c5:#9a6700;--n0:#0a3069;--n1:#0969da;--n2:#54aeff;--n3:#b6e3ff;--n4:#ddf4ff;--n5:#ddf4ff}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9198a1;--line:#30363d;--grid:#21262d;
--head:#161b22;--good:#3fb950;--warn:#d29922;--bad:#f85149;--c0:#58a6ff;--c1:#f0883e;--c2:#3fb950;--c3:#bc8cff;
--c4:#f778ba;--c5:#d29922;--n0:#cae8ff;--n1:#79c0ff;--n2:#388bfd;--n3:#1158c7;--n4:#0c2d6b;--n5:#0c2d6b}}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:var(--fg);
background:var(--bg)}
h1{font-size:1.6rem;margin:0 0 .3rem} h2{font-size:1.15rem;margin:2.2rem 0 .5rem} p{margin:.4rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{font-weight:600;background:var(--head)} th.n,td.n{text-align:right} td.n{white-space:nowrap}
code{background:var(--head);padding:.1rem .3rem;border-radius:3px;font-size:.9em;overflow-wrap:anywhere}
p.good{color:var(--good);font-weight:600} p.bad{color:var(--bad);font-weight:600} .scroll,.plot{overflow-x:auto}
svg{width:100%;min-width:36rem;height:auto;display:block} svg text{font:12px system-ui,sans-serif;fill:var(--dim)}
svg .strong{fill:var(--fg)} svg .halo{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}
.grid{stroke:var(--grid)} .axis{stroke:var(--dim);fill:none} .limit{stroke:var(--bad);stroke-dasharray:6 4}
.line{fill:none;stroke-width:2;stroke-linejoin:round} .whisker{stroke:var(--fg);fill:none;stroke-width:1.5}
.shade{opacity:.16} .good{fill:var(--good)} .warn{fill:var(--warn)} .bad{fill:var(--bad)} .span.good{opacity:.45}
.legend{margin:.4rem 0 0;color:var(--dim);font-size:.87rem} .legend span{margin-right:1.2rem;white-space:nowrap}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em;vertical-align:-.05em}
""" + "".join(
    f".line.c{n}{{stroke:var(--c{n})}}.fill.c{n}{{fill:var(--c{n})}}.fill.n{n}{{fill:var(--n{n})}}"
    f".legend .c{n}{{background:var(--c{n})}}.legend .n{n}{{background:var(--n{n})}}"
    for n in range(6)
)


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
        title = escape(self.title)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>'
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
