"""What the sink is told, and which columns it finds (K1). Pure, and without Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.connection import ConnectionSettings
from tidelog.client.producer import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from tidelog.client.security import Security
from tidelog.spark.options import Given, OptionError
from tidelog.wire.records.attributes import Codec

# Below `max.message.bytes` as brokers have it by default, whatever the records' own overhead is.
DEFAULT_BATCH_BYTES: Final = 512 * 1024
_ACKS: Final = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": ACKS_LEADER, "0": ACKS_NONE}
_REFUSED: Final = ("key.serializer", "value.serializer")
# Beside the topic those that Spark hands on, whether a sink has a use for them or not.
_KNOWN: Final = frozenset(("topic", "exactlyonce", "path", "checkpointlocation", "queryname"))
_TEXT_OR_BYTES: Final = ("string", "binary")
_TYPES: Final = {
    "topic": ("string",),
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Checked against the columns. `topic` is where every row goes; with None each row says it."""

    bootstrap: str
    topic: str | None
    columns: tuple[str, ...]
    security: Security | None = None
    acks: int = ACKS_ALL
    codec: Codec = Codec.NONE
    batch_bytes: int = DEFAULT_BATCH_BYTES
    delivery_timeout_s: float = 120.0
    # How long a topic is waited for that is not there, or not yet.
    max_block_s: float = 60.0
    client_id: str = "tidelog-spark"
    # For the user to see, one line each.
    warnings: tuple[str, ...] = ()

    @property
    def connection(self) -> ConnectionSettings:
        return ConnectionSettings(client_id=self.client_id, security=self.security)


def parse(options: Mapping[str, str], types: Mapping[str, str], *, overwrite: bool) -> SinkOptions:
    """`types` are the frame's columns with Spark's short names of their types."""
    given = Given(options)
    if overwrite:
        raise OptionError("a topic is only ever appended to: mode append, not overwrite")
    bootstrap = given.text("kafka.bootstrap.servers")
    if bootstrap is None or not bootstrap.strip():
        raise OptionError("kafka.bootstrap.servers is missing: for example 127.0.0.1:9092")
    for name in _REFUSED:
        if given.has(f"kafka.{name}"):
            raise OptionError(f"kafka.{name} cannot be set: keys and values are written as the bytes they are")
    if given.flag("exactlyOnce", default=False):
        raise OptionError(
            "exactlyOnce=true needs transactions, which are not there yet: rows are written at least once"
        )
    security = given.security()
    topic = given.text("topic")
    topic = None if topic is None or not topic.strip() else topic.strip()
    if topic is None and "topic" not in types:
        raise OptionError("topic is missing: an option, or a column that says it for each row")
    if "value" not in types:
        raise OptionError("the frame has no column value, which is what is written")
    for name, allowed in _TYPES.items():
        found = types.get(name)
        if found is not None and found not in allowed:
            raise OptionError(f"column {name} is {found}, and must be {' or '.join(allowed)}")
    acks = (given.text("kafka.acks") or "all").strip().lower()
    if acks not in _ACKS:
        raise OptionError(f"kafka.acks={acks!r} is none of all, 1 and 0")
    codec = (given.text("kafka.compression.type") or "none").strip().upper()
    if codec not in Codec.__members__:
        raise OptionError(f"kafka.compression.type={codec.lower()!r} is none of none, gzip, snappy, lz4 and zstd")
    timeout_ms = given.positive("kafka.delivery.timeout.ms")
    block_ms = given.positive("kafka.max.block.ms")
    return SinkOptions(
        bootstrap=bootstrap.strip(),
        security=security,
        topic=topic,
        columns=tuple(name for name in _TYPES if name in types),
        acks=_ACKS[acks],
        codec=Codec[codec],
        batch_bytes=given.positive("kafka.batch.size") or DEFAULT_BATCH_BYTES,
        delivery_timeout_s=120.0 if timeout_ms is None else timeout_ms / 1000,
        max_block_s=60.0 if block_ms is None else block_ms / 1000,
        client_id=given.text("kafka.client.id") or "tidelog-spark",
        warnings=tuple(given.unknown(_KNOWN)),
    )
