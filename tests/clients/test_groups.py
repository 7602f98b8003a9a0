"""Groups of three: members join, leave, crash, come back under their own name, and keep what they have."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients.adapters import CLIENTS
from tests.clients.adapters.base import Client, Committed, ConsumerOptions, Partition
from tests.clients.crashing_member import CrashingMember
from tests.clients.group_member import Member, shared_out
from tests.clients.story import Story, wait_stored
from tests.clients.waiting import now, wait_until

SHORT_SESSION_MS = 2000
PARTITIONS = 6

Join = Callable[..., Member]


def partitions_of(topic: str) -> frozenset[Partition]:
    return frozenset(Partition(topic, number) for number in range(PARTITIONS))


def using(assignor: str) -> pytest.MarkDecorator:
    able = [client for client in CLIENTS if assignor in client.assignors]
    return pytest.mark.parametrize("client", able, ids=lambda client: client.name)


@pytest.fixture
def group(story: Story) -> str:
    return story.unique("group")


@pytest.fixture
def join(story: Story, group: str) -> Iterator[Join]:
    """Starts a member of this test's group; those still there at the end leave."""
    members: list[Member] = []

    def start(topic: str, **settings: object) -> Member:
        chosen: dict[str, object] = {"group": group, "session_timeout_ms": SHORT_SESSION_MS, **settings}
        member = Member(story.client, story.bootstrap, ConsumerOptions(**chosen), (topic,))  # type: ignore[arg-type]
        members.append(member)
        return member

    yield start
    for member in members:
        member.leave()


def wait_shared(members: list[Member], topic: str, seconds: float = 30.0) -> None:
    wait_until(
        lambda: shared_out(members, partitions_of(topic)),
        f"{len(members)} members share {PARTITIONS} partitions",
        seconds,
    )


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_three_join_and_leave_and_every_record_is_read_once(
    story: Story, join: Join, group: str, assignor: str
) -> None:
    topic = story.topic(partitions=PARTITIONS)
    producer = story.producer()
    members = [join(topic, assignor=assignor) for _ in range(3)]
    wait_shared(members, topic)
    wait_until(lambda: story.admin.describe_group(group).state == "Stable", "the group is stable")
    info = story.admin.describe_group(group)
    assert (info.members, info.assigned) == (3, partitions_of(topic))

    wait_stored([producer.send(topic, b"%d" % n, partition=n % PARTITIONS) for n in range(60)])
    wait_until(lambda: sum(len(member.records) for member in members) >= 60, "60 records")
    seen = sorted(int(record.value or b"") for member in members for record in member.records)
    assert seen == list(range(60))
    for member in members:
        assert {Partition(record.topic, record.partition) for record in member.records} == member.assigned
        ends = {where: Committed(10) for where in member.assigned}
        member.commit(ends)

    members.pop().leave()
    wait_shared(members, topic)
    members.pop().leave()
    wait_shared(members, topic)
    wait_stored([producer.send(topic, b"%d" % n, partition=n % PARTITIONS) for n in range(60, 72)])
    survivor = members[0]
    wait_until(lambda: len([r for r in survivor.records if r.offset >= 10]) >= 12, "12 more records")
    late = sorted(int(record.value or b"") for record in survivor.records if record.offset >= 10)
    assert late == list(range(60, 72))  # what was committed is not read again


def test_a_crashed_member_is_noticed_after_its_session(story: Story, join: Join, group: str) -> None:
    topic = story.topic(partitions=PARTITIONS)
    members = [join(topic), join(topic)]
    wait_shared(members, topic)
    options = ConsumerOptions(group=group, session_timeout_ms=SHORT_SESSION_MS)
    third = CrashingMember(story.client.name, story.bootstrap, options, topic)
    try:
        taken = third.first_assignment()
        assert len(taken) == 2
        rest = partitions_of(topic) - taken
        wait_until(lambda: shared_out(members, rest), "the first two have given up what the third has")
    finally:
        third.crash()
    crashed = now()
    wait_shared(members, topic)
    assert now() - crashed > 0.5, "a member was given up before its session could expire"
    assert story.admin.describe_group(group).members == 2


def test_a_static_member_comes_back_without_a_rebalance(story: Story, join: Join, group: str) -> None:
    topic = story.topic(partitions=PARTITIONS)
    names = ("one", "two", "three")
    members = [join(topic, instance_id=name, session_timeout_ms=20_000) for name in names]
    wait_shared(members, topic)
    before = members[0].assigned
    rounds = [member.assignments for member in members]

    members[0].leave()  # a static member does not leave its group
    returned = join(topic, instance_id="one", session_timeout_ms=20_000)
    wait_until(lambda: returned.assigned == before, "the member has its partitions again")
    assert [member.assignments for member in members[1:]] == rounds[1:], "the others were disturbed"
    assert story.admin.describe_group(group).members == 3


@using("cooperative-sticky")
def test_cooperative_members_keep_what_they_have(story: Story, join: Join, client: Client) -> None:
    topic = story.topic(partitions=PARTITIONS)
    first = join(topic, assignor="cooperative-sticky")
    wait_shared([first], topic)
    second = join(topic, assignor="cooperative-sticky")
    wait_shared([first, second], topic)
    third = join(topic, assignor="cooperative-sticky")
    wait_shared([first, second, third], topic)
    assert all(len(member.assigned) == 2 for member in (first, second, third))
    # What was not handed on was never taken away.
    assert not first.revoked_ever & first.assigned
    assert not second.revoked_ever & second.assigned
    kept = (first.assigned, second.assigned)
    third.leave()
    wait_shared([first, second], topic)
    assert kept[0] <= first.assigned
    assert kept[1] <= second.assigned


def test_a_pattern_takes_in_topics_made_later(story: Story, group: str) -> None:
    prefix = story.unique("pattern")
    early = story.topic(name=f"{prefix}.early")
    story.topic(name=f"other.{prefix}")
    producer = story.producer()
    story.send_all(producer, early, [b"early"])
    consumer = story.consumer(ConsumerOptions(group=group))
    consumer.subscribe_pattern(f"{prefix}.*")
    seen: list[bytes | None] = []

    def polled(wanted: bytes) -> bool:
        seen.extend(record.value for record in consumer.poll(1.0))
        return wanted in seen

    wait_until(lambda: polled(b"early"), "the record of the early topic")
    late = story.topic(name=f"{prefix}.late")
    story.send_all(producer, late, [b"late"])
    wait_until(lambda: polled(b"late"), "the record of the late topic")
    assert consumer.assignment() == {Partition(early, 0), Partition(late, 0)}
