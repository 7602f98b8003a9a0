"""What the group coordinator reads its groups from may fail: that is a failed disk, as for everybody else (C10)."""

import errno

import pytest
from tests.unit.broker.virtual_node import VirtualClient, on_virtual_time, running_node

from tidelog.broker.topic_directory import read_batches
from tidelog.core.ids import TopicPartition
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ApiError, ErrorCode

HURT = "/more"


@pytest.mark.rule("C10")
def test_a_lookup_that_fails_takes_the_directory_offline() -> None:
    disk = MemoryDisk()

    async def story() -> None:
        async with running_node(disk, log_dirs=f"/data,{HURT}", metadata_log_dir="/data") as broker:
            client = await VirtualClient.connect()
            logs = []
            for name in ("orders", "invoices", "parcels"):
                await client.create_topic(name)
                await client.produce(name, b"x")
                log = broker.logs.get(TopicPartition(name, 0))
                assert log is not None
                logs.append(log)
            log = next(each for each in logs if each.directory.path == HURT)
            # Where a batch stands in a closed segment is looked up in the file.
            log.roll(broker.wall_clock.now_ms())
            disk.fault = lambda operation, path: errno.EIO if operation == "pread" and path.startswith(HURT) else None
            with pytest.raises(ApiError) as caught:
                _ = [each async for each in read_batches(broker, log.topic_partition)]
            disk.fault = None
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert not log.directory.online

    on_virtual_time(story)
