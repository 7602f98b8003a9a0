"""Replicas over the wire: each broker is asked for its own copy, as Kafka's replica verification did it (replica -2).

A follower answers up to the high watermark that it has heard of. Apache Kafka's followers do too (KIP-392).
"""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tidelog.client.addresses import Address
from tidelog.client.client import Client, one_line
from tidelog.client.configs import ResourceType, describe_configs
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError, raise_for
from tidelog.client.offsets import DEBUGGING_REPLICA_ID, EARLIEST, LATEST, list_offsets, offsets_of
from tidelog.client.security import Security
from tidelog.core.ids import TopicPartition
from tidelog.jobs.audit.compare import Unread
from tidelog.jobs.audit.rows import AuditRow
from tidelog.jobs.audit.walk import Replica, Walker
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tidelog.wire.records.batch import iter_headers

FETCH_BYTES: Final = 8 * 1024 * 1024
# From version 15 on a request has no place for a reader that is no replica and no consumer.
_MOST_VERSION: Final = 14
_TOPIC_IDS_SINCE: Final = 13
_MAX_WAIT_MS: Final = 500
_AHEAD: Final = 2
# How long a follower may take to hear of a high watermark that its leader has told us.
PATIENCE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteReplica:
    """What a task fetches: [start, end) of a replica, from its own broker."""

    topic: str
    partition: int
    topic_id: str
    node: int
    host: str
    port: int
    start: int
    end: int
    compacted: bool

    @property
    def place(self) -> str:
        return f"broker {self.node} at {self.host}:{self.port}"


@dataclass(slots=True)
class LivePlan:
    """What to compare, and who cannot be asked."""

    replicas: list[RemoteReplica] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _settings(security: Security | None) -> ConnectionSettings:
    return ConnectionSettings(client_id="tidelog-audit", security=security)


def plan_live(bootstrap: str, topics: Sequence[str], security: Security | None = None) -> LivePlan:
    """Every replica of the topics; of all topics if none is named. High watermarks are asked for first, and who is in
    sync last: who still is then has all below them, and who has left meanwhile need not.
    """

    async def whole() -> LivePlan:
        async with Client(bootstrap, settings=_settings(security)) as client:
            return await _plan(client, topics)

    return asyncio.run(whole())


async def _plan(client: Client, topics: Sequence[str]) -> LivePlan:
    answer = await client.retrying(lambda: client.refresh(list(topics) or None))
    plan = LivePlan()
    silent: dict[int, ClientError] = {}
    ends: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        raise_for(topic.error_code, what=f"topic {topic.name!r}")
        led = [
            TopicPartition(topic.name or "", each.partition_index) for each in topic.partitions if each.leader_id >= 0
        ]
        if led:
            ends |= {tp: each.offset for tp, each in (await list_offsets(client, dict.fromkeys(led, LATEST))).items()}
    compacted = await _compacted(client, [topic.name or "" for topic in answer.topics])
    known: list[tuple[TopicPartition, int, UUID, tuple[Address, int, int]]] = []
    for topic in answer.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name or "", each.partition_index)
            for node in each.replica_nodes:
                try:
                    if tp not in ends:
                        raise ClientError("the partition has no leader: the high watermark is unknown")
                    bounds = await _bounds(client, node, tp, topic.topic_id, silent)
                except (ApiError, ClientError) as error:
                    plan.unread.append(Unread(tp=tp, node=node, why=one_line(error)))
                    continue
                known.append((tp, node, topic.topic_id, bounds))
    in_sync = await _in_sync(client, topics)
    for tp, node, topic_id, (address, start, seen) in known:
        end = ends[tp] if (tp, node) in in_sync else min(ends[tp], seen)
        if end < ends[tp]:
            plan.notes.append(f"{tp}: broker {node} is not in sync, and is compared up to offset {end} only")
        plan.replicas.append(
            RemoteReplica(
                topic=tp.topic,
                partition=tp.partition,
                topic_id=str(topic_id),
                node=node,
                host=address.host,
                port=address.port,
                start=start,
                end=end,
                compacted=tp.topic in compacted,
            )
        )
    return plan


async def _in_sync(client: Client, topics: Sequence[str]) -> set[tuple[TopicPartition, int]]:
    answer = await client.retrying(lambda: client.refresh(list(topics) or None))
    return {
        (TopicPartition(topic.name or "", each.partition_index), node)
        for topic in answer.topics
        for each in topic.partitions
        for node in each.isr_nodes
    }


async def _compacted(client: Client, topics: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for topic in topics:
        values = await describe_configs(client, ResourceType.TOPIC, topic, ["cleanup.policy"])
        if any("compact" in (each.value or "") for each in values):
            found.add(topic)
    return found


async def _bounds(
    client: Client, node: int, tp: TopicPartition, topic_id: UUID, silent: dict[int, ClientError]
) -> tuple[Address, int, int]:
    """Where the broker is and its replica begins, and the high watermark that it knows. Who is `silent` is not asked
    again for each partition: that would cost a timeout each time.
    """
    address = client.metadata.brokers.get(node)
    if address is None:
        raise ClientError("the broker is not in the cluster at the moment")
    if node in silent:
        raise silent[node]
    try:
        connection = await client.at(address)
        start = (await offsets_of(connection, {tp: EARLIEST}, replica_id=DEBUGGING_REPLICA_ID))[tp].offset
        data = await _fetch(client, address, tp, topic_id, start, max_bytes=1, max_wait_ms=0)
    except ClientError as error:
        silent[node] = error
        raise
    raise_for(data.error_code, what=f"fetch of {tp}")
    return address, start, data.high_watermark


async def _fetch(
    client: Client,
    address: Address,
    tp: TopicPartition,
    topic_id: UUID,
    offset: int,
    *,
    max_bytes: int,
    max_wait_ms: int,
) -> PartitionData:
    connection = await client.at(address)
    asked = FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        replica_id=DEBUGGING_REPLICA_ID,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=tp.topic, topic_id=topic_id, partitions=[asked])],
    )
    has_id = topic_id.int != 0
    version = connection.version_of(FetchRequest, at_most=_MOST_VERSION if has_id else _TOPIC_IDS_SINCE - 1)
    while True:
        answer = await connection.request(request, FetchResponse, version=version)
        raise_for(answer.error_code, what=f"fetch of {tp}")
        for topic in answer.responses:
            for data in topic.partitions:
                return data
        if answer.throttle_time_ms <= 0:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"an answer without {tp}")
        # Over its quota a reader is answered with nothing, and with how long to stay away.
        await asyncio.sleep(answer.throttle_time_ms / 1000)


# --- what a task does -------------------------------------------------------------------------------------------------


def audit_replica(
    remote: RemoteReplica,
    *,
    reads_records: bool = True,
    patience_s: float = PATIENCE_S,
    security: Security | None = None,
) -> Iterator[AuditRow]:
    """The rows of one replica, fetched on a thread of its own."""
    rows: queue.Queue[list[AuditRow] | BaseException | None] = queue.Queue(_AHEAD)
    stopped = threading.Event()

    def put(item: list[AuditRow] | BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                rows.put(item, timeout=0.1)
                return

    async def whole() -> None:
        async for some in _walk(remote, reads_records, patience_s, _settings(security)):
            put(some)
            if stopped.is_set():
                return

    def run() -> None:
        try:
            asyncio.run(whole())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that reads waits for it
            put(error)
        else:
            put(None)

    thread = threading.Thread(target=run, name="tidelog-audit", daemon=True)
    thread.start()
    try:
        while (some := rows.get()) is not None:
            if isinstance(some, BaseException):
                raise some
            yield from some
    finally:
        stopped.set()
        thread.join()


async def _walk(
    remote: RemoteReplica, reads_records: bool, patience_s: float, settings: ConnectionSettings
) -> AsyncIterator[list[AuditRow]]:
    replica = Replica(
        topic=remote.topic,
        partition=remote.partition,
        node=remote.node,
        high_watermark=remote.end,
        compacted=remote.compacted,
    )
    tp, address = TopicPartition(remote.topic, remote.partition), Address(remote.host, remote.port)
    walker = Walker(replica, remote.place, None, reads_records)
    loop = asyncio.get_running_loop()
    position, moved_at = remote.start, loop.time()
    try:
        async with Client((address,), settings=settings) as client:
            while position < remote.end:
                data = await _fetch(
                    client,
                    address,
                    tp,
                    UUID(remote.topic_id),
                    position,
                    max_bytes=FETCH_BYTES,
                    max_wait_ms=_MAX_WAIT_MS,
                )
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset > position:
                    yield [walker.gone(position, data.log_start_offset, "retention deleted them during the audit")]
                    position, walker.expected = data.log_start_offset, None
                    continue
                if data.error_code == ErrorCode.CORRUPT_MESSAGE:
                    yield [walker.problem_at(position, -1, "the broker reports that its copy is damaged")]
                    return
                if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise_for(data.error_code, what=f"fetch of {tp} from {remote.place} at offset {position}")
                some: list[AuditRow] = []
                before = position
                view = memoryview(data.records or b"")
                try:
                    for pos, header in iter_headers(view, partial_tail=True):
                        if header.last_offset < position:
                            continue
                        if header.base_offset >= remote.end:
                            position = remote.end
                            break
                        some.extend(walker.batch(view, pos, header, -1))
                        position = max(position, header.next_offset)
                except WireError as error:
                    some.append(walker.problem_at(position, -1, f"the broker's answer is not a batch: {error}"))
                    yield some
                    return
                yield some
                if position > before:
                    moved_at = loop.time()
                elif not view and data.high_watermark >= remote.end:
                    # Nothing but holes up to there.
                    return
                elif loop.time() - moved_at > patience_s:
                    # It is in sync and does not have what is committed: comparing will say so.
                    return
                elif data.error_code:
                    await asyncio.sleep(_MAX_WAIT_MS / 1000)
    except (ApiError, ClientError) as error:
        # Whatever became of this broker, of the others there is something to be said.
        yield [walker.unread(position, one_line(error))]
