"""S3: the options of Spark's Kafka source, their precedence, and what is refused."""

import json
from typing import Any

import pytest

from tidelog.client.offsets import IsolationLevel
from tidelog.core.ids import TopicPartition
from tidelog.spark.errors import OptionError
from tidelog.spark.offsets import Position
from tidelog.spark.options import SourceOptions, Subscription, flag, parse
from tidelog.spark.points import Earliest, Latest, NoMatch, SpecificOffsets, SpecificTimestamps, Timestamp

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}
ORDERS_0 = TopicPartition("orders", 0)


def batch(**options: Any) -> SourceOptions:
    return parse(BASE | {name.replace("_", "."): value for name, value in options.items()}, streaming=False)


def stream(**options: Any) -> SourceOptions:
    return parse(BASE | {name.replace("_", "."): value for name, value in options.items()}, streaming=True)


def test_defaults() -> None:
    found = batch()
    assert (found.starting, found.ending) == (Earliest(), Latest())
    assert stream().starting == Latest()
    assert found.fail_on_data_loss
    assert not found.include_headers
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger, found.min_partitions) == (None, None, None)
    assert found.max_trigger_delay_ms == 15 * 60 * 1000
    assert (found.fetch_offset_retries, found.fetch_offset_retry_interval_ms) == (3, 1000)
    assert found.poll_timeout_ms == 120_000
    assert found.isolation is IsolationLevel.READ_UNCOMMITTED
    assert found.warnings == ()


def test_names_are_not_case_sensitive() -> None:
    found = parse(
        {"KAFKA.Bootstrap.Servers": "a:1", "SUBSCRIBE": "x", "MAXOFFSETSPERTRIGGER": "5", "includeheaders": "TRUE"},
        streaming=True,
    )
    assert (found.access.bootstrap, found.max_offsets_per_trigger, found.include_headers) == ("a:1", 5, True)
    assert flag({"INCLUDEEPOCH": "true"}, "includeEpoch", default=False)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"subscribe": " a , b ,a,"}, Subscription(topics=("a", "b"))),
        ({"subscribePattern": " ord.* "}, Subscription(pattern="ord.*")),
        (
            {"assign": '{"a": [0, 2], "b": [1]}'},
            Subscription(assigned=frozenset({TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)})),
        ),
    ],
)
def test_what_is_read(given: dict[str, str], wanted: Subscription) -> None:
    assert parse({"kafka.bootstrap.servers": "a:1"} | given, streaming=False).subscription == wanted


def test_a_time_for_all_goes_before_a_time_for_each_and_that_before_offsets() -> None:
    times = json.dumps({"orders": {"0": 7}})
    offsets = json.dumps({"orders": {"0": 23}})
    found = batch(startingTimestamp="5", startingOffsetsByTimestamp=times, startingOffsets=offsets)
    assert found.starting == Timestamp(5, NoMatch.ERROR)
    found = batch(startingOffsetsByTimestamp=times, startingOffsets=offsets)
    assert found.starting == SpecificTimestamps({ORDERS_0: 7}, NoMatch.ERROR)
    assert batch(startingOffsets=offsets).starting == SpecificOffsets({ORDERS_0: Position(23)})
    found = batch(startingTimestamp="5", startingOffsetsByTimestampStrategy="LATEST", endingOffsets=" Latest ")
    assert (found.starting, found.ending) == (Timestamp(5, NoMatch.LATEST), Latest())
    assert stream(startingOffsets="EARLIEST").starting == Earliest()


@pytest.mark.parametrize(
    ("text", "wanted"), [("250", 250), ("2s", 2000), ("15m", 900_000), ("3min", 180_000), ("1h", 3_600_000)]
)
def test_times_are_written_as_spark_does(text: str, wanted: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == wanted


@pytest.mark.parametrize(
    ("options", "streaming", "says"),
    [
        ({"subscribe": None}, False, "exactly one of assign, subscribe and subscribePattern"),
        ({"assign": '{"a":[0]}'}, False, "assign and subscribe are given"),
        ({"subscribe": " , "}, False, "subscribe=' , ' names no topic"),
        ({"subscribe": None, "subscribePattern": " "}, False, "subscribePattern"),
        ({"subscribe": None, "subscribePattern": "a("}, False, "not a pattern"),
        ({"subscribe": None, "assign": "a"}, False, "assign is not JSON"),
        ({"subscribe": None, "assign": "[]"}, False, "assign is not a JSON object"),
        ({"subscribe": None, "assign": "{}"}, False, "assign names no partition"),
        ({"subscribe": None, "assign": '{"a": "0"}'}, False, "needs a list of partitions"),
        ({"kafka.bootstrap.servers": None}, False, "kafka.bootstrap.servers is missing"),
        ({"endingOffsets": "latest"}, True, "endingOffsets: a streaming query has no end"),
        ({"endingOffsetsByTimestamp": "{}"}, True, "endingOffsetsByTimestamp: a streaming query has no end"),
        ({"endingTimestamp": "1"}, True, "endingTimestamp: a streaming query has no end"),
        ({"startingOffsets": "latest"}, False, "startingOffsets: a batch query cannot start at latest"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, False, "start at latest, as a-0 would"),
        ({"endingOffsets": "earliest"}, False, "endingOffsets: a batch query cannot end at earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, False, "end at earliest, as a-0 would"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'}, False, "start at 5 and end before"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"1":9}}'}, False, "a-0, a-1 is in one of them"),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":5}}', "endingOffsetsByTimestamp": '{"a":{"0":4}}'},
            False,
            "start at 5 and end before",
        ),
        ({"startingOffsets": "soon"}, True, "startingOffsets is not JSON"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, True, "startingOffsets: a-0 has -3, which is no offset"),
        ({"startingOffsets": '{"a":[0]}'}, True, "startingOffsets: 'a' needs an offset for each partition"),
        ({"startingOffsetsByTimestamp": '{"a":{"0":"x"}}'}, True, "not a partition and a time"),
        ({"startingTimestamp": "soon"}, True, "startingTimestamp='soon' is not a whole number"),
        ({"startingOffsetsByTimestampStrategy": "never"}, True, "neither error nor latest"),
        ({"minPartitions": "0"}, False, "minPartitions=0 must be above 0"),
        ({"maxRecordsPerPartition": "-1"}, False, "maxRecordsPerPartition=-1 must be above 0"),
        ({"minPartitions": "two"}, False, "minPartitions='two' is not a whole number"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, True, "minOffsetsPerTrigger=9 is more than"),
        ({"maxTriggerDelay": "soon"}, True, "maxTriggerDelay='soon' is not a time"),
        ({"failOnDataLoss": "yes"}, True, "failOnDataLoss='yes' is neither true nor false"),
        ({"kafka.auto.offset.reset": "latest"}, True, "kafka.auto.offset.reset cannot be set"),
        ({"kafka.key.deserializer": "x"}, True, "kafka.key.deserializer cannot be set"),
        ({"kafka.value.deserializer": "x"}, True, "kafka.value.deserializer cannot be set"),
        ({"kafka.enable.auto.commit": "true"}, True, "kafka.enable.auto.commit cannot be set"),
        ({"kafka.interceptor.classes": "x"}, True, "kafka.interceptor.classes cannot be set"),
        (
            {"kafka.isolation.level": "loose"},
            True,
            "'loose' is not read_committed or read_uncommitted",
        ),
        ({"kafka.security.protocol": "TLS"}, True, "kafka.security.protocol='TLS' is not one of"),
        ({"kafka.security.protocol": "SASL_SSL"}, True, "kafka.sasl.mechanism"),
    ],
)
def test_what_is_refused_names_the_option(options: dict[str, str | None], streaming: bool, says: str) -> None:
    given = {name: value for name, value in (BASE | options).items() if value is not None}
    with pytest.raises(OptionError) as caught:
        parse(given, streaming=streaming)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_does_nothing_is_said() -> None:
    found = batch(maxOffsetsPerTrigger="5", kafka_fetch_min_bytes="7", kafka_group_id="g", groupIdPrefix="p", Odd="1")
    assert found.warnings == (
        "option Odd is not known and does nothing",
        "option maxOffsetsPerTrigger does nothing in a batch query",
        "option groupIdPrefix does nothing: the source joins no consumer group",
        "kafka.fetch.min.bytes is ignored: a task knows the range that it reads and does not wait for more",
        "kafka.group.id is ignored: the source joins no consumer group",
    )
    assert stream(maxOffsetsPerTrigger="5").warnings == ()


def test_a_fetch_is_bounded() -> None:
    assert batch(**{"kafka.max.partition.fetch.bytes": "1000"}).fetch_bytes == 1000
    assert batch(**{"kafka.max.partition.fetch.bytes": "2000000000"}).fetch_bytes == 64 * 1024 * 1024
    assert batch(**{"kafka.fetch.max.bytes": "999"}).fetch_bytes == 999
    assert batch(kafka_isolation_level="READ_COMMITTED").isolation is IsolationLevel.READ_COMMITTED


def test_secrets_reach_the_client_and_no_text() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    found = batch(
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="PLAIN",
        kafka_sasl_jaas_config=f'{module} required username="anna" password="s3cr3t";',
    )
    security = found.access.connection.security
    assert security is not None
    assert security.credentials is not None
    assert security.credentials.password == "s3cr3t"
    assert "s3cr3t" not in repr(found)
