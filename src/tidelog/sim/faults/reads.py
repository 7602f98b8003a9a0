"""Disks that fail to read, or read something else than was written."""

import random
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tidelog.core.ids import NO_LEADER, TopicPartition
from tidelog.sim.cluster import CLIENT_PORT
from tidelog.sim.disk import SimDisk
from tidelog.sim.faults.field import Applied, Field
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.faults.races import Race
from tidelog.sim.faults.storage import one_error
from tidelog.sim.links import Cut
from tidelog.sim.machine import State
from tidelog.storage.log import Log
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import BATCH_OVERHEAD, read_header

_WHOLE: Final = 1 << 30


def read_error(field: Field, rng: random.Random) -> Applied | None:
    """One read fails."""
    return one_error(field, rng, ("pread", "read_bytes"), 4)


def misread(field: Field, rng: random.Random) -> Applied | None:
    """A follower does not hear its leader for a while, and of what it lacks then a bit is another whenever the leader
    reads it. The follower notices by the CRC, as clients do. In the end the disk is repaired and the node started anew.

    Of a record, not of a batch's header: nodes walk along those without a look at what they stand for.
    """
    image, race = field.look(), Race(field, rng)
    chosen = [
        (TopicPartition(topic.name, index), partition.leader, follower)
        for topic, index, partition in field.partitions()
        if partition.leader not in (NO_LEADER, *field.disturbed) and field.budget.may_lose(partition.leader, image)
        for follower in partition.replicas
        if follower != partition.leader and _log(field, partition.leader, TopicPartition(topic.name, index))
    ]
    if not chosen:
        return None
    partition, leader, follower = rng.choice(chosen)
    repairs: list[Callable[[], None]] = []

    def clean_up() -> None:
        race.heal_all()
        field.budget.at_risk.pop(leader, None)
        for repair in repairs:
            repair()
            field.misreading -= 1
            field.misread_s = field.cluster.loop.time()
        if race.moment.came:
            # Whatever start of the node came across it cut its log there.
            field.budget.lose(leader, field.look())
            field.bounce(leader)

    cut = race.cut(Cut.partition([field.hosts([leader]), field.hosts([follower])]).on_port(CLIENT_PORT))
    story = _misread(race, partition, leader, follower, cut, repairs)
    what = {"node": leader, "follower": follower, "topic": partition.topic, "partition": partition.partition}
    return field.tell_story(story, clean_up, race.moment, what=what, nodes=(leader,))


async def _misread(
    race: Race, partition: TopicPartition, leader: int, follower: int, cut: Cut, repairs: list[Callable[[], None]]
) -> None:
    field = race.field

    def lacking() -> list[_Place]:
        """What the leader has and the follower does not."""
        log, other = _log(field, leader, partition), _log(field, follower, partition)
        if log is None or other is None or log.log_end_offset <= other.log_end_offset:
            return []
        disk = field.cluster.machine(leader).disk
        places = [place for segment in log.segments for place in _places(disk, segment.path)]
        return [place for place in places if place.base_offset >= other.log_end_offset]

    if not await race.until(lacking) or not field.budget.may_lose(leader, field.look()):
        return
    place = race.rng.choice(lacking())
    position = race.rng.randrange(place.bytes.start + BATCH_OVERHEAD, place.bytes.stop)
    disk, bit = field.cluster.machine(leader).disk, 1 << race.rng.randrange(8)
    repairs.append(
        disk.misread(place.path, place.bytes, position, bit, lambda: race.moment.come(path=place.path, at=position))
    )
    field.misreading += 1
    # A start after a crash cuts the log there.
    field.budget.at_risk[leader] = None
    race.heal(cut)


def _log(field: Field, node_id: int, partition: TopicPartition) -> Log | None:
    """Of a node that runs."""
    node = field.cluster.nodes[node_id].node
    running = node is not None and field.state(node_id) is not State.OFF
    logs = node._logs if node is not None and running else None
    return None if logs is None else logs.get(partition)


class _Place(NamedTuple):
    """Where a batch with records stands."""

    path: str
    bytes: range
    base_offset: int


def _places(disk: SimDisk, path: str) -> Iterator[_Place]:
    data, position = disk.peek(path, 0, _WHOLE), 0
    while position + BATCH_OVERHEAD <= len(data):
        try:
            header = read_header(data, position)
        except WireError:
            # Torn, or rotten already.
            return
        size = header.size_in_bytes
        if BATCH_OVERHEAD < size <= len(data) - position:
            yield _Place(path, range(position, position + size), header.base_offset)
        position += size


KINDS: Final = (
    FaultKind(name="read_error", profile="disk", strike=read_error, weight=1.5),
    FaultKind(name="misread", profile="disk", strike=misread, weight=1.2, has_steps=True),
)
