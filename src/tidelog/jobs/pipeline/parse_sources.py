"""What a pipeline reads: `[sources.*]`, which are topics, and `[tables.*]`, which do not stream."""

from typing import Final

from tidelog.jobs.pipeline import ddl
from tidelog.jobs.pipeline.mistakes import Keys, suggestion
from tidelog.jobs.pipeline.model import JSON, RAW, STRING, Decoding, Source, Table, Watermark
from tidelog.jobs.pipeline.surroundings import FILES, Surroundings, blamed
from tidelog.jobs.pipeline.times import milliseconds
from tidelog.spark.errors import OptionError
from tidelog.spark.options import parse as parse_options

# The columns of a source's view beside those that come from the value.
COORDINATES: Final = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_headers", "_epoch")


def parse_source(name: str, keys: Keys, where: Surroundings) -> Source:
    options = keys.settings("options")
    given = {key.lower() for key in options}
    topics, pattern = keys.texts("topics"), keys.text("pattern")
    if topics:
        options["subscribe"] = ",".join(topics)
    if pattern:
        options["subscribePattern"] = pattern
    if "kafka.bootstrap.servers" not in given:
        options["kafka.bootstrap.servers"] = keys.text("bootstrap") or where.bootstrap
    else:
        keys.text("bootstrap")
    where.secure(options)
    batch = keys.flag("batch")
    starting = keys.text("starting")
    if starting is not None:
        options["startingOffsets"] = starting
    elif not given & {"startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp"}:
        # A pipeline is about all of a topic, unlike a query that somebody looks at.
        options["startingOffsets"] = "earliest"
    value = _decoding(keys, "value")
    key = _decoding(keys, "key")
    watermark = watermark_of(keys)
    if watermark is not None:
        fields = [field.name for field in _fields(value)] if value.format == JSON else ["value"]
        if fields and watermark.column not in (*fields, *COORDINATES):
            hint = suggestion(watermark.column, [*fields, *COORDINATES])
            keys.wrong("watermark.column", f"the source has no column {watermark.column!r}{hint}")
        if batch:
            keys.wrong("watermark", "a batch source has no watermark: it does not stream")
    keys.done()
    try:
        checked = parse_options(options, streaming=not batch)
    except OptionError as error:
        words = str(error)
        if "assign, subscribe and" in words:
            words = "give exactly one of topics, pattern and options.assign"
        keys.wrong(blamed(keys, options, str(error)), words)
    else:
        for line in checked.warnings:
            keys.wrong(blamed(keys, options, line), line)
    return Source(name=name, options=options, value=value, key=key, watermark=watermark, batch=batch)


def _decoding(keys: Keys, key: str) -> Decoding:
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
            required = _checked_schema(table, schema, flattened=key == "value")
        if {each.lower() for each in options} & {"mode", "columnnameofcorruptrecord"}:
            table.wrong("options", "[dead_letters] decides what happens to bad records")
    elif schema is not None or options:
        table.wrong("schema" if schema is not None else "options", f"format {chosen} takes none")
    table.done()
    return Decoding(format=chosen, schema=schema or "", required=required, options=options)


def _checked_schema(table: Keys, schema: str, *, flattened: bool) -> tuple[str, ...]:
    try:
        fields = ddl.fields(schema, is_json=True)
    except ddl.BadSchema as error:
        table.wrong("schema", str(error))
        return ()
    for field in fields:
        if flattened and field.name.lower() in COORDINATES:
            table.wrong("schema", f"{field.name} is a column of every source")
    return tuple(field.name for field in fields if field.required)


def _fields(decoding: Decoding) -> list[ddl.Field]:
    try:
        return ddl.fields(decoding.schema)
    except ddl.BadSchema:
        # Told of where it stands.
        return []


def watermark_of(keys: Keys) -> Watermark | None:
    table = keys.table("watermark")
    if table is None:
        return None
    column = table.needed("column", "the column with the time of an event")
    delay = table.needed("delay", "how late an event may be, as in '10 minutes'")
    if delay is not None and milliseconds(delay) is None:
        table.wrong("delay", f"{delay!r} is not a time such as '10 minutes'")
    table.done()
    return Watermark(column=column, delay=f"{milliseconds(delay)} milliseconds") if column and delay else None


def parse_table(name: str, keys: Keys, where: Surroundings) -> Table:
    path = keys.text("path")
    made = Table(
        name=name,
        format=keys.needed("format", "one that Spark reads, as csv or parquet") or "",
        path=None if path is None else where.path(path),
        schema=keys.text("schema"),
        options=keys.settings("options"),
    )
    if made.format in FILES and path is None and "path" not in keys:
        keys.wrong("path", f"is missing: the file or directory of the {made.format}")
    if made.schema is not None:
        try:
            ddl.fields(made.schema)
        except ddl.BadSchema as error:
            keys.wrong("schema", str(error))
    keys.done()
    return made
