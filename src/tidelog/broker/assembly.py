"""Puts the services of a broker together."""

import asyncio
import random
from collections.abc import Callable

from tidelog.broker.appends import append_and_wait
from tidelog.broker.broker import Broker, ControllerChannel
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_coordinator import GroupCoordinatorService
from tidelog.broker.group_shard_runner import ShardPorts
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.topic_directory import BrokerTopics, max_message_bytes, read_batches
from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.core.config.node import NodeConfig
from tidelog.core.event import EventSink
from tidelog.core.ids import BrokerId
from tidelog.core.ports import Offload, WallClock
from tidelog.core.purgatory import CancelTimer, Purgatory
from tidelog.metadata.image import EMPTY_IMAGE
from tidelog.replication.manager import ReplicaManager
from tidelog.storage.manager import LogManager
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

# A coordinator's append has no client of its own waiting for it: it may take as long as replication does.
COORDINATOR_APPEND_TIMEOUT_MS = 24 * 3_600_000


def assemble_broker(
    loop: asyncio.AbstractEventLoop,
    config: NodeConfig,
    cluster_id: str,
    logs: LogManager,
    controller: ControllerChannel,
    wall_clock: WallClock,
    offload: Offload,
    rng: random.Random,
    on_event: EventSink,
) -> Broker:
    """A broker that knows nothing of the cluster yet: its image is empty and it leads nothing."""
    node_id = BrokerId(config.node_id)

    def start_timer(delay_s: float, callback: Callable[[], None]) -> CancelTimer:
        return loop.call_later(delay_s, callback).cancel

    async def allocate_ids() -> tuple[int, int]:
        registered = broker.image.brokers.get(node_id)
        request = AllocateProducerIdsRequest(
            broker_id=node_id, broker_epoch=-1 if registered is None else registered.epoch
        )
        response: AllocateProducerIdsResponse = await controller.send(request)
        if response.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(response.error_code), "the controller returned no producer ids")
        return response.producer_id_start, response.producer_id_len

    broker = Broker(
        node_id=node_id,
        cluster_id=cluster_id,
        config=config,
        loop=loop,
        rng=rng,
        wall_clock=wall_clock,
        offload=offload,
        logs=logs,
        replicas=ReplicaManager(node_id, config, logs),
        controller=controller,
        groups=GroupCoordinatorService(
            GroupCoordinatorConfig.from_node(config),
            ShardPorts(
                loop=loop,
                wall_clock=wall_clock,
                rng=rng,
                append=lambda partition, batch: append_and_wait(
                    broker, partition, batch, COORDINATOR_APPEND_TIMEOUT_MS
                ),
                read=lambda partition: read_batches(broker, partition),
                on_event=on_event,
                max_message_bytes=lambda partition: max_message_bytes(broker, partition),
            ),
            # Looks at the broker's image of the moment it is asked.
            BrokerTopics(lambda: broker.image),
        ),
        producer_ids=ProducerIds(allocate_ids),
        fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, rng),
        produce_purgatory=Purgatory(start_timer),
        fetch_purgatory=Purgatory(start_timer),
        image=EMPTY_IMAGE,
    )
    return broker
