"""A pipeline's file, read and checked (L1). Neither Spark nor a broker is asked, and no code of the user runs."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.jobs.pipeline import ddl, functions
from tidelog.jobs.pipeline.lines import key_lines
from tidelog.jobs.pipeline.mistakes import Findings, Keys, Mistake, suggestion
from tidelog.jobs.pipeline.model import (
    JSON,
    RAW,
    STRING,
    DeadLetters,
    Decoding,
    Pipeline,
    Sink,
    Source,
    Step,
    Table,
    Watermark,
)
from tidelog.jobs.pipeline.times import milliseconds
from tidelog.jobs.pipeline.views import tables_read
from tidelog.spark.options import OptionError
from tidelog.spark.options import parse as parse_source_options
from tidelog.spark.sink_options import parse as parse_sink_options

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
# The columns of a source's view beside those that come from the value.
COORDINATES: Final = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_headers", "_epoch")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SYNTAX: Final = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)
_FILES: Final = ("parquet", "json", "csv", "orc", "text")
_TOPIC: Final = "tidelog"
_MODES: Final = ("append", "update", "complete")
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
    pipeline = _Parser(file.absolute(), Keys(findings, (), values), findings, bootstrap, security or {}).pipeline()
    if findings.mistakes:
        raise BadPipeline(file, findings.mistakes)
    return pipeline


class _Parser:
    def __init__(
        self, file: Path, top: Keys, findings: Findings, bootstrap: str | None, security: Mapping[str, str]
    ) -> None:
        self._file = file
        self._top = top
        self._findings = findings
        self._bootstrap = bootstrap
        self._security = security

    def pipeline(self) -> Pipeline:
        head = self._top.table("pipeline") or Keys(self._findings, ("pipeline",), {})
        if "pipeline" not in self._top:
            head.wrong("", "is missing: a table with name and checkpoint")
        own = head.text("bootstrap")
        self._bootstrap = self._bootstrap or own or os.environ.get("TIDELOG_BOOTSTRAP") or DEFAULT_BOOTSTRAP
        name = head.text("name") or self._file.stem
        checkpoint = head.needed("checkpoint", "a directory in which the pipeline keeps how far it is") or ""
        interval_ms = self._trigger(head)
        port = head.number("metrics_port")
        if port is not None and not 0 <= port <= 65535:
            head.wrong("metrics_port", f"{port} is no port")
        python_files = tuple(self._path(each) for each in head.texts("python_files"))
        for number, each in enumerate(python_files):
            if not _URI.match(each) and not Path(each).exists():
                head.wrong(f"python_files.{number}", f"{each} does not exist")
        spark = head.settings("spark")
        head.done()

        sources = [self._source(name, keys) for name, keys in self._top.tables("sources").items()]
        if not sources:
            self._findings.add(("sources",), "is missing: topics to read, as in [sources.orders]")
        tables = [self._table(name, keys) for name, keys in self._top.tables("tables").items()]
        step_keys = self._top.tables("steps")
        sink_keys = self._top.tables("sinks")
        self._check_names(
            [("sources", each.name) for each in sources]
            + [("tables", each.name) for each in tables]
            + [("steps", each) for each in step_keys]
        )
        views = [each.name for each in sources] + [each.name for each in tables] + list(step_keys)
        steps = [self._step(name, keys, views) for name, keys in step_keys.items()]
        sinks = [self._sink(name, keys, views) for name, keys in sink_keys.items()]
        if not sinks:
            self._findings.add(("sinks",), "is missing: where results go, as in [sinks.out]")
        letters = self._dead_letters(sources)
        self._check_paths(sources, sinks, letters)
        self._top.done()
        ordered = self._ordered(steps)
        self._check_reach(sources, tables, steps, sinks)
        return Pipeline(
            name=name,
            file=self._file,
            checkpoint=self._path(checkpoint),
            interval_ms=interval_ms,
            sources=tuple(sources),
            tables=tuple(tables),
            steps=tuple(ordered),
            sinks=tuple(sinks),
            dead_letters=letters,
            spark=spark,
            python_files=python_files,
            metrics_port=port,
        )

    # --- the parts ---

    def _path(self, text: str) -> str:
        """As it is from the file's directory; addresses stay what they are."""
        return text if _URI.match(text) else os.path.normpath(self._file.parent / text)

    def _trigger(self, head: Keys) -> int | None:
        text = head.text("trigger")
        if text is None:
            return 0
        if text.strip().lower() in _TAKES_WHAT_IS_THERE:
            return None
        found = milliseconds(text)
        if found is None:
            head.wrong("trigger", f"{text!r} is neither 'once', 'available now' nor a time such as '10 seconds'")
        return found

    def _check_names(self, named: list[tuple[str, str]]) -> None:
        seen: dict[str, str] = {}
        for kind, name in named:
            if not _NAME.fullmatch(name):
                self._findings.add((kind, name), "is no name for a view: letters, digits and _")
            if name.lower() in seen:
                self._findings.add((kind, name), f"is the name of one of the {seen[name.lower()]} already")
            seen.setdefault(name.lower(), kind)

    def _source(self, name: str, keys: Keys) -> Source:
        options = keys.settings("options")
        given = {key.lower() for key in options}
        topics, pattern = keys.texts("topics"), keys.text("pattern")
        if topics:
            options["subscribe"] = ",".join(topics)
        if pattern:
            options["subscribePattern"] = pattern
        if "kafka.bootstrap.servers" not in given:
            options["kafka.bootstrap.servers"] = keys.text("bootstrap") or self._bootstrap or ""
        else:
            keys.text("bootstrap")
        self._secure(options)
        batch = keys.flag("batch")
        starting = keys.text("starting")
        if starting is not None:
            options["startingOffsets"] = starting
        elif not given & {"startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp"}:
            # A pipeline is about all of a topic, unlike a query that somebody looks at.
            options["startingOffsets"] = "earliest"
        value = self._decoding(keys, "value")
        key = self._decoding(keys, "key")
        watermark = self._watermark(keys)
        if watermark is not None:
            fields = [field.name for field in _fields(value)] if value.format == JSON else ["value"]
            if fields and watermark.column not in (*fields, *COORDINATES):
                hint = suggestion(watermark.column, [*fields, *COORDINATES])
                keys.wrong("watermark.column", f"the source has no column {watermark.column!r}{hint}")
            if batch:
                keys.wrong("watermark", "a batch source has none: it does not stream")
        keys.done()
        try:
            checked = parse_source_options(options, streaming=not batch)
        except OptionError as error:
            words = str(error)
            if "assign, subscribe and" in words:
                words = "exactly one of topics, pattern and options.assign says what is read"
            keys.wrong(self._blamed(keys, options, str(error)), words)
        else:
            for line in checked.warnings:
                keys.wrong(self._blamed(keys, options, line), line)
        return Source(name=name, options=options, value=value, key=key, watermark=watermark, batch=batch)

    def _secure(self, options: dict[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        if given["kafka.bootstrap.servers"] == self._bootstrap and "kafka.security.protocol" not in given:
            options |= {f"kafka.{key}": value for key, value in self._security.items()}

    def _blamed(self, keys: Keys, options: dict[str, str], words: str) -> str:
        """The key in the file behind an option that a refusal names."""
        if "starting" in keys and "startingOffsets" in words:
            return "starting"
        if "assign, subscribe and" in words:
            if "topics" in keys or "pattern" in keys:
                return "topics" if "topics" in keys else "pattern"
            return ""
        named = [option for option in options if option in words]
        return f"options.{max(named, key=len)}" if named else ""

    def _decoding(self, keys: Keys, key: str) -> Decoding:
        """`value = "string"`, or a table with a format and what it needs."""
        if not isinstance(keys.raw(key), dict):
            text = keys.choice(key, (RAW, STRING, JSON), RAW)
            if text == JSON:
                keys.wrong(key, 'json needs a schema: { format = "json", schema = "id BIGINT, …" }')
                return Decoding()
            return Decoding(format=text)
        table = keys.table(key)
        assert table is not None
        chosen = table.choice("format", (RAW, STRING, JSON), JSON if "schema" in table else RAW)
        schema = table.text("schema")
        options = table.settings("options")
        required: tuple[str, ...] = ()
        if chosen == JSON:
            if schema is None and "schema" not in table:
                table.wrong("schema", "is missing: the fields of an object in DDL, as in 'id BIGINT, name STRING'")
            elif schema is not None:
                required = self._checked_schema(table, schema, flattened=key == "value")
            if {each.lower() for each in options} & {"mode", "columnnameofcorruptrecord"}:
                table.wrong("options", "what happens to bad records is said by [dead_letters]")
        elif schema is not None or options:
            table.wrong("schema" if schema is not None else "options", f"format {chosen} takes none")
        table.done()
        return Decoding(format=chosen, schema=schema or "", required=required, options=options)

    def _checked_schema(self, table: Keys, schema: str, *, flattened: bool) -> tuple[str, ...]:
        try:
            fields = ddl.fields(schema)
        except ddl.BadSchema as error:
            table.wrong("schema", str(error))
            return ()
        for field in fields:
            if flattened and field.name.lower() in COORDINATES:
                table.wrong("schema", f"{field.name} is a column that every source has")
        return tuple(field.name for field in fields if field.required)

    def _watermark(self, keys: Keys) -> Watermark | None:
        table = keys.table("watermark")
        if table is None:
            return None
        column = table.needed("column", "the column with the time of an event")
        delay = table.needed("delay", "how late an event may be, as in '10 minutes'")
        if delay is not None and milliseconds(delay) is None:
            table.wrong("delay", f"{delay!r} is no time such as '10 minutes'")
        table.done()
        return Watermark(column=column, delay=f"{milliseconds(delay)} milliseconds") if column and delay else None

    def _table(self, name: str, keys: Keys) -> Table:
        path = keys.text("path")
        made = Table(
            name=name,
            format=keys.needed("format", "one that Spark reads, as csv or parquet") or "",
            path=None if path is None else self._path(path),
            schema=keys.text("schema"),
            options=keys.settings("options"),
        )
        if made.format in _FILES and path is None and "path" not in keys:
            keys.wrong("path", f"is missing: the file or directory of the {made.format}")
        if made.schema is not None:
            try:
                ddl.fields(made.schema)
            except ddl.BadSchema as error:
                keys.wrong("schema", str(error))
        keys.done()
        return made

    def _step(self, name: str, keys: Keys, views: list[str]) -> Step:
        sql, function = keys.text("sql"), keys.text("function")
        inputs = keys.texts("inputs")
        watermark = self._watermark(keys)
        keys.done()
        if ("sql" in keys) == ("function" in keys):
            keys.wrong("", "either sql or function says what is done")
        known = {each.lower(): each for each in views}
        if sql is not None:
            if inputs:
                keys.wrong("inputs", "only a function has them: sql names its views itself")
            inputs = tuple(tables_read(sql))
            for each in inputs:
                if each.lower() not in known:
                    keys.wrong("sql", f"there is no source, table or step {each}{suggestion(each, views)}")
        if function is not None:
            try:
                functions.check(function, self._file.parent)
            except functions.NoFunction as error:
                keys.wrong("function", str(error))
            if not inputs:
                keys.wrong("inputs", "is missing: the views that the function is handed, in their order")
            for each in inputs:
                if each.lower() not in known:
                    keys.wrong("inputs", f"there is no source, table or step {each}{suggestion(each, views)}")
        named = dict.fromkeys(known[each.lower()] for each in inputs if each.lower() in known)
        # A view may be handed to a function twice; it is read once for what comes before what.
        ordered = tuple(named) if function is None else tuple(known.get(each.lower(), each) for each in inputs)
        return Step(name=name, inputs=ordered, sql=sql, function=function, watermark=watermark)

    def _sink(self, name: str, keys: Keys, views: list[str]) -> Sink:
        if not _NAME.fullmatch(name):
            keys.wrong("", "is no name for a sink: letters, digits and _")
        read = keys.needed("from", "the view that is written") or ""
        if read and read not in views:
            keys.wrong("from", f"there is no source, table or step {read}{suggestion(read, views)}")
        topic, path = keys.text("topic"), keys.text("path")
        chosen = keys.text("format") or (_TOPIC if "topic" in keys else "")
        if not chosen and "format" not in keys:
            keys.wrong("format", "is missing: parquet, console, jdbc or another that Spark writes; or topic")
        mode = keys.choice("mode", _MODES, "append")
        partition_by = keys.texts("partition_by")
        options = keys.settings("options")
        each_batch = keys.flag("each_batch") or chosen == "jdbc"
        encode, key, bootstrap = keys.text("encode"), keys.text("key"), keys.text("bootstrap")
        if chosen == _TOPIC:
            options.setdefault("kafka.bootstrap.servers", bootstrap or self._bootstrap or "")
            self._secure(options)
            if encode is not None and encode != JSON:
                keys.wrong("encode", f"{encode!r} is not json, which is all there is")
            if path is not None:
                keys.wrong("path", "a topic has none")
            self._check_sink_options(keys, options)
        else:
            for word in ("topic", "encode", "key", "bootstrap"):
                if word in keys:
                    keys.wrong(word, f"is for topics, and format is {chosen}")
        if key is not None and encode is None and chosen == _TOPIC:
            keys.wrong("key", "is for encode = 'json'; without it the view has the columns key and value")
        if chosen in _FILES:
            if path is None and "path" not in keys:
                keys.wrong("path", f"is missing: the directory of the {chosen} files")
            if mode == "update":
                keys.wrong("mode", "files are appended to; mode complete makes a whole new set of them for each batch")
            if mode == "complete" and partition_by:
                keys.wrong("partition_by", "goes with mode append only")
        elif partition_by and not each_batch:
            keys.wrong("partition_by", "is for files")
        keys.done()
        return Sink(
            name=name,
            input=read,
            format=chosen,
            mode=mode,
            path=None if path is None else self._path(path),
            topic=topic,
            encode=encode,
            key=key,
            partition_by=partition_by,
            options=options,
            each_batch=each_batch,
        )

    def _check_sink_options(self, keys: Keys, options: dict[str, str]) -> None:
        """Of a topic. Which columns the view has only Spark can tell."""
        try:
            checked = parse_sink_options(options, {"topic": "string", "value": "binary"}, overwrite=False)
        except OptionError as error:
            keys.wrong(self._blamed(keys, options, str(error)), str(error))
            return
        for line in checked.warnings:
            keys.wrong(self._blamed(keys, options, line), line)

    def _dead_letters(self, sources: list[Source]) -> DeadLetters | None:
        keys = self._top.table("dead_letters")
        if keys is None:
            failing = [each.name for each in sources if each.can_fail]
            if failing and "dead_letters" not in self._top:
                what = f"where records go that sources.{failing[0]} cannot decode, path or topic"
                self._findings.add(("dead_letters",), f"is missing: {what}")
            return None
        path, topic, bootstrap = keys.text("path"), keys.text("topic"), keys.text("bootstrap")
        if ("path" in keys) == ("topic" in keys):
            keys.wrong("", "either path or topic says where bad records go")
        if bootstrap is not None and "topic" not in keys:
            keys.wrong("bootstrap", "is for a topic")
        keys.done()
        return DeadLetters(
            path=None if path is None else self._path(path), topic=topic, bootstrap=bootstrap or self._bootstrap or ""
        )

    # --- how the parts hang together ---

    def _ordered(self, steps: list[Step]) -> list[Step]:
        """Each after its inputs."""
        waiting = {each.name: each for each in steps}
        ordered: list[Step] = []
        while waiting:
            ready = [each for each in waiting.values() if not any(name in waiting for name in each.inputs)]
            if not ready:
                self._tell_circle(waiting)
                return ordered
            for each in ready:
                del waiting[each.name]
            ordered += ready
        return ordered

    def _tell_circle(self, waiting: dict[str, Step]) -> None:
        """Whoever waits, waits for another one that does: going on from any ends in a circle."""
        way = [next(iter(waiting))]
        while True:
            following = next(name for name in waiting[way[-1]].inputs if name in waiting)
            if following in way:
                circle = [*way[way.index(following) :], following]
                key = "sql" if waiting[circle[0]].sql is not None else "inputs"
                self._findings.add(("steps", circle[0], key), f"reads itself: {' <- '.join(circle)}")
                return
            way.append(following)

    def _check_paths(self, sources: list[Source], sinks: list[Sink], letters: DeadLetters | None) -> None:
        """Two queries that write files into one directory would each take the other's batches for their own."""
        owners = {each.path: each.name for each in reversed(sinks) if each.path is not None and not each.each_batch}
        for sink in sinks:
            owner = owners.get(sink.path or "", sink.name)
            if owner != sink.name:
                self._findings.add(("sinks", sink.name, "path"), f"is that of sinks.{owner} already")
        for source in sources:
            if letters is not None and source.can_fail and letters.path_of(source) in owners:
                owner = owners[letters.path_of(source)]
                self._findings.add(("dead_letters", "path"), f"sinks.{owner} writes to {source.name} in it already")

    def _check_reach(self, sources: list[Source], tables: list[Table], steps: list[Step], sinks: list[Sink]) -> None:
        """A sink has a stream behind it, and nothing is made that nobody reads."""
        if self._findings.mistakes:
            # What hangs in the air has been told of.
            return
        inputs = {each.name: each.inputs for each in steps}
        streams = {each.name for each in sources if not each.batch}
        used: set[str] = set()
        for sink in sinks:
            reached = _behind(sink.input, inputs)
            used |= reached
            if not reached & streams:
                self._findings.add(("sinks", sink.name, "from"), f"{sink.input} is made from no source that streams")
        made = [("sources", each.name) for each in sources] + [("tables", each.name) for each in tables]
        for kind, name in [*made, *(("steps", name) for name in inputs)]:
            if name not in used:
                self._findings.add((kind, name), "no sink is made from it")


def _behind(name: str, inputs: dict[str, tuple[str, ...]]) -> set[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting += inputs.get(each, ())
    return reached


def _fields(decoding: Decoding) -> list[ddl.Field]:
    try:
        return ddl.fields(decoding.schema)
    except ddl.BadSchema:
        # Told of where it stands.
        return []
