"""What a follower tells its leader to have deleted is deleted for good: with that DeleteRecords is acknowledged."""

import errno
import random

from tests.unit.replication.replica_kit import (
    NOW,
    TOPIC_ID,
    ToyLeader,
    exchange,
    fetch_of,
    follow,
    new_disk,
    new_fetcher,
    open_log,
    write,
)

from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import BrokerId, LeaderEpoch, TopicPartition
from tidelog.replication.fetcher import Fetcher
from tidelog.replication.partition import Partition
from tidelog.storage.checkpoints import LOG_START_OFFSET_CHECKPOINT
from tidelog.storage.manager import LogManager
from tidelog.storage.memory import MemoryDisk

CHECKPOINT = f"/data/{LOG_START_OFFSET_CHECKPOINT}"
CONFIG = TopicConfig(segment_bytes=300)


class World:
    """Some partitions, ten records in each; the follower's stand in a directory that is loaded again and again."""

    def __init__(self, partitions: int = 1) -> None:
        self.disk = MemoryDisk()
        self.disk.make_dirs("/data")
        self.disk.fsync_dir("/")
        self.topic_partitions = [TopicPartition("orders", number) for number in range(partitions)]
        self.manager = self.start()
        self.theirs = {tp: open_log(new_disk(), tp, config=CONFIG) for tp in self.topic_partitions}
        self.leader = ToyLeader(self.theirs, 0)
        self.followers: dict[TopicPartition, Partition] = {}
        self.fetcher: Fetcher = new_fetcher()
        for tp, log in self.theirs.items():
            write(log, [(0, 10)])
            log.update_high_watermark(10)
            own = self.manager.get_or_create(tp, TOPIC_ID, CONFIG, NOW, is_new=True)
            self.followers[tp] = Partition(tp, TOPIC_ID, BrokerId(2), own)
            follow(self.followers[tp], 0)
            self.fetcher.assign(self.followers[tp], LeaderEpoch(0), NOW)
        while any(each.log.high_watermark < 10 for each in self.followers.values()):
            exchange(self.fetcher, self.leader)

    def start(self) -> LogManager:
        properties = {
            "process.roles": "broker",
            "node.id": "2",
            "log.dirs": "/data",
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:9093",
        }
        manager = LogManager(self.disk, NodeConfig.parse(properties)[0], random.Random(3))
        manager.open()
        manager.load(lambda topic: CONFIG, NOW)
        return manager

    def told(self) -> dict[int, int]:
        """The log starts that the next fetch tells."""
        request = fetch_of(self.fetcher.build_request(0.0))
        self.fetcher.abandon(request)
        return {asked.partition: asked.log_start_offset for topic in request.topics for asked in topic.partitions}

    def starts_after_a_kill(self) -> list[int]:
        self.manager.release()
        self.manager = self.start()
        found = []
        for tp in self.topic_partitions:
            log = self.manager.get(tp)
            assert log is not None and log.log_end_offset == 10
            found.append(log.log_start_offset)
        return found


def test_what_a_follower_told_to_have_deleted_does_not_come_back() -> None:
    world = World()
    (theirs,) = world.theirs.values()
    theirs.increment_log_start_offset(7)
    exchange(world.fetcher, world.leader)
    assert world.told() == {0: 7}
    assert world.starts_after_a_kill() == [7]


def test_nor_after_a_power_cut() -> None:
    world = World()
    (follower,) = world.followers.values()
    (theirs,) = world.theirs.values()
    follower.log.flush(NOW)
    world.manager.checkpoint_recovery_points()
    theirs.increment_log_start_offset(7)
    exchange(world.fetcher, world.leader)
    assert world.told() == {0: 7}
    world.disk.crash(random.Random(1), lose_entries=True)
    assert world.starts_after_a_kill() == [7]


def test_a_leader_that_heard_of_it_as_a_follower_writes_it_down_before_it_answers() -> None:
    world = World()
    (follower,) = world.followers.values()
    (theirs,) = world.theirs.values()
    theirs.increment_log_start_offset(7)
    exchange(world.fetcher, world.leader)
    # Elected before its next fetch, and asked again by the client.
    assert not follower.log.increment_log_start_offset(7)
    assert world.starts_after_a_kill() == [7]


def test_many_that_move_at_once_are_one_write() -> None:
    world = World(partitions=20)
    for theirs in world.theirs.values():
        theirs.increment_log_start_offset(7)
    exchange(world.fetcher, world.leader)
    writes: list[str] = []
    world.disk.fault = lambda operation, path: writes.append(path) if operation == "write_atomic" else None
    assert set(world.told().values()) == {7}
    assert writes == [CHECKPOINT]
    # Nothing new, nothing written.
    world.told()
    assert writes == [CHECKPOINT]


def test_a_start_that_the_files_tell_is_not_written_down() -> None:
    world = World()
    (follower,) = world.followers.values()
    (theirs,) = world.theirs.values()
    base = follower.log.segments[1].base_offset
    assert 0 < base < 10
    theirs.increment_log_start_offset(base)
    exchange(world.fetcher, world.leader)
    follower.log.delete_old_segments(NOW)
    writes: list[str] = []
    world.disk.fault = lambda operation, path: writes.append(path) if operation == "write_atomic" else None
    assert world.told() == {0: base}
    assert writes == []
    assert world.starts_after_a_kill() == [base]


def test_what_cannot_be_written_down_is_not_told() -> None:
    world = World()
    (theirs,) = world.theirs.values()
    (follower,) = world.followers.values()
    theirs.increment_log_start_offset(7)
    exchange(world.fetcher, world.leader)
    world.disk.fault = lambda operation, path: errno.EIO if path == CHECKPOINT else None
    assert world.fetcher.build_request(0.0) is None
    assert not follower.log.directory.online
    assert len(world.fetcher) == 0
