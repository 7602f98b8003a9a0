"""How the parts of a pipeline hang together: names, directories with one writer, and nothing that leads nowhere."""

import posixpath

from tidelog.jobs.pipeline.mistakes import Findings
from tidelog.jobs.pipeline.model import DeadLetters, Sink, Source, Step, Table
from tidelog.jobs.pipeline.surroundings import NAME


def check_names(named: list[tuple[str, str]], findings: Findings) -> None:
    seen: dict[str, str] = {}
    for kind, name in named:
        if not NAME.fullmatch(name):
            findings.add((kind, name), "is not a valid view name: use letters, digits and _")
        if name.lower() in seen:
            findings.add((kind, name), f"is already the name of one of the {seen[name.lower()]}")
        seen.setdefault(name.lower(), kind)


def check_paths(
    sources: list[Source], sinks: list[Sink], letters: DeadLetters | None, checkpoint: str, findings: Findings
) -> None:
    """Two queries that write files into one directory would each take the other's batches for their own."""
    owners = {_place(each.path): each.name for each in reversed(sinks) if each.path and each.owns_path}
    for sink in sinks:
        place = _place(sink.path or "")
        owner = owners.get(place, sink.name)
        if owner != sink.name:
            findings.add(("sinks", sink.name, "path"), f"is already the path of sinks.{owner}")
        if sink.path and checkpoint and place == _place(checkpoint):
            findings.add(("sinks", sink.name, "path"), "is already the path of the checkpoint")
    for source in sources:
        if letters is not None and source.can_fail and _place(letters.path_of(source)) in owners:
            owner = owners[_place(letters.path_of(source))]
            findings.add(("dead_letters", "path"), f"sinks.{owner} already writes to {source.name} in it")


def _place(path: str) -> str:
    """The same for the two ways to name a directory of this machine."""
    if path.startswith("file:"):
        return posixpath.normpath("/" + path.removeprefix("file:").lstrip("/"))
    return path.rstrip("/")


def check_reach(
    sources: list[Source], tables: list[Table], steps: list[Step], sinks: list[Sink], findings: Findings
) -> None:
    """A sink has a stream behind it, and nothing is made that nobody reads."""
    if findings.mistakes:
        # What hangs in the air has been told of.
        return
    inputs = {each.name: each.inputs for each in steps}
    streams = {each.name for each in sources if not each.batch}
    used: set[str] = set()
    for sink in sinks:
        reached = _behind(sink.input, inputs)
        used |= reached
        if not reached & streams:
            findings.add(("sinks", sink.name, "from"), f"{sink.input} reads no streaming source")
    made = [("sources", each.name) for each in sources] + [("tables", each.name) for each in tables]
    for kind, name in [*made, *(("steps", name) for name in inputs)]:
        if name not in used:
            findings.add((kind, name), "no sink reads it")


def _behind(name: str, inputs: dict[str, tuple[str, ...]]) -> set[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting += inputs.get(each, ())
    return reached
