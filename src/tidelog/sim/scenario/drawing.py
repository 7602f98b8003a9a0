"""Draws the replicas of a log in a plain terminal, one row each, offsets below each other.

    orders-0: leader 1 in epoch 0, replicas 1,2,3, ISR 1,2
    NODE  ROLE       EPOCH  LEO   HW    ISR          EPOCHS   LOG  0       1
    * 1   leads      0      2 +1  1     1,2 [1,2,3]  0:0           @0 a  | b
      2   follows 1  0      1     1                  0:0           @0 a  |
      3   down

`*` marks who leads, `+1` what moved since the last step, `@0` the first record of leader epoch 0, `|` the replica's own
high watermark. Where nothing happens for a while, a column stands for many offsets.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidelog.sim.scenario.picture import Copy, Entry, Picture, Replica
from tidelog.sim.scenario.replication.values import shortened

# A kind of text, and the text: whoever prints it decides on colours.
Paint: TypeAlias = Callable[[str, str], str]
TITLE: Final = "title"
HEADING: Final = "heading"
LEADER: Final = "leader"
ABSENT: Final = "absent"
MOVED: Final = "moved"
COMMITTED: Final = "committed"
UNCOMMITTED: Final = "uncommitted"

# As many offsets in a row, at least, share a column.
_LONG: Final = 4
_HEADINGS: Final = ("NODE", "ROLE", "EPOCH", "LEO", "HW")


class _Cell(NamedTuple):
    text: str
    kind: str = ""


def plain(kind: str, text: str) -> str:
    return text


def draw(picture: Picture, before: Picture | None, paint: Paint = plain) -> list[str]:
    """`before` is the same log after the last step, if there was one."""
    was = {} if before is None else {replica.node_id: replica.copy for replica in before.replicas}
    rows = [_row(picture, replica, was.get(replica.node_id)) for replica in picture.replicas]
    logs = _Logs([replica.copy for replica in picture.replicas if replica.copy is not None])
    headings = [_Cell(text, HEADING) for text in (*_HEADINGS, *picture.columns)]
    # A column in which nobody has anything says nothing.
    shown = [at for at in range(len(headings)) if at < len(_HEADINGS) or any(row[at].text for row in rows)]
    widths = [max(len(row[at].text) for row in (headings, *rows)) for at in shown]
    lines = [paint(TITLE, f"{picture.name}: {picture.title}")]
    tails = [logs.heading(paint), *(logs.line(replica.copy, paint) for replica in picture.replicas)]
    for row, tail in zip((headings, *rows), tails, strict=True):
        cells = [_painted(row[at], width, paint) for at, width in zip(shown, widths, strict=True)]
        lines.append(f"{'  '.join(cells)}  {tail}".rstrip())
    return lines


def _painted(cell: _Cell, width: int, paint: Paint) -> str:
    padding = " " * (width - len(cell.text))
    return (paint(cell.kind, cell.text) if cell.kind and cell.text else cell.text) + padding


def _row(picture: Picture, replica: Replica, was: Copy | None) -> list[_Cell]:
    kind = LEADER if replica.leads else ABSENT if replica.copy is None else ""
    row = [_Cell(f"{'*' if replica.leads else ' '} {replica.node_id}", kind), _Cell(replica.role, kind)]
    copy = replica.copy
    if copy is None:
        return row + [_Cell("")] * (len(_HEADINGS) - len(row) + len(picture.columns))
    row.append(_number(copy.epoch, None))
    row.append(_number(copy.log_end_offset, None if was is None else was.log_end_offset))
    row.append(_number(copy.high_watermark, None if was is None else was.high_watermark))
    return row + [_Cell(text) for text in replica.more]


def _number(value: int | None, was: int | None) -> _Cell:
    if value is None:
        return _Cell("?")
    if was is None or was == value:
        return _Cell(str(value))
    return _Cell(f"{value} {value - was:+d}", MOVED)


class _Logs:
    """Columns of offsets that all replicas of a picture share."""

    def __init__(self, copies: Sequence[Copy]) -> None:
        self._entries = [{entry.offset: entry for entry in copy.entries} for copy in copies]
        self._marks = {copy.high_watermark for copy in copies}
        start = min((copy.log_start_offset for copy in copies), default=0)
        end = max((copy.log_end_offset for copy in copies), default=0)
        self._columns = list(self._split(range(start, end)))
        self._widths = [
            max(len(text) for text in (_span(column), *(_text(entries, column) for entries in self._entries)))
            for column in self._columns
        ]
        self._end = end

    def _split(self, offsets: range) -> Iterator[range]:
        """Long stretches that are the same kind of thing on every replica stay together, all else stands alone."""
        first = offsets.start
        for at in range(offsets.start, offsets.stop + 1):
            if at < offsets.stop and at not in self._marks and self._kinds(at) == self._kinds(first):
                continue
            if at - first >= _LONG:
                yield range(first, at)
            else:
                yield from (range(each, each + 1) for each in range(first, at))
            first = at

    def _kinds(self, offset: int) -> list[int | None]:
        """The epoch of the record on each replica."""
        return [entries[offset].epoch if offset in entries else None for entries in self._entries]

    def heading(self, paint: Paint) -> str:
        cells = (_span(column).ljust(width) for column, width in zip(self._columns, self._widths, strict=True))
        return paint(HEADING, ("LOG  " + "   ".join(cells)).rstrip())

    def line(self, copy: Copy | None, paint: Paint) -> str:
        if copy is None:
            return ""
        entries = {entry.offset: entry for entry in copy.entries}
        mark = copy.high_watermark
        parts = []
        for column, width in zip(self._columns, self._widths, strict=True):
            text = _text(entries, column)
            committed = mark is not None and column.start < mark
            parts.append("| " if column.start == mark else "  ")
            parts.append(_painted(_Cell(text, COMMITTED if committed else UNCOMMITTED), width, paint) + " ")
        parts.append("|" if mark == self._end else "")
        return "   " + "".join(parts).rstrip()


def _span(column: range) -> str:
    return str(column.start) if len(column) == 1 else f"{column.start}..{column.stop - 1}"


def _text(entries: dict[int, Entry], column: range) -> str:
    found = [entries[offset] for offset in column if offset in entries]
    if not found:
        return ""
    before = entries.get(column.start - 1)
    epoch = "" if before is not None and before.epoch == found[0].epoch else f"@{found[0].epoch} "
    words = shortened([entry.value for entry in found])
    # Values that do not count up: the first and the last say enough.
    return epoch + (words[0] if len(words) == 1 else f"{words[0]} ... {words[-1]}")
