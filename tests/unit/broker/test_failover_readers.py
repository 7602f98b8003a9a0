"""What readers and clocks see of failovers: ends that never move back, clocks that move nothing, large records."""

import asyncio
from contextlib import suppress

import pytest
from tests.unit.broker.replica_stories import (
    ORDERS,
    ask,
    create,
    images,
    isr,
    large_batch,
    leader,
    log_of,
    registration,
    replica,
    until_isr,
    until_led_by,
    values,
    write,
)
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster
from tests.unit.broker.virtual_node import START_MS, VirtualClient, batch, fetch_request

from tidelog.core.ids import NO_LEADER
from tidelog.sim.cluster import SimCluster
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST = -1
SECOND_MS = 1000


async def offset_at(client: VirtualClient, version: int = 7, timestamp: int = LATEST) -> tuple[ErrorCode, int]:
    ask_for = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=ORDERS.topic, partitions=[ask_for])])
    answer = (await client.call(request, version)).topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.offset


class Reader:
    """Asks whoever leads, again and again: where the log ends, and where the high watermark stands."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self.latest: list[int] = []
        self.high_watermarks: list[int] = []
        self.not_available = 0

    async def read(self) -> None:
        while True:
            # A machine without power does not say that it is gone.
            with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                async with asyncio.timeout(0.5):
                    await self._read_from(leader(self._cluster))
            await asyncio.sleep(0.002)

    async def _read_from(self, node_id: int) -> None:
        if node_id == NO_LEADER:
            return
        client = await connect(self._cluster, node_id)
        while leader(self._cluster) == node_id:
            code, offset = await offset_at(client)
            if code is ErrorCode.NONE:
                self.latest.append(offset)
                await self._fetch(client, offset)
            elif code is ErrorCode.OFFSET_NOT_AVAILABLE:
                self.not_available += 1
            await asyncio.sleep(0.001)
        client.writer.close()

    async def _fetch(self, client: VirtualClient, offset: int) -> None:
        response = await client.call(fetch_request(ORDERS.topic, offset, wait_ms=0), 12)
        answer = response.responses[0].partitions[0]
        # What the end was said to be, can be read from: never out of range, by whoever leads now.
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER), answer
        if answer.error_code == ErrorCode.NONE:
            self.high_watermarks.append(max(offset, answer.high_watermark))


@pytest.mark.rule("W4", "W5", "W2")
@pytest.mark.parametrize("how", ["kill", "stop", "power cut"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_reader_never_sees_the_end_move_back(seed: int, how: str) -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], min_insync_replicas="2")
        reader = Reader(cluster)
        reading = asyncio.ensure_future(reader.read())
        acknowledged = 0
        for _ in range(4):
            for _ in range(30):
                # Whoever leads next may not have heard yet how far this is committed.
                acknowledged = await write(cluster, b"x") + 1
            at = leader(cluster)
            if how == "kill":
                cluster.kill(at)
            elif how == "stop":
                await cluster.stop(at)
            else:
                cluster.power_cut(at)
            await write(cluster, b"y")
            await cluster.start(at)
            await until_isr(cluster, {1, 2, 3})
        await asyncio.sleep(0.5)
        assert not reading.done(), reading.exception()
        reading.cancel()
        assert len(reader.latest) > 100
        assert reader.latest == sorted(reader.latest)
        assert reader.high_watermarks == sorted(reader.high_watermarks)
        assert reader.latest[-1] >= acknowledged

    on_virtual_cluster(story, seed=seed, controllers=3)


@pytest.mark.rule("W5")
@pytest.mark.parametrize(("version", "code"), [(4, "LEADER_NOT_AVAILABLE"), (5, "OFFSET_NOT_AVAILABLE")])
def test_a_new_leader_does_not_tell_the_end_before_it_knows_it(version: int, code: str) -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], min_insync_replicas="2")
        await write(cluster, b"committed")
        await until_isr(cluster, {1, 2, 3})
        # Broker 3 keeps the next write from being committed, and is still in the ISR when the leader dies.
        cluster.pause(3)
        client = await connect(cluster, 1)
        waiting = asyncio.ensure_future(ask(client, batch(b"waits"), acks=-1, timeout_ms=20_000))
        await cluster.until(lambda: log_of(cluster, 2).log_end_offset == 2)
        cluster.kill(1)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await waiting
        await until_led_by(cluster, 2)
        asking = await connect(cluster, 2)
        assert await offset_at(asking, version) == (ErrorCode[code], -1)
        # By time: what it knows to be committed it tells, and of what may come behind that nothing yet.
        assert log_of(cluster, 2).high_watermark == 1
        assert await offset_at(asking, version, START_MS) == (ErrorCode.NONE, 0)
        assert await offset_at(asking, version, START_MS + 1) == (ErrorCode[code], -1)
        cluster.resume(3)
        await cluster.until(lambda: log_of(cluster, 2).high_watermark == 2)
        assert await offset_at(asking, version) == (ErrorCode.NONE, 2)
        assert await offset_at(asking, version, START_MS + 1) == (ErrorCode.NONE, -1)

    on_virtual_cluster(story, controllers=3)


@pytest.mark.rule("I2")
@pytest.mark.parametrize("jump_s", [3600, -3600, 10 * 365 * 86_400])
@pytest.mark.parametrize("whose", ["a broker", "everybody"])
def test_a_jump_of_the_wall_clock_moves_no_isr_high_watermark_or_leader(whose: str, jump_s: int) -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], min_insync_replicas="2", retention_ms="-1")
        for _ in range(5):
            await write(cluster, b"before")
        await asyncio.sleep(1)
        before = registration(cluster)
        broker_epochs = {node: known.epoch for node, known in next(images(cluster)).brokers.items()}
        controllers = active(cluster)
        watermarks = [log_of(cluster, node).high_watermark for node in (1, 2, 3)]
        for node_id in cluster.nodes if whose == "everybody" else (leader(cluster),):
            cluster.machine(node_id).clock.jump(jump_s * SECOND_MS)
        # Longer than every session, lag and election timeout there is.
        for _ in range(20):
            await asyncio.sleep(2)
            assert registration(cluster) == before
        assert [log_of(cluster, node).high_watermark for node in (1, 2, 3)] == watermarks
        assert {node: known.epoch for node, known in next(images(cluster)).brokers.items()} == broker_epochs
        assert active(cluster) == controllers
        assert await write(cluster, b"after") == 5

    on_virtual_cluster(story, controllers=3)


def active(cluster: SimCluster) -> list[tuple[int, int]]:
    found = []
    for node_id in cluster.nodes:
        control = cluster.node(node_id).control
        if control is not None and control.controller is not None and control.controller.is_active:
            found.append((node_id, control.raft.epoch))
    return found


@pytest.mark.rule("F4")
@pytest.mark.parametrize("name", ["max.message.bytes", "larger than every fetch limit"])
def test_a_record_as_large_as_allowed_replicates(name: str) -> None:
    limit = 1_048_588 if name == "max.message.bytes" else 12_000_000

    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], min_insync_replicas="3", max_message_bytes=str(limit))
        client = await connect(cluster, 1)
        overhead = len(large_batch(limit)) - limit
        size = max(size for size in range(limit - overhead, limit - overhead + 4) if len(large_batch(size)) <= limit)
        small = await ask(client, batch(b"before"), acks=-1, timeout_ms=5000)
        assert small.error_code == ErrorCode.NONE
        answer = await ask(client, large_batch(size), acks=-1, timeout_ms=10_000)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
        too_large = await ask(client, large_batch(size + 1), acks=-1, timeout_ms=5000)
        assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert await write(cluster, b"behind it") == 2
        for node in (1, 2, 3):
            assert [len(value) for value in values(cluster, node)] == [6, size, 9]
        # And so does a replica that has to copy it later.
        cluster.kill(3)
        await until_isr(cluster, {1, 2})
        cluster.wipe(3)
        await cluster.start(3)
        await until_isr(cluster, {1, 2, 3})
        assert replica(cluster, 3) is not None
        assert isr(cluster) == {1, 2, 3}
        assert [len(value) for value in values(cluster, 3)] == [6, size, 9]

    on_virtual_cluster(story, controllers=1)
