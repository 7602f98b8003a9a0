"""What Spark asks a stream for: no Spark, toy brokers (S6)."""

from typing import Any, cast

from pyspark.sql.streaming.datasource import ReadMaxRows
from tests.unit.spark.test_planning import A0, ID, OTHER, ToyBrokers

from tidelog.spark.brokers import Brokers, EpochEnd
from tidelog.spark.offsets import Position, offsets_json
from tidelog.spark.options import parse
from tidelog.spark.source import RangePartition, StreamReader


class AvailableNow:
    """A run that takes what there is, and losses too."""

    def __init__(self, brokers: ToyBrokers, most: int) -> None:
        given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "failOnDataLoss": "false"}
        given |= {"maxOffsetsPerTrigger": str(most), "fetchOffset.retryIntervalMs": "1"}
        self.reader = StreamReader(parse(given, streaming=True))
        self.reader._brokers = cast(Brokers, brokers)
        self.reader.prepareForTriggerAvailableNow()
        self.at: dict[str, Any] = offsets_json({A0: Position(0, -1, ID)})
        self.most = most

    def batch(self) -> list[tuple[int, int]]:
        end = self.reader.latestOffset(self.at, ReadMaxRows(self.most))
        ranges = []
        for each in self.reader.partitions(self.at, end):
            assert isinstance(each, RangePartition)
            ranges.append((each.wanted.start, each.wanted.end))
        self.at = end
        return ranges


def test_what_comes_after_the_beginning_is_left_to_the_next_run() -> None:
    brokers = ToyBrokers(150, {5: EpochEnd(5, 150)})
    run = AvailableNow(brokers, 100)
    assert run.batch() == [(0, 100)]
    brokers.ends, brokers.epochs = 500, {5: EpochEnd(5, 150), 6: EpochEnd(6, 500)}
    assert [run.batch(), run.batch()] == [[(100, 150)], []]


def test_an_end_that_was_lost_is_not_waited_for() -> None:
    """Or records that come to stand there later would count as read, and as lost."""
    brokers = ToyBrokers(1000, {5: EpochEnd(5, 1000)})
    run = AvailableNow(brokers, 100)
    assert run.batch() == [(0, 100)]
    brokers.ends, brokers.epochs = 120, {5: EpochEnd(5, 50), 6: EpochEnd(6, 120)}
    assert run.batch() == [(50, 120)]
    brokers.ends, brokers.epochs = 300, {5: EpochEnd(5, 50), 6: EpochEnd(6, 300)}
    assert run.batch() == []
    assert run.at == offsets_json({A0: Position(120, 6, ID)})


def test_a_topic_made_anew_meanwhile_has_an_end_of_its_own() -> None:
    brokers = ToyBrokers(1000, {5: EpochEnd(5, 1000)})
    run = AvailableNow(brokers, 100)
    assert run.batch() == [(0, 100)]
    brokers.topic_id, brokers.ends, brokers.epochs = OTHER, 30, {0: EpochEnd(0, 30)}
    assert [run.batch(), run.batch()] == [[(0, 30)], []]
