"""A pipeline's file, read and checked (L1). Neither Spark nor a broker is asked, and no code of the user runs."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.jobs.pipeline.lines import key_lines
from tidelog.jobs.pipeline.mistakes import Findings, Keys, Mistake
from tidelog.jobs.pipeline.model import Pipeline
from tidelog.jobs.pipeline.parse_sinks import parse_dead_letters, parse_sink
from tidelog.jobs.pipeline.parse_sources import parse_source, parse_table
from tidelog.jobs.pipeline.parse_steps import ordered, parse_step
from tidelog.jobs.pipeline.surroundings import Surroundings, is_address
from tidelog.jobs.pipeline.times import milliseconds
from tidelog.jobs.pipeline.wiring import check_names, check_paths, check_reach

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
_SYNTAX: Final = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)
_TAKES_WHAT_IS_THERE: Final = ("once", "available now")


class BadPipeline(ValueError):
    """All mistakes of a file, by line."""

    def __init__(self, file: Path, mistakes: list[Mistake]) -> None:
        self.file = file
        self.mistakes = sorted(mistakes)
        super().__init__("\n".join(each.told(file) for each in self.mistakes))


def load(file: Path, *, bootstrap: str | None = None, security: Mapping[str, str] | None = None) -> Pipeline:
    """BadPipeline with everything that is wrong, OSError if it cannot be read. `bootstrap` is for what names none, and
    `security`, a Kafka client's properties, for what reads or writes there and has none of its own.
    """
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise BadPipeline(file, [Mistake(0, "", f"is not UTF-8: {error}")]) from None
    # TOML takes both ends of a line, and lines are counted by the one they share.
    text = text.replace("\r\n", "\n")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX.fullmatch(str(error))
        mistake = Mistake(int(found[2]), "", found[1]) if found else Mistake(text.count("\n") + 1, "", str(error))
        raise BadPipeline(file, [mistake]) from None
    findings = Findings(key_lines(text))
    pipeline = _parsed(file.absolute(), Keys(findings, (), values), findings, bootstrap, security or {})
    if findings.mistakes:
        raise BadPipeline(file, findings.mistakes)
    return pipeline


def _parsed(file: Path, top: Keys, findings: Findings, bootstrap: str | None, security: Mapping[str, str]) -> Pipeline:
    head = top.table("pipeline") or Keys(findings, ("pipeline",), {})
    if "pipeline" not in top:
        head.wrong("", "is missing: a table with name and checkpoint")
    own = head.text("bootstrap")
    brokers = bootstrap or own or os.environ.get("TIDELOG_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    where = Surroundings(file, brokers, security)
    name = head.text("name") or file.stem
    checkpoint = head.needed("checkpoint", "a directory in which the pipeline stores its progress") or ""
    interval_ms = _trigger(head)
    port = head.number("metrics_port")
    if port is not None and not 0 <= port <= 65535:
        head.wrong("metrics_port", f"{port} is not a port number")
    python_files = tuple(where.path(each) for each in head.texts("python_files"))
    for number, each in enumerate(python_files):
        if not is_address(each) and not Path(each).exists():
            head.wrong(f"python_files.{number}", f"{each} does not exist")
    spark = head.settings("spark")
    head.done()

    sources = [parse_source(name, keys, where) for name, keys in top.tables("sources").items()]
    if not sources:
        findings.add(("sources",), "is missing: topics to read, as in [sources.orders]")
    tables = [parse_table(name, keys, where) for name, keys in top.tables("tables").items()]
    step_keys = top.tables("steps")
    sink_keys = top.tables("sinks")
    check_names(
        [("sources", each.name) for each in sources]
        + [("tables", each.name) for each in tables]
        + [("steps", each) for each in step_keys],
        findings,
    )
    views = [each.name for each in sources] + [each.name for each in tables] + list(step_keys)
    steps = [parse_step(name, keys, views, where) for name, keys in step_keys.items()]
    sinks = [parse_sink(name, keys, views, where) for name, keys in sink_keys.items()]
    if not sinks:
        findings.add(("sinks",), "is missing: where results go, as in [sinks.out]")
    letters = parse_dead_letters(top, sources, where)
    check_paths(sources, sinks, letters, where.path(checkpoint) if checkpoint else "", findings)
    top.done()
    in_order = ordered(steps, findings)
    check_reach(sources, tables, steps, sinks, findings)
    return Pipeline(
        name=name,
        file=file,
        checkpoint=where.path(checkpoint),
        interval_ms=interval_ms,
        sources=tuple(sources),
        tables=tuple(tables),
        steps=tuple(in_order),
        sinks=tuple(sinks),
        dead_letters=letters,
        spark=spark,
        python_files=python_files,
        metrics_port=port,
    )


def _trigger(head: Keys) -> int | None:
    text = head.text("trigger")
    if text is None:
        return 0
    if text.strip().lower() in _TAKES_WHAT_IS_THERE:
        return None
    found = milliseconds(text)
    if found is None:
        head.wrong("trigger", f"{text!r} is not 'once', 'available now' or a time such as '10 seconds'")
    return found
