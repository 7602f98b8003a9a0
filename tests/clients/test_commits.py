"""Committed offsets: metadata comes back, a new consumer goes on from them, an old member may not overwrite."""

import pytest
from tests.clients.adapters.base import Committed, ConsumerOptions, KafkaFault, Partition
from tests.clients.story import Story, read
from tests.clients.waiting import wait_until


def test_offsets_and_metadata_round_trip(story: Story) -> None:
    topic = story.topic(partitions=3)
    group = story.unique("group")
    consumer = story.consumer(ConsumerOptions(group=group))
    wanted = {
        Partition(topic, 0): Committed(7, "plain"),
        Partition(topic, 1): Committed(0, ""),
        Partition(topic, 2): Committed(123_456_789_012, "schön – 潮"),
    }
    consumer.assign(*wanted)
    consumer.commit(wanted)

    assert story.admin.group_offsets(group) == wanted
    reader = story.consumer(ConsumerOptions(group=group))
    reader.assign(*wanted)
    assert {where: reader.committed(where) for where in wanted} == {w: c.offset for w, c in wanted.items()}

    consumer.commit({Partition(topic, 0): Committed(8, "later")})
    assert story.admin.group_offsets(group)[Partition(topic, 0)] == Committed(8, "later")


def test_a_group_without_commits_has_none(story: Story) -> None:
    topic = story.topic()
    consumer = story.consumer(ConsumerOptions(group=story.unique("group")))
    consumer.assign(Partition(topic, 0))
    assert consumer.committed(Partition(topic, 0)) is None


def test_metadata_beyond_the_limit_is_refused(story: Story) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    consumer = story.consumer(ConsumerOptions(group=story.unique("group")))
    consumer.assign(where)
    # Not the limit of 4096 itself: confluent-kafka sends one byte more than its user gave.
    consumer.commit({where: Committed(1, "x" * 4095)})
    with pytest.raises(KafkaFault) as caught:
        consumer.commit({where: Committed(2, "x" * 4097)})
    assert caught.value.code == 12  # OFFSET_METADATA_TOO_LARGE
    assert consumer.committed(where) == 1


def test_a_new_member_goes_on_where_the_last_one_committed(story: Story) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    group = story.unique("group")
    story.send_all(story.producer(), topic, [b"%d" % n for n in range(10)])

    first = story.client.consumer(story.bootstrap, ConsumerOptions(group=group))
    first.subscribe(topic)
    assert read(first, 10)[0].offset == 0
    first.commit({where: Committed(4)})
    first.close()

    second = story.consumer(ConsumerOptions(group=group))
    second.subscribe(topic)
    assert [record.offset for record in read(second, 6)] == [4, 5, 6, 7, 8, 9]


def test_a_commit_from_outside_an_active_group_is_refused(story: Story) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    group = story.unique("group")
    story.send_all(story.producer(), topic, [b"x"])
    member = story.consumer(ConsumerOptions(group=group))
    member.subscribe(topic)
    read(member, 1)

    outsider = story.consumer(ConsumerOptions(group=group))
    outsider.assign(where)
    with pytest.raises(KafkaFault) as caught:
        outsider.commit({where: Committed(1)})
    # UNKNOWN_MEMBER_ID from the broker; kafka-python and aiokafka turn it into their CommitFailed.
    assert caught.value.code in (25, -1)
    member.commit({where: Committed(1, "mine")})
    wait_until(lambda: story.admin.group_offsets(group).get(where) == Committed(1, "mine"), "committed")
