"""Writes the tables of `kafka.*` keys into docs/spark-options.md: `python tools/spark_options.py`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tidelog.spark.kafka_keys import KEYS, Key, Side, Use

PAGE = Path(__file__).resolve().parent.parent / "docs" / "spark-options.md"
_BEGIN = "<!-- begin {} -->"
_END = "<!-- end {} -->"
# A cell is not wider than this, so keys with the same reason share a row up to it.
_WIDEST = 150
# All keys of each have the same reason.
_FAMILIES = ("sasl.kerberos.", "sasl.oauthbearer.")
_OTHER_SIDE = ("a consumer's key", "a producer's key")


def with_tables(page: str) -> str:
    for name, table in (("honoured", _honoured), ("ignored", _ignored), ("refused", _refused)):
        before, rest = page.split(_BEGIN.format(name) + "\n", 1)
        after = rest.split(_END.format(name), 1)[1]
        page = "\n".join((before + _BEGIN.format(name), *table(), _END.format(name) + after))
    return page


def _sides(key: Key, use: Use) -> tuple[list[str], str]:
    """The sides that treat a key so, and why. What a side ignores because the other side owns the key is left out."""
    rules = {side: key.rules[side] for side in Side if key.rules[side].use is use}
    notes = [rule.note for rule in rules.values() if not rule.note.startswith(_OTHER_SIDE)]
    sides = [side.value for side, rule in rules.items() if not rule.note.startswith(_OTHER_SIDE)]
    return sides, notes[0] if notes else ""


def _honoured() -> Iterator[str]:
    yield "| key | for | value |"
    yield "|---|---|---|"
    for key in sorted(KEYS.values(), key=lambda key: key.name):
        sides, note = _sides(key, Use.HONOURED)
        if sides:
            yield f"| `{key.name}` | {', '.join(sides)} | {note} |"


def _ignored() -> Iterator[str]:
    yield from _grouped(Use.IGNORED, "| keys | for | why they have no effect |")


def _refused() -> Iterator[str]:
    yield from _grouped(Use.REFUSED, "| keys | for | reason, and what to use |")


def _grouped(use: Use, header: str) -> Iterator[str]:
    yield header
    yield "|---|---|---|"
    groups: dict[tuple[str, str], set[str]] = {}
    for key in KEYS.values():
        sides, note = _sides(key, use)
        if sides:
            name = next((f"{family}*" for family in _FAMILIES if key.name.startswith(family)), key.name)
            groups.setdefault((", ".join(sides), note), set()).add(f"`{name}`")
    for (where, note), names in groups.items():
        for cell in _cells(sorted(names)):
            yield f"| {cell} | {where} | {note} |"


def _cells(names: Iterable[str]) -> Iterator[str]:
    cell = ""
    for name in names:
        if cell and len(cell) + len(name) + 2 > _WIDEST:
            yield cell
            cell = ""
        cell = f"{cell}, {name}" if cell else name
    yield cell


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
