"""Groups go to the partition that Kafka would send them to; the numbers are Java's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.coordinator.group_world import subscription

from tidelog.coordinator.partitioning import java_string_hash, partition_for
from tidelog.coordinator.subscription import subscribed_topics


@pytest.mark.parametrize(
    ("group_id", "hashed", "partition"),
    [
        ("g", 103, 3),
        ("my-group", -1906497762, 12),
        ("consumer-group-1", 147483020, 20),
        ("", 0, 0),
        ("grüppe", -1233264812, 12),
        ("polygenelubricants", -(2**31), 0),
        ("a\N{GRINNING FACE}b", 57849694, 44),
    ],
)
def test_as_java(group_id: str, hashed: int, partition: int) -> None:
    assert java_string_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


@given(st.text(), st.integers(1, 1_000))
def test_always_a_partition(group_id: str, partitions: int) -> None:
    assert 0 <= partition_for(group_id, partitions) < partitions


topic_names = st.lists(st.text(st.characters(codec="ascii"), min_size=1, max_size=20), max_size=5)


@given(topic_names, st.integers(0, 9), st.binary(max_size=10))
def test_topics_are_read_from_every_version(topics: list[str], version: int, rest: bytes) -> None:
    assert subscribed_topics(subscription(*topics, version=version) + rest) == frozenset(topics)


@given(st.binary(max_size=40))
def test_or_it_is_not_a_subscription(metadata: bytes) -> None:
    topics = subscribed_topics(metadata)
    assert topics is None or all(isinstance(topic, str) for topic in topics)
