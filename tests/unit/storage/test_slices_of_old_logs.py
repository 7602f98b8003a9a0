"""A slice that waits for a thread is read by the name of its file, and gives nothing that was written under that name
since: not of a topic made anew, nor what stands where a log was cut.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.storage.cleaning import NOW, append, clean, seal

from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.log import Log
from tidelog.storage.manager import LogManager
from tidelog.storage.posix import PosixDisk
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.plain import iter_batches

TP = TopicPartition("orders", 0)


def manager_in(path: Path) -> LogManager:
    config, _ = NodeConfig.parse(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "log.dirs": str(path),
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:9093",
        }
    )
    manager = LogManager(PosixDisk(), config, random.Random(3))
    manager.open()
    manager.load(lambda topic: TopicConfig(), NOW)
    return manager


def values(data: bytes) -> list[bytes | None]:
    return [record.value for _, some in iter_batches(data) for record in some]


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "set aside as a stray"])
def test_a_slice_holds_no_record_of_another_topic(tmp_path: Path, is_deleted: bool) -> None:
    manager = manager_in(tmp_path)
    old = manager.get_or_create(TP, UUID(int=1), TopicConfig(), NOW, is_new=True)
    append(old, ("k", "old"))
    old.update_high_watermark(1)
    found = old.read(0, 1000, upper_bound=1, min_one=True)
    if is_deleted:
        manager.delete(TP)
    new = manager.get_or_create(TP, UUID(int=2), TopicConfig(), NOW, is_new=True)
    append(new, ("k", "new"))
    assert values(found.read()) == [b"old"]
    assert values(new.read(0, 1000, upper_bound=1, min_one=True).read()) == [b"new"]


def test_a_slice_of_what_was_cut_does_not_hold_what_was_written_in_its_place(tmp_path: Path) -> None:
    log = Log.open(PosixDisk(), f"{tmp_path}/orders-0", TP, TopicConfig(), clean_shutdown=False, now_ms=NOW)
    append(log, ("k", "old"))
    found = log.read(0, 1000, upper_bound=1, min_one=True)
    log.truncate_fully_and_start_at(0, NOW)
    append(log, ("k", "new"), epoch=1)
    with pytest.raises(ApiError) as caught:
        found.read()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_the_room_of_compacted_segments_is_given_back(tmp_path: Path) -> None:
    config = TopicConfig(
        cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, segment_ms=10**12, file_delete_delay_ms=0
    )
    log = Log.open(PosixDisk(), f"{tmp_path}/orders-0", TP, config, clean_shutdown=False, now_ms=NOW)
    for _ in range(5):
        append(log, ("a", "x" * 1000))
        append(log, ("b", "x" * 1000))
        seal(log)
        clean(log)
        log.remove_deleted_files(None)
    assert [name for name in _open_files() if name.startswith(str(tmp_path)) and name.endswith("(deleted)")] == []


def _open_files() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        # The descriptor by which this is listed is gone when it is asked for.
        with suppress(FileNotFoundError):
            yield str(entry.readlink())


def test_the_room_of_a_deleted_topic_is_given_back_with_that_of_segments_that_waited(tmp_path: Path) -> None:
    manager = manager_in(tmp_path)
    log = manager.get_or_create(TP, UUID(int=1), TopicConfig(retention_bytes=0), NOW, is_new=True)
    append(log, ("k", "old"))
    seal(log)
    found = log.read(0, 1000, upper_bound=1, min_one=True)
    assert found.read()
    assert log.delete_old_segments(NOW) == 1
    manager.delete(TP)
    # One that is made anew has a segment of that name, and deletes it as well.
    again = manager.get_or_create(TP, UUID(int=2), TopicConfig(retention_bytes=0), NOW, is_new=True)
    append(again, ("k", "new"))
    seal(again)
    assert again.delete_old_segments(NOW) == 1
    assert values(found.read()) == [b"old"]
    again.close_files()
    assert found.file is not None
    found.file.close()
    assert [name for name in _open_files() if name.startswith(str(tmp_path)) and name.endswith(".deleted")] == []
