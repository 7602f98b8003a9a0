"""CreateTopics, DeleteTopics and CreatePartitions as tables: what is asked, what is answered, what is recorded."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.harness import Harness, cluster, directory_id

from tidelog.core.events import TopicCreated, TopicDeleted
from tidelog.core.ids import TopicPartition
from tidelog.metadata.records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tidelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState

E = ErrorCode


def topic(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **more)


def manual(name: str, *assignments: tuple[int, list[int]]) -> CreatableTopic:
    entries = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in assignments]
    return topic(name, -1, -1, assignments=entries)


def config(**values: str | None) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]


def create(harness: Harness, *topics: CreatableTopic, validate_only: bool = False) -> list[CreatableTopicResult]:
    results: list[CreatableTopicResult] = harness.send(
        CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    ).topics
    return results


def codes(results: list[Any]) -> list[ErrorCode]:
    return [ErrorCode(result.error_code) for result in results]


@pytest.mark.rule("C1")
def test_a_topic_is_a_run_of_records() -> None:
    harness = cluster(1, 2, 3)
    (result,) = create(harness, topic("orders", 2, 3, configs=config(retention_ms="7")))
    assert (result.error_code, result.error_message, result.num_partitions, result.replication_factor) == (
        0,
        None,
        2,
        3,
    )
    assert result.topic_config_error_code == 0
    first, setting, *partitions = harness.records
    assert first == TopicRecord(name="orders", topic_id=result.topic_id)
    assert setting == ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="7")
    assert [record.partition_id for record in partitions if isinstance(record, PartitionRecord)] == [0, 1]
    for record in partitions:
        assert isinstance(record, PartitionRecord)
        assert sorted(record.replicas) == [1, 2, 3] and record.isr == record.replicas
        assert (record.leader, record.leader_epoch, record.partition_epoch) == (record.replicas[0], 0, 0)
        assert record.directories == [directory_id(replica) for replica in record.replicas]
    assert harness.decision.atomic
    assert harness.decision.events == [
        TopicCreated(topic="orders", topic_id=result.topic_id, partitions=2, replication_factor=3)
    ]


def test_the_answer_tells_the_configs_in_force() -> None:
    (result,) = create(cluster(1), topic("orders", configs=config(retention_ms="7")))
    assert result.configs is not None
    by_name = {entry.name: entry for entry in result.configs}
    assert (by_name["retention.ms"].value, by_name["retention.ms"].config_source) == ("7", 1)
    assert (by_name["segment.bytes"].value, by_name["segment.bytes"].config_source) == ("1073741824", 5)
    # the first record of every cluster sets it for all brokers
    assert (by_name["min.insync.replicas"].value, by_name["min.insync.replicas"].config_source) == ("1", 3)


def test_defaults_come_from_the_config() -> None:
    harness = cluster(1, 2, num_partitions="5", default_replication_factor="2")
    (result,) = create(harness, topic("orders", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (5, 2)


def test_validate_only_says_the_same_and_records_nothing() -> None:
    harness = cluster(1)
    results = create(harness, topic("good"), topic("bad", 0), validate_only=True)
    assert codes(results) == [E.NONE, E.INVALID_PARTITIONS]
    assert results[0].num_partitions == 1 and harness.records == [] and not harness.decision.events
    assert harness.image.topic("good") is None


REFUSED: list[tuple[str, CreatableTopic, ErrorCode, str]] = [
    ("empty name", topic(""), E.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
    ("dots", topic(".."), E.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
    ("long name", topic("a" * 250), E.INVALID_TOPIC_EXCEPTION, "longer than the max allowed length 249"),
    ("characters", topic("a b"), E.INVALID_TOPIC_EXCEPTION, "other than ASCII alphanumerics"),
    ("metadata", topic("__cluster_metadata"), E.INVALID_REQUEST, "internal topic __cluster_metadata is prohibited"),
    ("exists", topic("there.is"), E.TOPIC_ALREADY_EXISTS, "Topic 'there.is' already exists."),
    ("collides", topic("there_is"), E.INVALID_TOPIC_EXCEPTION, "collides with existing topic: there.is"),
    ("no partitions", topic("t", 0), E.INVALID_PARTITIONS, "non-positive"),
    ("-2 partitions", topic("t", -2), E.INVALID_PARTITIONS, "non-positive"),
    ("no replicas", topic("t", 1, 0), E.INVALID_REPLICATION_FACTOR, "larger than 0, or -1"),
    ("-2 replicas", topic("t", 1, -2), E.INVALID_REPLICATION_FACTOR, "larger than 0, or -1"),
    ("too many replicas", topic("t", 1, 3), E.INVALID_REPLICATION_FACTOR, "only 2 broker(s) are registered"),
    (
        "assigned and counted",
        topic("t", 1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]),
        E.INVALID_REQUEST,
        "numPartitions was not set to -1",
    ),
    (
        "assigned and replicated",
        topic("t", -1, 1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]),
        E.INVALID_REQUEST,
        "replication factor was not set to -1",
    ),
    ("gap", manual("t", (1, [1])), E.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
    ("twice", manual("t", (0, [1]), (0, [1])), E.INVALID_REPLICA_ASSIGNMENT, "multiple manual partition assignments"),
    ("nobody", manual("t", (0, [])), E.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
    ("same broker", manual("t", (0, [1, 1])), E.INVALID_REPLICA_ASSIGNMENT, "includes the broker 1 more than once"),
    ("stranger", manual("t", (0, [9])), E.INVALID_REPLICA_ASSIGNMENT, "broker 9, but no such broker is registered"),
    ("uneven", manual("t", (0, [1]), (1, [1, 2])), E.INVALID_REPLICA_ASSIGNMENT, "not consistent with previous"),
    ("null config", topic("t", configs=config(retention_ms=None)), E.INVALID_CONFIG, "Null value not supported"),
    ("bad config", topic("t", configs=config(retention_ms="x")), E.INVALID_CONFIG, "retention.ms"),
    ("unknown config", topic("t", configs=config(nope="1")), E.INVALID_CONFIG, "nope"),
]


@pytest.mark.parametrize(("topic_", "code", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refusals(topic_: CreatableTopic, code: ErrorCode, message: str) -> None:
    harness = cluster(1, 2)
    create(harness, topic("there.is"))
    good, refused = create(harness, topic("good"), topic_)
    # one bad topic does not fail the others
    assert good.error_code == E.NONE and harness.image.topic("good") is not None
    assert refused.error_code == code
    assert refused.error_message is not None and message in refused.error_message
    assert (refused.num_partitions, refused.replication_factor, refused.topic_id) == (-1, -1, UUID(int=0))
    assert set(harness.image.topics_by_name) == {"there.is", "good"}


def test_a_name_asked_for_twice_is_refused_once() -> None:
    harness = cluster(1)
    results = create(harness, topic("dup"), topic("ok"), topic("dup"))
    assert [(r.name, r.error_code) for r in results] == [("dup", E.INVALID_REQUEST), ("ok", E.NONE)]


def test_names_of_one_request_collide_as_well() -> None:
    assert codes(create(cluster(1), topic("a.b"), topic("a_b"), topic("ab"))) == [
        E.NONE,
        E.INVALID_TOPIC_EXCEPTION,
        E.NONE,
    ]


def test_a_request_is_bounded() -> None:
    harness = cluster(1)
    results = create(harness, topic("a", 6000), topic("b", 4001))
    assert codes(results) == [E.POLICY_VIOLATION] * 2 and harness.records == []
    assert codes(create(harness, topic("a", 10_000))) == [E.NONE]


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    harness = cluster(1, 2, 3)
    (result,) = create(harness, manual("t", (1, [3, 1]), (0, [2, 3])))
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    first = harness.image.partition(TopicPartition("t", 0))
    assert first is not None and (first.replicas, first.leader) == ((2, 3), 2)


def test_replicas_on_fenced_brokers_start_outside_the_isr() -> None:
    harness = cluster(1, 2)
    harness.register(3)
    create(harness, manual("t", (0, [3, 2, 1])))
    partition = harness.image.partition(TopicPartition("t", 0))
    assert partition is not None
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 2, 1), (2, 1), 2)
    assert codes(create(harness, manual("u", (0, [3])))) == [E.INVALID_REPLICA_ASSIGNMENT]


def test_a_broker_with_several_directories_chooses_itself() -> None:
    harness = Harness()
    harness.register(1, directories=2)
    harness.heartbeat(1)
    create(harness, topic("t"))
    partition = harness.image.partition(TopicPartition("t", 0))
    assert partition is not None and partition.directories == (UUID(int=0),)


class TestDelete:
    def deleted(self, harness: Harness, *states: DeleteTopicState) -> list[DeletableTopicResult]:
        results: list[DeletableTopicResult] = harness.send(DeleteTopicsRequest(topics=list(states))).responses
        return results

    def test_by_name_and_by_id(self) -> None:
        harness = cluster(1)
        first, second, _ = create(harness, topic("a"), topic("b"), topic("c"))
        results = self.deleted(harness, DeleteTopicState(name="a"), DeleteTopicState(topic_id=second.topic_id))
        assert [(r.name, r.topic_id, r.error_code, r.error_message) for r in results] == [
            ("a", first.topic_id, 0, None),
            ("b", second.topic_id, 0, None),
        ]
        assert harness.records == [RemoveTopicRecord(topic_id=t.topic_id) for t in (first, second)]
        assert harness.decision.events == [
            TopicDeleted(topic="a", topic_id=first.topic_id),
            TopicDeleted(topic="b", topic_id=second.topic_id),
        ]
        assert set(harness.image.topics_by_name) == {"c"}

    def test_older_versions_name_topics(self) -> None:
        harness = cluster(1)
        create(harness, topic("a"))
        response = harness.send(DeleteTopicsRequest(topic_names=["a", "b"]))
        assert codes(response.responses) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]

    def test_refusals(self) -> None:
        harness = cluster(1)
        (made,) = create(harness, topic("a"))
        results = self.deleted(
            harness,
            DeleteTopicState(name="nothing"),
            DeleteTopicState(topic_id=UUID(int=5)),
            DeleteTopicState(),
            DeleteTopicState(name="a", topic_id=made.topic_id),
        )
        assert codes(results) == [
            E.UNKNOWN_TOPIC_OR_PARTITION,
            E.UNKNOWN_TOPIC_ID,
            E.INVALID_REQUEST,
            E.INVALID_REQUEST,
        ]
        assert harness.records == []

    def test_a_topic_named_twice_stays(self) -> None:
        harness = cluster(1)
        (made,) = create(harness, topic("a"))
        twice = self.deleted(harness, DeleteTopicState(name="a"), DeleteTopicState(name="a"))
        assert codes(twice) == [E.INVALID_REQUEST]
        both = self.deleted(harness, DeleteTopicState(name="a"), DeleteTopicState(topic_id=made.topic_id))
        assert codes(both) == [E.INVALID_REQUEST, E.INVALID_REQUEST]
        assert harness.image.topic("a") is not None

    def test_when_it_is_switched_off(self) -> None:
        harness = cluster(1, delete_topic_enable="false")
        create(harness, topic("a"))
        assert codes(self.deleted(harness, DeleteTopicState(name="a"))) == [E.TOPIC_DELETION_DISABLED]


class TestCreatePartitions:
    def added(self, harness: Harness, *topics: CreatePartitionsTopic, validate_only: bool = False) -> list[Any]:
        request = CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)
        results: list[Any] = harness.send(request).results
        return results

    def wanted(self, name: str, count: int, *assignments: list[int]) -> CreatePartitionsTopic:
        entries = [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments] or None
        return CreatePartitionsTopic(name=name, count=count, assignments=entries)

    def test_more_of_the_same(self) -> None:
        harness = cluster(1, 2, 3)
        create(harness, topic("t", 2, 2))
        assert codes(self.added(harness, self.wanted("t", 4), validate_only=True)) == [E.NONE]
        assert harness.records == []
        assert codes(self.added(harness, self.wanted("t", 4))) == [E.NONE]
        assert [r.partition_id for r in harness.records if isinstance(r, PartitionRecord)] == [2, 3]
        made = harness.image.topic("t")
        assert made is not None
        assert list(made.partitions) == [0, 1, 2, 3]
        assert all(len(p.replicas) == 2 for p in made.partitions.values())

    def test_assigned_by_hand(self) -> None:
        harness = cluster(1, 2, 3)
        create(harness, topic("t", 1, 2))
        assert codes(self.added(harness, self.wanted("t", 3, [3, 1], [2, 3]))) == [E.NONE]
        partition = harness.image.partition(TopicPartition("t", 2))
        assert partition is not None and partition.replicas == (2, 3)

    @pytest.mark.parametrize(
        ("count", "assignments", "code", "message"),
        [
            (2, [], E.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
            (1, [], E.INVALID_PARTITIONS, "1 would not be an increase"),
            (0, [], E.INVALID_PARTITIONS, "0 would not be an increase"),
            (10_003, [], E.POLICY_VIOLATION, "Excessively large"),
            (4, [[1]], E.INVALID_REPLICA_ASSIGNMENT, "but only 1 assignment(s) were specified"),
            (3, [[]], E.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
            (3, [[1, 1]], E.INVALID_REPLICA_ASSIGNMENT, "more than once"),
            (3, [[7, 1]], E.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
            (3, [[1]], E.INVALID_REPLICA_ASSIGNMENT, "not consistent"),
        ],
    )
    def test_refusals(self, count: int, assignments: list[list[int]], code: ErrorCode, message: str) -> None:
        harness = cluster(1, 2)
        create(harness, topic("t", 2, 2))
        (result,) = self.added(harness, self.wanted("t", count, *assignments))
        assert result.error_code == code and message in result.error_message
        assert harness.records == []

    def test_unknown_and_duplicate_names(self) -> None:
        harness = cluster(1)
        create(harness, topic("t"))
        results = self.added(harness, self.wanted("t", 2), self.wanted("t", 3), self.wanted("nothing", 2))
        assert codes(results) == [E.INVALID_REQUEST, E.UNKNOWN_TOPIC_OR_PARTITION]

    def test_groups_stay_where_their_offsets_are(self) -> None:
        harness = cluster(1)
        create(harness, topic("__consumer_offsets", 2), topic("t"))
        results = self.added(harness, self.wanted("__consumer_offsets", 4), self.wanted("t", 2))
        assert codes(results) == [E.INVALID_PARTITIONS, E.NONE]
        assert "cannot be changed" in results[0].error_message
        made = harness.image.topic("__consumer_offsets")
        assert made is not None and len(made.partitions) == 2
