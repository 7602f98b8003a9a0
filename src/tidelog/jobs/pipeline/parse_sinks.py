"""Where results go, `[sinks.*]`, and records that nobody can decode, `[dead_letters]`."""

from typing import Final

from tidelog.jobs.pipeline.mistakes import Keys, suggestion
from tidelog.jobs.pipeline.model import JSON, DeadLetters, Sink, Source
from tidelog.jobs.pipeline.surroundings import FILES, NAME, Surroundings, blamed
from tidelog.spark.errors import OptionError
from tidelog.spark.sink_options import parse as parse_options

_TOPIC: Final = "tidelog"
_MODES: Final = ("append", "update", "complete")


def parse_sink(name: str, keys: Keys, views: list[str], where: Surroundings) -> Sink:
    if not NAME.fullmatch(name):
        keys.wrong("", "is not a valid sink name: use letters, digits and _")
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
        options.setdefault("kafka.bootstrap.servers", bootstrap or where.bootstrap)
        where.secure(options)
        if encode is not None and encode != JSON:
            keys.wrong("encode", f"{encode!r} is not supported: use json")
        if path is not None:
            keys.wrong("path", "a topic has none")
        if encode is not None and topic is None and "topic" not in {each.lower() for each in options}:
            keys.wrong("topic", "is missing: encoded records have no topic column")
        _check_options(keys, options)
    else:
        for word in ("topic", "encode", "key", "bootstrap"):
            if word in keys:
                keys.wrong(word, f"is for topics, but format is {chosen}")
    if key is not None and encode is None and chosen == _TOPIC:
        keys.wrong("key", "is for encode = 'json'; without it the view has the columns key and value")
    if chosen in FILES:
        if path is None and "path" not in keys:
            keys.wrong("path", f"is missing: the directory of the {chosen} files")
        if mode == "update":
            keys.wrong("mode", "files take mode append, or complete, which writes the whole table again for each batch")
        if mode == "complete" and partition_by:
            keys.wrong("partition_by", "works with mode append only")
    elif partition_by and not each_batch:
        keys.wrong("partition_by", "is for files")
    if each_batch and chosen not in FILES:
        _check_each_batch(keys, chosen, mode)
    keys.done()
    return Sink(
        name=name,
        input=read,
        format=chosen,
        mode=mode,
        path=None if path is None else where.path(path),
        topic=topic,
        encode=encode,
        key=key,
        partition_by=partition_by,
        options=options,
        each_batch=each_batch,
    )


def _check_each_batch(keys: Keys, chosen: str, mode: str) -> None:
    """A batch writer appends, or writes all anew: it knows of no row that another one takes the place of."""
    if chosen == _TOPIC and mode != "append":
        keys.wrong("mode", f"with each_batch a topic takes mode append; without each_batch it takes mode {mode}")
    elif mode == "update":
        keys.wrong(
            "mode",
            f"{chosen} would store each change as one more row; mode complete writes the whole table each time",
        )


def _check_options(keys: Keys, options: dict[str, str]) -> None:
    """Of a topic. Which columns the view has only Spark can tell."""
    try:
        checked = parse_options(options, {"topic": "string", "value": "binary"}, overwrite=False)
    except OptionError as error:
        keys.wrong(blamed(keys, options, str(error)), str(error))
        return
    for line in checked.warnings:
        keys.wrong(blamed(keys, options, line), line)


def parse_dead_letters(top: Keys, sources: list[Source], where: Surroundings) -> DeadLetters | None:
    keys = top.table("dead_letters")
    if keys is None:
        failing = [each.name for each in sources if each.can_fail]
        if failing and "dead_letters" not in top:
            what = f"path or topic, for records that sources.{failing[0]} cannot decode"
            top.wrong("dead_letters", f"is missing: {what}")
        return None
    path, topic, bootstrap = keys.text("path"), keys.text("topic"), keys.text("bootstrap")
    if ("path" in keys) == ("topic" in keys):
        keys.wrong("", "needs either path or topic: where bad records go")
    if bootstrap is not None and "topic" not in keys:
        keys.wrong("bootstrap", "is for a topic")
    keys.done()
    return DeadLetters(
        path=None if path is None else where.path(path), topic=topic, bootstrap=bootstrap or where.bootstrap
    )
