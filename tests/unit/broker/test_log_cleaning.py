"""The cleaner in a broker: its rounds, what stops them, and a group coordinator that loads from a compacted log."""

import asyncio
import errno
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.storage.cleaning import append, batches, clean, pairs, seal

from tidelog.broker.cleaning import CleaningPass
from tidelog.broker.group_shard_runner import ShardPorts, ShardRunner
from tidelog.broker.offload import InlineOffload, ThreadOffload
from tidelog.broker.topic_directory import read_batches
from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.offsets_records import OffsetCommitValue, offset_record, offset_tombstone
from tidelog.coordinator.shard import ShardState
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.core.purgatory import Purgatory
from tidelog.storage.cleaner import Cleaning
from tidelog.storage.log import Log
from tidelog.storage.manager import LogManager
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.ports import Disk
from tidelog.storage.posix import PosixDisk
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import ErrorCode
from tidelog.wire.records.plain import Record, encode_batch

NOW = 1_700_000_000_000
ORDERS = TopicPartition("orders", 0)
CONFIG = TopicConfig(
    cleanup_policy=("compact",), segment_bytes=400, segment_ms=10**12, index_interval_bytes=100, delete_retention_ms=0
)


class Clock:
    def now_ms(self) -> int:
        return NOW


def node_config(path: str, **more: str) -> NodeConfig:
    config, _ = NodeConfig.parse(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "log.dirs": path,
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            **more,
        }
    )
    return config


def start(disk: Disk, path: str) -> LogManager:
    manager = LogManager(disk, node_config(path), random.Random(3))
    manager.open()
    manager.load(lambda topic: CONFIG, NOW)
    return manager


def dirty_log(manager: LogManager, topic_id: int = 7) -> Log:
    log = manager.get_or_create(ORDERS, UUID(int=topic_id), CONFIG, NOW)
    for number in range(60):
        append(log, (f"k{number % 5}", str(number)))
    seal(log)
    return log


NEWEST = [(55 + number, f"k{number}", str(55 + number)) for number in range(5)]


def test_rounds_on_real_files_and_threads(tmp_path: Path) -> None:
    """Two descriptors: every slice opens its file again, and must not get the new one under the old name."""
    disk = PosixDisk(max_open_files=2)
    manager = start(disk, str(tmp_path))
    log = dirty_log(manager)
    slices = [log.read(offset, 10_000, upper_bound=60, min_one=True) for offset in range(60)]
    before = [found.read() for found in slices]
    segments = len(log.segments)
    offload = ThreadOffload(workers=1)
    cleaner = CleaningPass(node_config(str(tmp_path)), manager, Clock(), offload)
    asyncio.run(cleaner.run())
    offload.close()
    assert pairs(log) == NEWEST
    assert [found.read() for found in slices] == before
    text = (tmp_path / "cleaner-offset-checkpoint").read_text()
    assert text == "0\n1\norders 0 60\n"
    # Again, while the files of the first time still wait to be deleted.
    append(log, ("k0", "new"), ("k1", "new"))
    seal(log)
    slices.append(log.read(0, 10_000, upper_bound=60, min_one=True))
    before.append(slices[-1].read())
    clean(log)
    assert [found.read() for found in slices] == before
    assert len(pairs(log)) == 5
    manager.close_cleanly(1, NOW)
    again = start(PosixDisk(max_open_files=2), str(tmp_path))
    reopened = again.get(ORDERS)
    assert reopened is not None
    assert reopened.first_dirty_offset == 62
    assert pairs(reopened) == [*NEWEST[2:], (60, "k0", "new"), (61, "k1", "new")]
    assert len(reopened.segments) <= segments
    again.release()


class Meddling(InlineOffload):
    """Runs the work where it is asked for, and something else after some of it."""

    def __init__(self, after: str, meddle: Callable[[], object]) -> None:
        self._after = after
        self._meddle = meddle

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        async def work() -> Any:
            result = function(*args, **kwargs)
            if function.__name__ == self._after:
                self._meddle()
            return result

        return work()


@pytest.fixture
def disk() -> MemoryDisk:
    made = MemoryDisk()
    made.make_dirs("/data")
    made.fsync_dir("/")
    return made


@pytest.mark.parametrize("after", ["build_map", "copy"])
def test_a_topic_deleted_and_made_again_meanwhile_is_not_touched(disk: MemoryDisk, after: str) -> None:
    manager = start(disk, "/data")
    dirty_log(manager)

    def meddle() -> None:
        manager.delete(ORDERS)
        log = manager.get_or_create(ORDERS, UUID(int=8), CONFIG, NOW, is_new=True)
        append(log, ("new", "1"))

    asyncio.run(CleaningPass(node_config("/data"), manager, Clock(), Meddling(after, meddle)).run())
    log = manager.get(ORDERS)
    assert log is not None
    assert pairs(log) == [(0, "new", "1")]
    assert manager.is_online("/data")


def test_a_full_disk_takes_nothing_offline(disk: MemoryDisk) -> None:
    manager = start(disk, "/data")
    log = dirty_log(manager)
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "append" and ".cleaned" in path else None
    cleaner = CleaningPass(node_config("/data"), manager, Clock(), InlineOffload())
    asyncio.run(cleaner.run())
    assert manager.is_online("/data")
    assert log.first_dirty_offset is None
    assert not [name for name in disk.list_dir(log.dir) if name.endswith(".cleaned")]
    disk.fault = None
    asyncio.run(cleaner.run())
    assert pairs(log) == NEWEST


def test_a_disk_that_is_nearly_full_is_left_to_producers(disk: MemoryDisk, caplog: pytest.LogCaptureFixture) -> None:
    manager = start(disk, "/data")
    log = dirty_log(manager)
    plenty, disk.capacity = disk.capacity, 1 << 20
    disk.capacity = disk.used_bytes() + log.segments[0].size + 100
    touched: list[str] = []
    disk.fault = lambda operation, path: touched.append(path) if "append" in operation else None
    cleaner = CleaningPass(node_config("/data"), manager, Clock(), InlineOffload())
    asyncio.run(cleaner.run())
    assert touched == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "orders-0: not enough disk space to clean" in caplog.text
    append(log, ("k0", "60"))
    disk.capacity = plenty
    asyncio.run(cleaner.run())
    assert pairs(log) == [*NEWEST, (60, "k0", "60")]


def test_a_failing_disk_does(disk: MemoryDisk) -> None:
    manager = start(disk, "/data")
    dirty_log(manager)
    disk.fault = lambda operation, path: errno.EIO if operation == "fsync" and ".cleaned" in path else None
    asyncio.run(CleaningPass(node_config("/data"), manager, Clock(), InlineOffload()).run())
    assert not manager.is_online("/data")


def test_damage_stops_the_cleaning_of_its_log_alone(disk: MemoryDisk) -> None:
    manager = start(disk, "/data")
    log = dirty_log(manager)
    disk.open(log.segments[0].path).pwrite(b"\xff", 65)
    other = manager.get_or_create(TopicPartition("other", 0), UUID(int=9), CONFIG, NOW)
    append(other, ("a", "1"))
    append(other, ("a", "2"))
    seal(other)
    cleaner = CleaningPass(node_config("/data"), manager, Clock(), InlineOffload())
    asyncio.run(cleaner.run())
    asyncio.run(cleaner.run())
    assert pairs(other) == [(1, "a", "2")]
    assert log.first_dirty_offset is None
    assert manager.is_online("/data")


def test_topics_that_are_not_compacted_stay_as_they_are(disk: MemoryDisk) -> None:
    manager = start(disk, "/data")
    log = manager.get_or_create(ORDERS, UUID(int=7), TopicConfig(segment_bytes=400), NOW)
    for number in range(10):
        append(log, ("a", str(number)))
    seal(log)
    asyncio.run(CleaningPass(node_config("/data"), manager, Clock(), InlineOffload()).run())
    assert len(pairs(log)) == 10


def test_a_stop_waits_for_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start(PosixDisk(), str(tmp_path))
    log = dirty_log(manager)
    seen: list[str] = []
    build_map = Cleaning.build_map

    async def story() -> None:
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()

        def slow(cleaning: Cleaning) -> None:
            loop.call_soon_threadsafe(begun.set)
            while not cleaning._stopped:
                pass
            try:
                build_map(cleaning)
            finally:
                seen.append("thread")

        monkeypatch.setattr(Cleaning, "build_map", slow)
        offload = ThreadOffload(workers=1)
        cleaner = CleaningPass(node_config(str(tmp_path)), manager, Clock(), offload)
        task = asyncio.create_task(cleaner.run())
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        seen.append("stopped")
        offload.close()

    asyncio.run(story())
    assert seen == ["thread", "stopped"]
    assert len(pairs(log)) == 60
    manager.release()


def test_a_group_coordinator_loads_from_a_compacted_log(disk: MemoryDisk) -> None:
    partition = TopicPartition("__consumer_offsets", 3)
    manager = start(disk, "/data")
    log = manager.get_or_create(partition, UUID(int=7), CONFIG, NOW)

    def commit(*records: tuple[bytes, bytes | None], **header: int) -> None:
        batch = encode_batch([Record(timestamp=NOW, key=key, value=value) for key, value in records], **header)  # type: ignore[arg-type]
        log.append_as_leader(memoryview(bytearray(batch)), 0, NOW)

    def at(offset: int) -> OffsetCommitValue:
        return OffsetCommitValue(offset=offset, commit_timestamp=NOW)

    for number in range(30):
        commit(offset_record("g", "t", 0, at(number)), offset_record("g", "t", number % 3, at(number)))
    # Idempotent, to leave an empty batch where its records were.
    commit(offset_record("gone", "t", 0, at(1)), producer_id=5, producer_epoch=0, base_sequence=0)
    commit(offset_tombstone("gone", "t", 0))
    seal(log)
    for _ in range(3):
        clean(log, NOW)
        commit(offset_record("g", "t", 9, at(1)))
        seal(log)
    assert log.segments[0].size < 400
    left = batches(log)
    assert sum(len(records) for _, records in left) < 10
    assert any(not records for _, records in left)

    broker = SimpleNamespace(
        replicas={
            partition: SimpleNamespace(
                log=log,
                topic_partition=partition,
                leader_epoch=0,
                require_leader=lambda: None,
                acknowledged=lambda epoch, offset: ErrorCode.NONE,
                find_cold=lambda offset, size, end: log.read(offset, size, upper_bound=end, min_one=True),
                read_cold_slice=lambda found, offload: offload(found.read),
            )
        },
        produce_purgatory=Purgatory(lambda delay_s, callback: lambda: None),
        config=SimpleNamespace(offsets_load_buffer_size=1),
        offload=InlineOffload(),
    )

    def read(topic_partition: TopicPartition) -> AsyncIterator[Buffer]:
        return read_batches(cast(Any, broker), topic_partition)

    async def append_nothing(topic_partition: TopicPartition, batch: bytes) -> None:
        raise AssertionError("nothing is to be written")

    async def story() -> None:
        broker.loop = asyncio.get_running_loop()
        ports = ShardPorts(
            loop=asyncio.get_running_loop(),
            wall_clock=Clock(),
            rng=random.Random(1),
            append=append_nothing,
            read=read,
            on_event=print,
        )
        runner = ShardRunner(partition, 0, GroupCoordinatorConfig(), ports)
        while runner._tasks:
            await asyncio.gather(*runner._tasks)
        shard = runner.shard
        assert shard.shard_state is ShardState.ACTIVE
        assert list(shard.groups) == ["g"]
        offsets = {(topic, number): value.offset for topic, number, value in shard._state.offsets.items("g")}
        assert offsets == {("t", 0): 29, ("t", 1): 28, ("t", 2): 29, ("t", 9): 1}
        runner.close()

    asyncio.run(story())
