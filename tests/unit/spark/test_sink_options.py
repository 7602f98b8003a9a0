"""K1: the columns and options of the sink, as Spark's Kafka sink has them."""

import pytest

from tidelog.client.producer import ACKS_ALL, ACKS_LEADER
from tidelog.spark.errors import OptionError
from tidelog.spark.sink_options import DEFAULT_BATCH_BYTES, parse
from tidelog.wire.records.attributes import Codec

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"}
HEADERS = "array<struct<key:string,value:binary>>"


def test_defaults() -> None:
    found = parse(BASE, {"value": "string", "other": "double"}, overwrite=False)
    assert (found.topic, found.columns) == ("orders", ("value",))
    assert (found.acks, found.codec, found.batch_bytes) == (ACKS_ALL, Codec.NONE, DEFAULT_BATCH_BYTES)


def test_every_column_and_option() -> None:
    types = {"headers": HEADERS, "partition": "int", "value": "binary", "key": "string", "topic": "string"}
    options = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.acks": "1",
        "kafka.compression.type": "zstd",
        "kafka.batch.size": "1000",
        "kafka.delivery.timeout.ms": "5000",
    }
    found = parse(options, types, overwrite=False)
    assert found.topic is None
    assert found.columns == ("topic", "key", "value", "partition", "headers")
    assert (found.acks, found.codec, found.batch_bytes) == (ACKS_LEADER, Codec.ZSTD, 1000)
    assert found.delivery_timeout_s == 5.0


@pytest.mark.parametrize(
    ("options", "types", "says"),
    [
        ({"topic": "t"}, {"value": "string"}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "a:1"}, {"value": "string"}, "topic is missing"),
        (BASE, {"key": "string"}, "no column value"),
        (BASE, {"value": "int"}, "column value is int, and must be string or binary"),
        (BASE, {"value": "string", "key": "double"}, "column key is double"),
        (BASE, {"value": "string", "partition": "bigint"}, "column partition is bigint, and must be int"),
        (BASE, {"value": "string", "topic": "binary"}, "column topic is binary"),
        (BASE, {"value": "string", "headers": "array<string>"}, "column headers is array<string>"),
        (BASE | {"kafka.key.serializer": "x"}, {"value": "string"}, "kafka.key.serializer cannot be set"),
        (BASE | {"kafka.value.serializer": "x"}, {"value": "string"}, "kafka.value.serializer cannot be set"),
        (BASE | {"kafka.acks": "2"}, {"value": "string"}, "kafka.acks='2' is not one of all, -1, 1, 0"),
        (BASE | {"kafka.compression.type": "zip"}, {"value": "string"}, "kafka.compression.type='zip'"),
        (BASE | {"kafka.batch.size": "0"}, {"value": "string"}, "kafka.batch.size='0' is not a whole number from 1"),
        (BASE | {"kafka.aks": "1"}, {"value": "string"}, "kafka.aks is not a setting of Kafka's clients: did you mean"),
        (BASE | {"kafka.transactional.id": "t"}, {"value": "string"}, "kafka.transactional.id cannot be set"),
        (BASE | {"kafka.acks": "1", "kafka.enable.idempotence": "true"}, {"value": "string"}, "needs kafka.acks=all"),
        (BASE | {"exactlyOnce": "true"}, {"value": "string"}, "exactlyOnce=true needs transactions"),
        (BASE | {"kafka.security.protocol": "SASL_SSL"}, {"value": "string"}, "kafka.sasl.mechanism"),
    ],
)
def test_what_is_refused_names_it(options: dict[str, str], types: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(options, types, overwrite=False)
    assert says in str(caught.value)


def test_a_topic_is_only_appended_to() -> None:
    with pytest.raises(OptionError, match="append"):
        parse(BASE, {"value": "string"}, overwrite=True)


def test_an_option_that_does_nothing_is_told_of() -> None:
    options = BASE | {
        "exactlyOnce": "false",
        "checkpointLocation": "x",
        "queryName": "q",
        "kafka.linger.ms": "1",
        "Topik": "t",
    }
    found = parse(options, {"value": "string"}, overwrite=False)
    assert found.warnings == (
        "option Topik is not known and does nothing",
        "kafka.linger.ms is ignored: a batch is sent when it is full or the task ends",
    )
