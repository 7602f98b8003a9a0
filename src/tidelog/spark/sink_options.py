"""What the sink is told, and which columns it finds (K1). Pure, and without Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.producer import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from tidelog.spark.access import ClusterAccess, cluster_access
from tidelog.spark.errors import OptionError
from tidelog.spark.kafka_keys import Side
from tidelog.spark.kafka_settings import KafkaSettings
from tidelog.spark.options import Given
from tidelog.wire.records.attributes import Codec

# Below `max.message.bytes` as brokers have it by default, whatever the records' own overhead is.
DEFAULT_BATCH_BYTES: Final = 512 * 1024
_ACKS: Final = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": ACKS_LEADER, "0": ACKS_NONE}
# Beside the topic those that Spark hands on, whether a sink has a use for them or not.
KNOWN: Final = frozenset(("topic", "exactlyonce", "path", "checkpointlocation", "queryname"))
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

    access: ClusterAccess
    topic: str | None
    columns: tuple[str, ...]
    acks: int = ACKS_ALL
    is_idempotent: bool = True
    codec: Codec = Codec.NONE
    # None is the codec's default.
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    delivery_timeout_s: float = 120.0
    # How long a topic is waited for that is not there, or not yet.
    max_block_s: float = 60.0
    # For the user to see, one line each.
    warnings: tuple[str, ...] = ()


def parse(options: Mapping[str, str], types: Mapping[str, str], *, overwrite: bool) -> SinkOptions:
    """`types` are the frame's columns with Spark's short names of their types."""
    given = Given(options)
    if overwrite:
        raise OptionError("a topic cannot be overwritten: use mode append")
    kafka = given.kafka(Side.SINK)
    access = cluster_access(kafka)
    if given.flag("exactlyOnce", default=False):
        raise OptionError(
            "exactlyOnce=true needs transactions, which the sink does not support yet: rows are written at least once"
        )
    topic = given.text("topic")
    topic = None if topic is None or not topic.strip() else topic.strip()
    if topic is None and "topic" not in types:
        raise OptionError("topic is missing: set the option topic, or add the column topic")
    if "value" not in types:
        raise OptionError("the frame has no column value")
    for name, allowed in _TYPES.items():
        found = types.get(name)
        if found is not None and found not in allowed:
            raise OptionError(f"column {name} is {found}, and must be {' or '.join(allowed)}")
    acks = _ACKS[kafka.text("acks") or "all"]
    is_idempotent = kafka.flag("enable.idempotence", default=acks == ACKS_ALL)
    if is_idempotent and acks != ACKS_ALL:
        raise OptionError("kafka.enable.idempotence=true needs kafka.acks=all")
    # Only `false` is accepted, and it is what we do.
    kafka.flag("partitioner.ignore.keys", default=False)
    codec = Codec[(kafka.text("compression.type") or "none").upper()]
    return SinkOptions(
        access=access,
        topic=topic,
        columns=tuple(name for name in _TYPES if name in types),
        acks=acks,
        is_idempotent=is_idempotent,
        codec=codec,
        level=_level(kafka, codec),
        batch_bytes=kafka.whole("batch.size", DEFAULT_BATCH_BYTES),
        delivery_timeout_s=kafka.seconds("delivery.timeout.ms", 120.0),
        max_block_s=kafka.seconds("max.block.ms", 60.0),
        warnings=(*given.unknown(KNOWN), *kafka.warnings()),
    )


def _level(kafka: KafkaSettings, codec: Codec) -> int | None:
    """Of the codec that is used; Kafka's producer takes levels of others too."""
    levels = {
        Codec.GZIP: kafka.whole_or_none("compression.gzip.level"),
        Codec.LZ4: kafka.whole_or_none("compression.lz4.level"),
        Codec.ZSTD: kafka.whole_or_none("compression.zstd.level"),
    }
    return levels.get(codec)
