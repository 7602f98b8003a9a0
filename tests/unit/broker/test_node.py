"""A node as a whole: what stops it, what it does with what it finds, what it takes while it runs."""

import asyncio
import errno
import random
from uuid import UUID

import pytest
from tests.unit.broker.virtual_node import (
    PROPERTIES,
    START_MS,
    VirtualClient,
    VirtualClock,
    fetch_request,
    on_virtual_time,
    produce_request,
    running_node,
)

from tidelog.broker.format import FormatError, format_directories
from tidelog.broker.node import Node
from tidelog.broker.offload import InlineOffload
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.checkpoints import write_partition_metadata
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.ports import AlreadyLocked
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.produce import PartitionProduceResponse
from tidelog.wire.records.plain import Record, encode_batch

ORDERS = TopicPartition("orders", 0)


def new_node(disk: MemoryDisk, seed: int = 1, /, **properties: str) -> Node:
    config, _ = NodeConfig.parse(PROPERTIES | {key.replace("_", "."): value for key, value in properties.items()})
    loop = asyncio.get_running_loop()
    return Node(config, disk=disk, wall_clock=VirtualClock(loop), offload=InlineOffload(), rng=random.Random(seed))


async def started_node(disk: MemoryDisk, **properties: str) -> Node:
    """On directories that are formatted for it."""
    node = new_node(disk, **properties)
    format_directories(disk, node.config, None, random.Random(1), START_MS)
    await node.start()
    return node


@pytest.mark.rule("C10")
def test_a_failed_metadata_directory_stops_the_node() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        node = await started_node(disk)
        client = await VirtualClient.connect()
        await client.create_topic("orders")
        disk.fault = lambda operation, path: errno.ENOSPC if operation == "append" else None
        answer = await client.produce("orders", b"x")
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert node.failed.is_set()
        disk.fault = None
        await node.stop()
        assert not disk.exists("/data/.kafka_cleanshutdown")

    on_virtual_time(story)


@pytest.mark.rule("C10")
@pytest.mark.parametrize("metadata_fails", [False, True])
def test_a_node_that_fails_while_it_stops_waits_for_nobody(metadata_fails: bool) -> None:
    async def story() -> None:
        disk = MemoryDisk()
        node = await started_node(disk)
        client = await VirtualClient.connect()
        await client.create_topic("orders")
        assert node.control is not None
        stopping = asyncio.ensure_future(node.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        began_s = asyncio.get_running_loop().time()
        if metadata_fails:
            node.control.quorum.fail(RuntimeError("the story says so"))
        await stopping
        assert (asyncio.get_running_loop().time() > began_s) is not metadata_fails
        assert disk.exists("/data/.kafka_cleanshutdown") is not metadata_fails

    on_virtual_time(story)


@pytest.mark.rule("C10")
def test_a_node_stops_when_its_last_log_directory_fails() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        node = await started_node(disk, log_dirs="/data,/more", metadata_log_dir="/meta")
        assert node.broker is not None
        client = await VirtualClient.connect()
        for topic in ("a", "b"):
            await client.create_topic(topic)
        disk.fault = lambda operation, path: errno.EIO if not path.startswith("/meta") else None
        assert (await client.produce("a", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not node.failed.is_set()
        assert (await client.produce("b", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert node.failed.is_set()
        # Metadata that comes meanwhile finds no directory for its logs, and is told so.
        await client.create_topic("c")
        assert node.broker.replicas.get(TopicPartition("c", 0)) is None
        disk.fault = None
        await node.stop()
        assert not any(disk.exists(f"{path}/.kafka_cleanshutdown") for path in ("/data", "/more"))

    on_virtual_time(story)


async def _written(client: VirtualClient, topic: str, value: bytes) -> PartitionProduceResponse:
    """Once there is a leader: after an end that was not orderly everywhere the last one has to be elected again."""
    while (answer := await client.produce(topic, value)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        await asyncio.sleep(0.01)
    return answer


@pytest.mark.rule("C10")
@pytest.mark.parametrize("for_a_moment", [False, True])
def test_a_directory_that_cannot_be_read_at_the_start_takes_only_its_own_partitions(for_a_moment: bool) -> None:
    """Seed 126: such a node did not start. What it cannot read may be there: nothing is made a second time."""
    shape = {"log_dirs": "/data,/more", "metadata_log_dir": "/meta"}

    async def story() -> None:
        disk = MemoryDisk()
        node = await started_node(disk, **shape)
        client = await VirtualClient.connect()
        for topic in ("a", "b"):
            await client.create_topic(topic)
            assert (await client.produce(topic, b"x")).error_code == ErrorCode.NONE
        assert node.broker is not None
        homes = {name: node.broker.replicas.partition(TopicPartition(name, 0)).log.dir for name in ("a", "b")}
        broken = homes["a"].rpartition("/")[0]
        await node.stop()
        failed: list[str] = []

        def fault(operation: str, path: str) -> int | None:
            if path.startswith(broken) and not (for_a_moment and failed):
                failed.append(path)
                return errno.EIO
            return None

        disk.fault = fault
        node = new_node(disk, 2, **shape)
        await node.start()
        assert failed
        client = await VirtualClient.connect()
        assert (await _written(client, "b", b"y")).base_offset == 1
        assert (await client.produce("a", b"y")).error_code != ErrorCode.NONE
        disk.fault = None
        await node.stop()
        node = new_node(disk, 3, **shape)
        await node.start()
        client = await VirtualClient.connect()
        assert (await _written(client, "a", b"z")).base_offset == 1
        await node.stop()

    on_virtual_time(story)


@pytest.mark.rule("C10")
def test_a_failed_directory_takes_only_its_own_partitions() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk, log_dirs="/data,/more", metadata_log_dir="/meta") as broker:
            client = await VirtualClient.connect()
            for topic in ("a", "b"):
                await client.create_topic(topic)
                assert (await client.produce(topic, b"x")).error_code == ErrorCode.NONE
            homes = {name: broker.replicas.partition(TopicPartition(name, 0)).log.dir for name in ("a", "b")}
            assert len({home.rpartition("/")[0] for home in homes.values()}) == 2
            broken = homes["a"]
            disk.fault = lambda operation, path: errno.EIO if operation == "append" and broken in path else None
            for _ in range(2):
                assert (await client.produce("a", b"y")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await client.produce("b", b"y")).base_offset == 1
            found = (await client.call(fetch_request("b", 0), 12)).responses[0].partitions[0]
            assert found.high_watermark == 2
            disk.fault = None

    on_virtual_time(story)


def test_a_log_that_the_metadata_does_not_know_is_kept_aside() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk):
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            await client.produce("orders", b"x")
        write_partition_metadata(disk, "/data/orders-0/partition.metadata", UUID(int=424242))
        async with running_node(disk) as broker:
            assert broker.replicas.partition(ORDERS).log.log_end_offset == 0
        kept = [name for name in disk.list_dir("/data") if name.endswith("-stray")]
        assert len(kept) == 1
        assert disk.exists(f"/data/{kept[0]}/00000000000000000000.log")

    on_virtual_time(story)


def test_a_second_process_is_refused() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk):
            with pytest.raises(AlreadyLocked, match="/data"):
                await new_node(disk, listeners="PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2").start()

    on_virtual_time(story)


def test_an_unformatted_directory_names_the_command() -> None:
    async def story() -> None:
        with pytest.raises(FormatError, match="tidelog format"):
            await new_node(MemoryDisk()).start()

    on_virtual_time(story)


def test_directories_of_other_nodes_and_clusters_are_refused() -> None:
    disk = MemoryDisk()
    config, _ = NodeConfig.parse(PROPERTIES)
    format_directories(disk, config, "abc", random.Random(1), START_MS)
    other, _ = NodeConfig.parse(PROPERTIES | {"node.id": "2", "controller.quorum.voters": "2@127.0.0.1:9093"})
    with pytest.raises(FormatError, match="belongs to node 1"):
        format_directories(disk, other, None, random.Random(1), START_MS)
    with pytest.raises(FormatError, match="belong to cluster abc"):
        format_directories(disk, config, "xyz", random.Random(1), START_MS)
    assert format_directories(disk, config, None, random.Random(1), START_MS) == ("abc", [])


@pytest.mark.rule("W4")
@pytest.mark.parametrize("left", [b"", b"0\n1\n", b"0\n1\norders 0 1", b"\0\0\0\0"])
def test_a_torn_high_watermark_checkpoint_is_found_again(left: bytes) -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk):
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            await client.produce("orders", b"x", b"y")
        disk.write_atomic("/data/replication-offset-checkpoint", left)
        async with running_node(disk):
            client = await VirtualClient.connect()
            found = (await client.call(fetch_request("orders", 0), 12)).responses[0].partitions[0]
            assert found.high_watermark == 2

    on_virtual_time(story)


@pytest.mark.rule("W4")
def test_the_high_watermark_is_checkpointed_by_the_clock_and_on_shutdown() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk):
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            await client.produce("orders", b"x")
            await asyncio.sleep(6)
            assert disk.read_bytes("/data/replication-offset-checkpoint") == b"0\n1\norders 0 1\n"
            await client.produce("orders", b"y")
        assert disk.read_bytes("/data/replication-offset-checkpoint") == b"0\n1\norders 0 2\n"

    on_virtual_time(story)


def alter_broker(name: str, value: str) -> IncrementalAlterConfigsRequest:
    entry = AlterableConfig(name=name, config_operation=0, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="", configs=[entry])]
    )


def test_dynamic_configs_are_taken_by_open_logs() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            for name, value in (("log.retention.ms", "1234"), ("producer.id.expiration.ms", "777000")):
                response = await client.call(alter_broker(name, value), 1)
                assert response.responses[0].error_code == ErrorCode.NONE, response
            log = broker.replicas.partition(ORDERS).log
            assert log.config.retention_ms == 1234
            assert log.producers.producer_id_expiration_ms == 777_000
            assert broker.config.producer_id_expiration_ms == 777_000

    on_virtual_time(story)


@pytest.mark.rule("P5")
def test_refused_records_are_named() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()):
            client = await VirtualClient.connect()
            await client.create_topic("table", cleanup_policy="compact")
            keyless = encode_batch(
                [Record(timestamp=START_MS, key=b"k", value=b"v"), Record(timestamp=START_MS, key=None, value=b"v")]
            )
            answer = (await client.call(produce_request("table", keyless), 9)).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.INVALID_RECORD
            assert [entry.batch_index for entry in answer.record_errors] == [1]

    on_virtual_time(story)
