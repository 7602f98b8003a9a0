"""Administration through each client, and the error code of each thing that cannot be."""

from collections.abc import Callable

import pytest
from tests.clients.adapters import CLIENTS
from tests.clients.adapters.base import Client, Committed, ConsumerOptions, KafkaFault, Partition
from tests.clients.story import Story, read
from tests.clients.waiting import wait_until

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
OFFSET_OUT_OF_RANGE = 1
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69


def having(ability: str) -> pytest.MarkDecorator:
    able = [client for client in CLIENTS if getattr(client, ability)]
    return pytest.mark.parametrize("client", able, ids=lambda client: client.name)


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(KafkaFault) as caught:
        call()
    return caught.value.code


def test_topics_are_created_listed_grown_and_deleted(story: Story) -> None:
    topic = story.topic(partitions=2, config={"retention.ms": "86400000", "cleanup.policy": "compact,delete"})
    assert story.admin.partition_count(topic) == 2
    story.admin.create_partitions(topic, 5)
    wait_until(lambda: story.admin.partition_count(topic) == 5, "five partitions")
    producer = story.producer()
    assert producer.send(topic, b"x", key=b"k", partition=4).result(20) == (4, 0)
    story.admin.delete_topic(topic)
    wait_until(lambda: topic not in story.admin.topics(), f"{topic} is gone")


def test_a_topic_deleted_and_made_again_starts_empty(story: Story) -> None:
    topic = story.topic()
    story.send_all(story.producer(), topic, [b"old"] * 5)
    story.admin.delete_topic(topic)
    wait_until(lambda: topic not in story.admin.topics(), f"{topic} is gone")
    story.topic(name=topic)
    consumer = story.consumer()
    consumer.assign(Partition(topic, 0))
    wait_until(lambda: consumer.end(Partition(topic, 0)) == 0, "the new topic is empty")
    assert story.send_all(story.producer(), topic, [b"new"]) == [(0, 0)]


def test_what_cannot_be_created(story: Story) -> None:
    admin = story.admin
    topic = story.topic()
    fresh = story.unique("refused")
    assert code_of(lambda: admin.create_topic(topic)) == TOPIC_ALREADY_EXISTS
    assert code_of(lambda: admin.create_topic("not/legal")) == INVALID_TOPIC
    assert code_of(lambda: admin.create_topic(fresh, partitions=0)) == INVALID_PARTITIONS
    assert code_of(lambda: admin.create_topic(fresh, replication=9)) == INVALID_REPLICATION_FACTOR
    assert code_of(lambda: admin.create_topic(fresh, config={"retention.ms": "soon"})) == INVALID_CONFIG
    assert code_of(lambda: admin.create_topic(fresh, config={"no.such.key": "1"})) == INVALID_CONFIG
    assert fresh not in admin.topics()


def test_what_cannot_be_changed_or_deleted(story: Story) -> None:
    admin = story.admin
    topic = story.topic(partitions=2)
    missing = story.unique("missing")
    assert code_of(lambda: admin.delete_topic(missing)) == UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(lambda: admin.create_partitions(missing, 3)) == UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(lambda: admin.create_partitions(topic, 2)) == INVALID_PARTITIONS
    assert code_of(lambda: admin.create_partitions(topic, 1)) == INVALID_PARTITIONS
    assert code_of(lambda: admin.delete_records({Partition(topic, 0): 5})) == OFFSET_OUT_OF_RANGE


def test_topic_configs_are_complete(story: Story) -> None:
    topic = story.topic(config={"retention.ms": "86400000"})
    config = story.admin.topic_config(topic)
    expected = {
        "retention.ms": "86400000",
        "cleanup.policy": "delete",
        "segment.bytes": "1073741824",
        "max.message.bytes": "1048588",
        "min.insync.replicas": "1",
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
        "unclean.leader.election.enable": "false",
        "flush.messages": "9223372036854775807",
    }
    assert {key: config[key] for key in expected} == expected


def test_broker_configs_are_complete(story: Story) -> None:
    (broker,) = story.admin.brokers()
    config = story.admin.broker_config(broker)
    assert config["node.id"] == str(broker)
    assert config["log.segment.bytes"] == "1073741824"
    assert config["log.retention.hours"] == "168"
    assert config["group.initial.rebalance.delay.ms"] == "0"
    assert config["auto.create.topics.enable"] == "true"


@having("can_alter_configs")
def test_topic_configs_are_altered(story: Story, client: Client) -> None:
    topic = story.topic(config={"retention.ms": "1000", "segment.ms": "60000"})
    story.admin.alter_topic_config(topic, {"retention.ms": "2000", "max.message.bytes": "5000"})

    def changed() -> bool:
        config = story.admin.topic_config(topic)
        return (config["retention.ms"], config["max.message.bytes"], config["segment.ms"]) == (
            "2000",
            "5000",
            "60000",
        )

    wait_until(changed, "the new values are described")
    admin = story.admin
    assert code_of(lambda: admin.alter_topic_config(topic, {"retention.ms": "-5"})) == INVALID_CONFIG
    assert code_of(lambda: admin.alter_topic_config(topic, {"no.such.key": "1"})) == INVALID_CONFIG
    missing = story.unique("missing")
    assert code_of(lambda: admin.alter_topic_config(missing, {"retention.ms": "1"})) == UNKNOWN_TOPIC_OR_PARTITION


def test_groups_are_listed_and_described(story: Story) -> None:
    topic = story.topic(partitions=2)
    group = story.unique("group")
    story.send_all(story.producer(), topic, [b"x"])
    member = story.consumer(ConsumerOptions(group=group))
    member.subscribe(topic)
    read(member, 1)
    assert group in story.admin.groups()
    info = story.admin.describe_group(group)
    assert (info.state, info.members) == ("Stable", 1)
    assert info.assigned == {Partition(topic, 0), Partition(topic, 1)}


@having("can_delete_groups")
def test_groups_are_deleted_when_they_are_empty(story: Story, client: Client) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    group = story.unique("group")
    story.send_all(story.producer(), topic, [b"x"])
    member = story.client.consumer(story.bootstrap, ConsumerOptions(group=group))
    member.subscribe(topic)
    read(member, 1)
    member.commit({where: Committed(1)})
    assert code_of(lambda: story.admin.delete_group(group)) == NON_EMPTY_GROUP
    member.close()
    wait_until(lambda: story.admin.describe_group(group).state == "Empty", "the group is empty")
    assert story.admin.group_offsets(group) == {where: Committed(1)}
    story.admin.delete_group(group)
    assert group not in story.admin.groups()
    assert story.admin.group_offsets(group) == {}
    assert code_of(lambda: story.admin.delete_group(group)) == GROUP_ID_NOT_FOUND
