"""The options of the source, as Spark's Kafka source has them (S3): names, defaults, precedence, refusals.

Pure, and without Spark: a mistake is found before anything is started.
"""

import json
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.client.offsets import IsolationLevel
from tidelog.core.ids import TopicPartition
from tidelog.spark.access import DEFAULT_QUESTION_TIMEOUT_S, ClusterAccess, cluster_access
from tidelog.spark.errors import OptionError
from tidelog.spark.kafka_keys import Side
from tidelog.spark.kafka_settings import PREFIX, KafkaSettings
from tidelog.spark.offsets import BadOffsets, StreamOffsets, parse_offsets
from tidelog.spark.points import (
    EARLIEST,
    LATEST,
    Earliest,
    Latest,
    NoMatch,
    Point,
    SpecificOffsets,
    SpecificTimestamps,
    Timestamp,
)

DEFAULT_MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
# What Spark's network timeout gives a poll by default.
DEFAULT_POLL_TIMEOUT_MS: Final = 120_000
# Larger than a consumer's, since a task reads one partition and nothing else. A little less than half of what a
# connection keeps for its next answers (`client.frames.KEPT_BYTES`), since a task has two of them.
DEFAULT_FETCH_BYTES: Final = 8 * 1024 * 1024 - 64 * 1024
_MOST_FETCH_BYTES: Final = 64 * 1024 * 1024
DEFAULT_FETCH_WAIT_MS: Final = 500

KNOWN: Final = {
    name.lower(): name
    for name in (
        "assign",
        "subscribe",
        "subscribePattern",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsets",
        "startingOffsetsByTimestampStrategy",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "endingOffsets",
        "failOnDataLoss",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "minPartitions",
        "maxRecordsPerPartition",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "kafkaConsumer.pollTimeoutMs",
        "groupIdPrefix",
        "includeHeaders",
        "includeEpoch",
        "pushFilters",
        "partition.metadata.cache.ttl.ms",
        "pauseFile",
        # Every reader of Spark is handed the path, whether it has one or not.
        "path",
    )
}
_STRATEGIES: Final = ("assign", "subscribe", "subscribePattern")
_DELAY: Final = re.compile(r"(-?\d+)\s*([a-z]+)?")
_DELAY_MS: Final = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Which partitions are read. Exactly one of the three is given."""

    assigned: frozenset[TopicPartition] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None

    def takes(self, tp: TopicPartition) -> bool:
        if self.assigned is not None:
            return tp in self.assigned
        return self.matches(tp.topic)

    def matches(self, topic: str) -> bool:
        """By name or pattern, which is found anywhere in the name, as Spark's source does it."""
        if self.pattern is not None:
            return re.search(self.pattern, topic) is not None
        return topic in (self.topics or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Checked, with defaults in place. `warnings` are for the user to see, one line each."""

    access: ClusterAccess
    subscription: Subscription
    starting: Point
    ending: Point
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = DEFAULT_MAX_TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fetch_offset_retries: int = 3
    fetch_offset_retry_interval_ms: int = 1000
    poll_timeout_ms: int = DEFAULT_POLL_TIMEOUT_MS
    include_headers: bool = False
    include_epoch: bool = False
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    fetch_bytes: int = DEFAULT_FETCH_BYTES
    fetch_wait_ms: int = DEFAULT_FETCH_WAIT_MS
    skips_internal: bool = True
    metadata_ttl_ms: int = 0
    pause_file: str | None = None
    push_filters: bool = False
    warnings: tuple[str, ...] = ()


def parse(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """OptionError at the first thing that is wrong, in the order in which Spark's source looks."""
    given = Given(options)
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if given.has(name):
                raise OptionError(f"{name}: a streaming query has no end")
    starting = given.point("starting", Latest() if streaming else Earliest())
    ending = given.point("ending", Latest())
    if not streaming:
        _check_batch(starting, ending)
    subscription = given.subscription()
    min_partitions = given.positive("minPartitions")
    max_records = given.positive("maxRecordsPerPartition")
    kafka = given.kafka(Side.SOURCE)
    access = cluster_access(kafka, kafka.seconds("default.api.timeout.ms", DEFAULT_QUESTION_TIMEOUT_S))
    least, most = given.positive("minOffsetsPerTrigger"), given.positive("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    retries = given.integer("fetchOffset.numRetries")
    interval = given.integer("fetchOffset.retryIntervalMs")
    poll = given.integer("kafkaConsumer.pollTimeoutMs")
    fetch_bytes = kafka.whole("max.partition.fetch.bytes", DEFAULT_FETCH_BYTES)
    return SourceOptions(
        access=access,
        subscription=subscription,
        starting=starting,
        ending=ending,
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=given.delay_ms("maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_MS),
        min_partitions=min_partitions,
        max_records_per_partition=max_records,
        fetch_offset_retries=3 if retries is None else retries,
        fetch_offset_retry_interval_ms=1000 if interval is None else interval,
        poll_timeout_ms=DEFAULT_POLL_TIMEOUT_MS if poll is None else poll,
        include_headers=given.flag("includeHeaders", default=False),
        include_epoch=given.flag("includeEpoch", default=False),
        isolation=IsolationLevel[(kafka.text("isolation.level") or "read_uncommitted").upper()],
        fetch_bytes=min(fetch_bytes, kafka.whole("fetch.max.bytes", fetch_bytes), _MOST_FETCH_BYTES),
        fetch_wait_ms=kafka.whole("fetch.max.wait.ms", DEFAULT_FETCH_WAIT_MS),
        skips_internal=kafka.flag("exclude.internal.topics", default=True),
        metadata_ttl_ms=given.integer("partition.metadata.cache.ttl.ms") or 0,
        pause_file=given.text("pauseFile"),
        push_filters=given.flag("pushFilters", default=False),
        warnings=(*given.warnings(streaming=streaming), *kafka.warnings()),
    )


def flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    return Given(options).flag(name, default=default)


def _check_batch(starting: Point, ending: Point) -> None:
    if isinstance(starting, Latest):
        raise OptionError("startingOffsets: a batch query cannot start at latest: it would be empty")
    if isinstance(ending, Earliest):
        raise OptionError("endingOffsets: a batch query cannot end at earliest: it would be empty")
    if isinstance(starting, SpecificOffsets):
        for tp, at in starting.offsets.items():
            if at.offset == LATEST:
                raise OptionError(f"startingOffsets: a batch query cannot start at latest, as {tp} would")
    if isinstance(ending, SpecificOffsets):
        for tp, at in ending.offsets.items():
            if at.offset == EARLIEST:
                raise OptionError(f"endingOffsets: a batch query cannot end at earliest, as {tp} would")
    if isinstance(starting, SpecificOffsets) and isinstance(ending, SpecificOffsets):
        first = {tp: at.offset for tp, at in starting.offsets.items()}
        last = {tp: at.offset for tp, at in ending.offsets.items()}
        _check_pairs("startingOffsets and endingOffsets", first, last)
    elif isinstance(starting, SpecificTimestamps) and isinstance(ending, SpecificTimestamps):
        names = "startingOffsetsByTimestamp and endingOffsetsByTimestamp"
        _check_pairs(names, starting.timestamps, ending.timestamps)


def _check_pairs(names: str, first: Mapping[TopicPartition, int], last: Mapping[TopicPartition, int]) -> None:
    if first.keys() != last.keys():
        only = ", ".join(str(tp) for tp in sorted(first.keys() ^ last.keys()))
        raise OptionError(f"{names} must name the same partitions: {only} is in one of them only")
    for tp, start in sorted(first.items()):
        if 0 <= last[tp] < start:
            raise OptionError(f"{names}: {tp} would start at {start} and end before that, at {last[tp]}")


class Given:
    """What the user gave, by lower-case name: options are not case-sensitive."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values: dict[str, str] = {}
        self._spelled: dict[str, str] = {}
        for name, value in options.items():
            self._values[name.lower()] = value
            self._spelled[name.lower()] = name

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def integer(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            return int(value.strip())
        except ValueError:
            raise OptionError(f"{name}={value!r} is not a whole number") from None

    def positive(self, name: str) -> int | None:
        value = self.integer(name)
        if value is not None and value <= 0:
            raise OptionError(f"{name}={value} must be above 0")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        known = {"true": True, "false": False}.get(value.strip().lower())
        if known is None:
            raise OptionError(f"{name}={value!r} is neither true nor false")
        return known

    def delay_ms(self, name: str, default: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        found = _DELAY.fullmatch(value.strip().lower())
        unit = None if found is None else _DELAY_MS.get(found[2] or "ms")
        if found is None or unit is None:
            raise OptionError(f"{name}={value!r} is not a time: a number with us, ms, s, m, min, h or d")
        return int(int(found[1]) * unit)

    def subscription(self) -> Subscription:
        named = [name for name in _STRATEGIES if self.has(name)]
        if len(named) != 1:
            given = "none is given" if not named else f"{' and '.join(named)} are given"
            raise OptionError(f"exactly one of assign, subscribe and subscribePattern must be set: {given}")
        name, value = named[0], self._values[named[0].lower()]
        if name == "assign":
            return Subscription(assigned=frozenset(_assigned(value)))
        if name == "subscribe":
            topics = tuple(dict.fromkeys(topic for part in value.split(",") if (topic := part.strip())))
            if not topics:
                raise OptionError(f"subscribe={value!r} names no topic")
            return Subscription(topics=topics)
        pattern = value.strip()
        if not pattern:
            raise OptionError(f"subscribePattern={value!r} is empty")
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(f"subscribePattern={pattern!r} is not a pattern: {error}") from None
        return Subscription(pattern=pattern)

    def point(self, which: str, default: Point) -> Point:
        """Of several, a time for all goes before a time for each, and that before offsets."""
        no_match = self._no_match()
        name = f"{which}Timestamp"
        timestamp = self.integer(name)
        if timestamp is not None:
            return Timestamp(timestamp, no_match)
        name = f"{which}OffsetsByTimestamp"
        text = self.text(name)
        if text is not None:
            return SpecificTimestamps(_timestamps(name, text), no_match)
        name = f"{which}Offsets"
        text = self.text(name)
        if text is None:
            return default
        word = text.strip().lower()
        if word == "earliest":
            return Earliest()
        if word == "latest":
            return Latest()
        return SpecificOffsets(_offsets(name, text))

    def _no_match(self) -> NoMatch:
        value = self.text("startingOffsetsByTimestampStrategy")
        if value is None:
            return NoMatch.ERROR
        try:
            return NoMatch[value.strip().upper()]
        except KeyError:
            raise OptionError(f"startingOffsetsByTimestampStrategy={value!r} is neither error nor latest") from None

    def unknown(self, known: Container[str]) -> list[str]:
        """A line for each that is neither `known` nor a key of Kafka's."""
        return [
            f"option {self._spelled[name]} is not known and does nothing"
            for name in self._values
            if name not in known and not name.startswith(PREFIX)
        ]

    def warnings(self, *, streaming: bool) -> list[str]:
        found = self.unknown(KNOWN)
        if not streaming:
            found += [
                f"option {name} does nothing in a batch query"
                for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
                if self.has(name)
            ]
        if self.has("groupIdPrefix"):
            found.append("option groupIdPrefix does nothing: the source joins no consumer group")
        return found

    def kafka(self, side: Side) -> KafkaSettings:
        given = {name.removeprefix(PREFIX): value for name, value in self._values.items() if name.startswith(PREFIX)}
        return KafkaSettings(given, side)


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{name} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise OptionError(f"{name} is not a JSON object: {text.strip()[:80]}")
    return found


def _assigned(text: str) -> list[TopicPartition]:
    found = []
    for topic, numbers in _object("assign", text).items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise OptionError(f'assign: {topic!r} needs a list of partitions, as in {{"orders": [0, 1]}}')
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise OptionError("assign names no partition")
    return found


def _offsets(name: str, text: str) -> StreamOffsets:
    try:
        return parse_offsets(_object(name, text))
    except BadOffsets as error:
        raise OptionError(f"{name}: {error}") from None


def _timestamps(name: str, text: str) -> dict[TopicPartition, int]:
    found = {}
    for topic, partitions in _object(name, text).items():
        if not isinstance(partitions, dict):
            raise OptionError(f'{name}: {topic!r} needs a time for each partition, as in {{"orders": {{"0": 1000}}}}')
        for number, timestamp in partitions.items():
            if not number.isdecimal() or type(timestamp) is not int:
                raise OptionError(f"{name}: {topic!r} has {number!r}: {timestamp!r}, not a partition and a time")
            found[TopicPartition(topic, int(number))] = timestamp
    return found
