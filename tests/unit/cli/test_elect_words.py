"""What `elect` reports: a few names, and the number of internal partitions."""

from tidelog.cli.elect import _words
from tidelog.client.elections import ElectionResult
from tidelog.core.ids import TopicPartition


def elected(topic: str, count: int) -> list[ElectionResult]:
    return [ElectionResult(tp=TopicPartition(topic, number), error=None) for number in range(count)]


def test_partitions_of_internal_topics_are_counted() -> None:
    found = [*elected("__consumer_offsets", 50), *elected("orders", 2)]
    assert _words(found, "preferred") == (
        "preferred leaders elected for orders-0, orders-1 and 50 partitions of internal topics"
    )


def test_of_many_partitions_the_first_are_named() -> None:
    assert _words(elected("orders", 7), "unclean") == (
        "unclean leaders elected for orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more"
    )


def test_internal_partitions_alone_are_named() -> None:
    assert _words(elected("__consumer_offsets", 1), "preferred") == (
        "preferred leaders elected for __consumer_offsets-0"
    )


def test_nothing_to_elect_is_reported() -> None:
    assert _words([], "preferred") == "no partition needs an election"
