"""What Spark's own connector refuses, ours refuses too, in words that name the option."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.interop.spark.beside import Beside
from tests.interop.spark.topics import BEGIN_MS, RECORDS, Topics

pytestmark = pytest.mark.timeout(300)

# What the message of ours must have in it, and the options; None leaves one out. T is the topic's name.
BATCH: list[tuple[str, dict[str, str | None]]] = [
    ("kafka.bootstrap.servers", {"subscribe": "T", "kafka.bootstrap.servers": None}),
    ("subscribePattern", {}),
    ("assign and subscribe", {"subscribe": "T", "assign": '{"T":[0]}'}),
    ("subscribe", {"subscribe": " , "}),
    ("subscribe: there is no topic nowhere", {"subscribe": "nowhere"}),
    ("subscribePattern", {"subscribePattern": ""}),
    ("assign", {"assign": "T"}),
    ("assign", {"assign": '{"T": "zero"}'}),
    ("startingOffsets", {"subscribe": "T", "startingOffsets": "latest"}),
    ("endingOffsets", {"subscribe": "T", "endingOffsets": "earliest"}),
    ("startingOffsets", {"subscribe": "T", "startingOffsets": '{"T":{"0":-1}}'}),
    ("endingOffsets", {"subscribe": "T", "endingOffsets": '{"T":{"0":-2}}'}),
    ("startingOffsets", {"subscribe": "T", "startingOffsets": "oldest"}),
    ("startingOffsets", {"subscribe": "T", "startingOffsets": '{"T":{"0":1,"1":1}}'}),
    ("startingOffsets", {"subscribe": "T", "startingOffsets": '{"other":{"0":1}}'}),
    ("endingOffsets", {"subscribe": "T", "endingOffsets": '{"T":{"3":1}}'}),
    ("startingTimestamp", {"subscribe": "T", "startingTimestamp": "yesterday"}),
    ("startingOffsetsByTimestamp", {"subscribe": "T", "startingOffsetsByTimestamp": '{"T":{"7":1}}'}),
    ("startingOffsetsByTimestampStrategy", {"subscribe": "T", "startingTimestamp": str(BEGIN_MS + 10 * RECORDS)}),
    (
        "startingOffsetsByTimestampStrategy",
        {"subscribe": "T", "startingOffsetsByTimestampStrategy": "first", "startingTimestamp": "1"},
    ),
    ("minPartitions", {"subscribe": "T", "minPartitions": "0"}),
    ("minPartitions", {"subscribe": "T", "minPartitions": "a"}),
    ("maxRecordsPerPartition", {"subscribe": "T", "maxRecordsPerPartition": "0"}),
    ("includeHeaders", {"subscribe": "T", "includeHeaders": "perhaps"}),
    ("failOnDataLoss", {"subscribe": "T", "failOnDataLoss": "perhaps"}),
    ("kafka.auto.offset.reset", {"subscribe": "T", "kafka.auto.offset.reset": "earliest"}),
    ("kafka.key.deserializer", {"subscribe": "T", "kafka.key.deserializer": "x"}),
    ("kafka.value.deserializer", {"subscribe": "T", "kafka.value.deserializer": "x"}),
    ("kafka.enable.auto.commit", {"subscribe": "T", "kafka.enable.auto.commit": "true"}),
    ("kafka.interceptor.classes", {"subscribe": "T", "kafka.interceptor.classes": "x"}),
    ("kafka.isolation.level", {"subscribe": "T", "kafka.isolation.level": "read_everything"}),
    ("kafka.security.protocol", {"subscribe": "T", "kafka.security.protocol": "SASL_SSH"}),
]
STREAM: list[tuple[str, dict[str, str | None]]] = [
    ("endingOffsets", {"subscribe": "T", "endingOffsets": "latest"}),
    ("endingOffsetsByTimestamp", {"subscribe": "T", "endingOffsetsByTimestamp": '{"T":{"0":1}}'}),
    ("subscribe: there is no topic nowhere", {"subscribe": "nowhere", "startingOffsets": "earliest"}),
    ("minOffsetsPerTrigger", {"subscribe": "T", "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"}),
    ("maxOffsetsPerTrigger", {"subscribe": "T", "maxOffsetsPerTrigger": "many"}),
    ("maxTriggerDelay", {"subscribe": "T", "minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"}),
    ("startingOffsets", {"subscribe": "T", "startingOffsets": '{"T":{"0":1,"1":1}}'}),
]


@pytest.fixture(scope="session")
def beside(spark: SparkSession, topics: Topics) -> Beside:
    return Beside(spark, topics)


def named(options: dict[str, str | None], topic: str) -> dict[str, str | None]:
    def text(value: str | None) -> str | None:
        return topic if value == "T" else value and value.replace('"T"', f'"{topic}"')

    return {name: text(value) for name, value in options.items()}


def test_a_batch_is_refused_by_both(beside: Beside) -> None:
    wrong = []
    for word, options in BATCH:
        ours, theirs = beside.refusals(named(options, beside.topics.deleted))
        if not ours or not theirs or word.lower() not in ours.lower():
            wrong.append((options, ours[:300], theirs[:300]))
    assert wrong == []


def test_a_stream_is_refused_by_both(beside: Beside, tmp_path: Path) -> None:
    wrong = []
    for number, (word, options) in enumerate(STREAM):
        given = named(options, beside.topics.deleted)
        ours, theirs = beside.refusals(given, streaming=True, folder=tmp_path / str(number))
        if not ours or not theirs or word.lower() not in ours.lower():
            wrong.append((options, ours[:300], theirs[:300]))
    assert wrong == []
