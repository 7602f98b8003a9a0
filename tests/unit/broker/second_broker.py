"""A second broker in the metadata of a virtual node, and the fetches it would send."""

from dataclasses import replace
from typing import Final

from tidelog.broker.broker import Broker
from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import BrokerRegistration, EndpointInfo, PartitionRegistration
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

ORDERS: Final = TopicPartition("orders", 0)
NO_SESSION: Final = (0, -1)


def with_second_broker(broker: Broker, *, leader: int, isr: tuple[int, ...], epoch: int) -> PartitionRegistration:
    """The metadata as if broker 2 were there too."""
    image = broker.image
    other = BrokerRegistration(
        broker_id=2,
        epoch=99,
        incarnation_id=image.brokers[1].incarnation_id,
        listeners=(EndpointInfo("PLAINTEXT", "other.example", 9192),),
        fenced=False,
    )
    topic = image.topics_by_name["orders"]
    registration = topic.partitions[0]._replace(
        replicas=(1, 2),
        directories=(),
        isr=isr,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=epoch + 100,
    )
    topic = replace(topic, partitions={0: registration})
    broker.image = replace(
        image,
        brokers={**image.brokers, 2: other},
        topics_by_name=image.topics_by_name.updated({"orders": topic}),
        topics_by_id=image.topics_by_id.updated({topic.topic_id: topic}),
    )
    broker.replicas.announce(broker.image)
    broker.replicas.context.brokers = broker.image.brokers
    partition = broker.replicas.partition(ORDERS)
    if partition.apply(registration, broker.loop.time()).leadership:
        broker.replicas.on_leadership(partition)
    return registration


def follower_fetch(
    broker: Broker,
    offset: int,
    leader_epoch: int,
    *,
    wait_ms: int = 0,
    broker_epoch: int = 99,
    last_epoch: int = -1,
    log_start: int = 0,
    session: tuple[int, int] = NO_SESSION,
) -> FetchRequest:
    """As broker 2 fetches, in versions from 15 on. A session is its id and the epoch of this request."""
    ask = FetchPartition(
        partition=0,
        fetch_offset=offset,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=broker_epoch),
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic_id=broker.replicas.partition(ORDERS).topic_id, partitions=[ask])],
    )
