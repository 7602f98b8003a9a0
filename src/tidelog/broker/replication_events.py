"""`__replication_events`: events and samples of this broker's partitions, as JSON lines.

`recording.py` switches it on and off. Nothing waits for it: events go into a bounded queue, and each round publishes
the queue. It leaves out its own topic; otherwise each round would give the next one something to publish.
"""

import json
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tidelog.broker.auto_create import auto_create
from tidelog.broker.broker import Broker
from tidelog.broker.periodic import Periodic
from tidelog.client.addresses import Address
from tidelog.client.client import Client, one_line
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.client.producer import ACKS_LEADER, Producer
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import (
    CommittedRecordsLost,
    Event,
    IsrChanged,
    IsrChangeRefused,
    LeadershipTaken,
    LogTruncated,
    ReplicationSampled,
    UncleanLeaderStarted,
)
from tidelog.core.ids import TopicPartition
from tidelog.metadata.names import REPLICATION_EVENTS_TOPIC
from tidelog.replication.role_events import leadership
from tidelog.replication.roles import Leader
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.plain import Record

log = logging.getLogger("tidelog.replication_events")

PUBLISHED: Final = (
    IsrChanged,
    IsrChangeRefused,
    LeadershipTaken,
    UncleanLeaderStarted,
    LogTruncated,
    CommittedRecordsLost,
)
MOST_WAITING: Final = 10_000
# Of each list in a sample: a broker with thousands of partitions tells of the worst.
MOST_LISTED: Final = 500
# In one batch, well below `message.max.bytes`.
_BATCH: Final = 200
_BATCH_BYTES: Final = 400_000
# Who may write to internal topics.
_CLIENT_ID: Final = "__admin_client"
_PATIENCE_S: Final = 5.0


class ReplicationEvents:
    """One stretch of recording, from switched on to switched off. `start` and `stop` begin and end its rounds."""

    def __init__(self, broker: Broker, *, address: Callable[[], Address | None], rng: random.Random) -> None:
        self._broker = broker
        self._address = address
        self._rng = rng
        self._waiting: deque[bytes] = deque()
        self._dropped = 0
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._client: Client | None = None
        self._told = ""
        self._rounds: Periodic | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, PUBLISHED) and event.topic != REPLICATION_EVENTS_TOPIC:
            self._keep(event.as_dict())

    def take_leaderships(self) -> None:
        """Recording begins in the middle: without the present leaders, the first move of each partition is no move."""
        for partition in self._broker.replicas:
            if isinstance(partition.role, Leader):
                self.take(leadership(partition.topic_partition, partition.role, partition.log))

    def start(self) -> None:
        interval_s = self._broker.config.tidelog_replication_events_interval_ms / 1000
        self._rounds = Periodic(self._broker.loop, "replication events", interval_s, self._round)

    def apply_config(self, config: NodeConfig) -> None:
        if self._rounds is not None:
            self._rounds.interval_s = config.tidelog_replication_events_interval_ms / 1000

    async def stop(self) -> None:
        if self._rounds is not None:
            await self._rounds.stop()
            self._rounds = None
        await self._disconnect()

    def _keep(self, event: dict[str, Any]) -> None:
        told = {"time": self._broker.wall_clock.now_ms(), "node": self._broker.config.node_id} | event
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(json.dumps(told, separators=(",", ":")).encode())

    # --- samples ------------------------------------------------------------------------------------------------------

    def sample(self) -> ReplicationSampled:
        """How it stands now."""
        under: list[tuple[str, int, int, int]] = []
        lags: list[tuple[str, int, int, int]] = []
        stalled: list[tuple[str, int, int, int]] = []
        leaders = 0
        before, self._high_watermarks = self._high_watermarks, {}
        for partition in self._broker.replicas:
            role, tp = partition.role, partition.topic_partition
            if not isinstance(role, Leader) or tp.topic == REPLICATION_EVENTS_TOPIC:
                continue
            leaders += 1
            end, high_watermark = partition.log.log_end_offset, partition.log.high_watermark
            in_sync = len(role.isr_state.isr)
            if in_sync < len(role.replicas):
                under.append((tp.topic, tp.partition, in_sync, len(role.replicas)))
            if high_watermark < end:
                self._high_watermarks[tp] = high_watermark
                if before.get(tp) == high_watermark:
                    stalled.append((tp.topic, tp.partition, high_watermark, end))
            for broker_id, follower in role.followers.items():
                # Who has not fetched in this epoch lacks nobody knows how much.
                if follower.log_end_offset >= 0:
                    lags.append((tp.topic, tp.partition, broker_id, max(0, end - follower.log_end_offset)))
        lags.sort(key=lambda each: -each[3])
        stalled.sort(key=lambda each: each[2] - each[3])
        return ReplicationSampled(
            interval_ms=self._broker.config.tidelog_replication_events_interval_ms,
            leaders=leaders,
            under_replicated=tuple(under[:MOST_LISTED]),
            lags=tuple(lags[:MOST_LISTED]),
            stalled=tuple(stalled[:MOST_LISTED]),
            dropped=self._dropped,
        )

    # --- publishing ---------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        self._keep(self.sample().as_dict())
        try:
            await self._ensure_topic()
            while self._waiting:
                await self._send()
            self._told = ""
        except (ApiError, ClientError) as error:
            await self._disconnect()
            # Said once, not every second: what waits is kept as long as there is room.
            if self._told != (told := one_line(error)):
                self._told = told
                log.warning("cannot write to %s: %s", REPLICATION_EVENTS_TOPIC, told)

    async def _ensure_topic(self) -> None:
        if REPLICATION_EVENTS_TOPIC not in self._broker.image.topics_by_name:
            refused = await auto_create(self._broker, [REPLICATION_EVENTS_TOPIC])
            if refused:
                code = refused[REPLICATION_EVENTS_TOPIC]
                raise ApiError(code, f"{REPLICATION_EVENTS_TOPIC} cannot be created")

    async def _send(self) -> None:
        if self._client is None:
            address = self._address()
            if address is None:
                raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "this broker is not registered")
            settings = ConnectionSettings(client_id=_CLIENT_ID)
            self._client = Client([address], settings=settings, retry_timeout_s=_PATIENCE_S, rng=self._rng)
        some: list[bytes] = []
        size = 0
        while self._waiting and len(some) < _BATCH and size < _BATCH_BYTES:
            some.append(self._waiting.popleft())
            size += len(some[-1])
        now_ms = self._broker.wall_clock.now_ms()
        producer = Producer(self._client, acks=ACKS_LEADER, codec=Codec.ZSTD, delivery_timeout_s=_PATIENCE_S)
        try:
            await producer.send(
                REPLICATION_EVENTS_TOPIC, 0, [Record(timestamp=now_ms, key=None, value=value) for value in some]
            )
        except (ApiError, ClientError):
            self._waiting.extendleft(reversed(some))
            raise

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
