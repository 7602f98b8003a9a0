"""The text of a line of a trace: the templates of `core/events.py` for events of nodes, the fields for the rest."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from tidelog.core import event, events
from tidelog.core.event import shown

_OMITTED: Final = frozenset({"t", "steps", "source", "event", "topic", "partition", "node", "number", "lasts_s"})


def in_words(line: Mapping[str, Any]) -> str:
    where = f"{shown(line['topic'])}-{line['partition']}: " if "partition" in line and "topic" in line else ""
    template = _templates().get(line["event"]) if line["source"] == "node" else None
    if template is not None:
        return where + event.in_words(template, line)
    if (line["source"], line["event"]) == ("run", "seed"):
        profiles = ", ".join(map(shown, line.get("profiles", ())))
        return f"simulation of seed {shown(line.get('seed'))}, profiles {profiles or 'none'}"
    if (line["source"], line["event"]) == ("fault", "end"):
        return f"fault {line['number']} has ended"
    who = f"node {line['node']} " if "node" in line else ""
    fields = [f"{_words(name)} {shown(value)}" for name, value in line.items() if name not in _OMITTED]
    if line.get("lasts_s"):
        fields.insert(0, f"for {line['lasts_s']:.1f} s")
    return f"{where}{who}{_words(line['event'])}" + (f": {', '.join(fields)}" if fields else "")


@cache
def _templates() -> dict[str, str]:
    return {each.kind: each.template for each in _kinds(events.Event)}


def _kinds(kind: type[events.Event]) -> Iterator[type[events.Event]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


def _words(name: str) -> str:
    return name.replace("_", " ")
