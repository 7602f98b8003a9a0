"""What the nodes themselves say of a partition, each asked on its own.

A client asks one broker and believes it. A test that cuts nodes off must not: a broker that is cut off still answers,
with what it knew before.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tidelog.client import topics
from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.client.offsets import CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID, LATEST, offsets_of
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterLayout
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ApiError

# Nodes are on this machine: one that takes longer is not answering.
_SETTINGS: Final = ConnectionSettings(client_id="tidelog-testing", connect_timeout_s=2.0, request_timeout_s=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica of a partition, as far as it can be asked. `None`: it does not answer."""

    broker: int
    is_leader: bool
    in_isr: bool
    log_end_offset: int | None
    high_watermark: int | None
    leader_epoch: int


class Witnesses:
    """A connection to each node, opened when it is asked."""

    def __init__(self, layout: ClusterLayout) -> None:
        self._clients = {
            node.id: Client([Address("127.0.0.1", node.port)], settings=_SETTINGS, retry_timeout_s=0)
            for node in layout.nodes
        }

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    async def partition(self, nodes: Collection[int], topic: str, partition: int) -> topics.PartitionDescription:
        """The newest description these nodes have: the one of the highest leader epoch."""
        if not nodes:
            raise ClusterError("no node is running that could be asked")
        answers = await asyncio.gather(
            *(topics.describe_topic(self._clients[node], topic) for node in sorted(nodes)), return_exceptions=True
        )
        found = []
        for answer in answers:
            if isinstance(answer, topics.TopicDescription):
                found += [each for each in answer.partitions if each.partition == partition]
        if found:
            return max(found, key=lambda each: each.leader_epoch)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        raise ClusterError(f"{topic} has no partition {partition}")

    async def replicas(
        self, nodes: Collection[int], topic: str, described: topics.PartitionDescription
    ) -> list[ReplicaView]:
        tp = TopicPartition(topic, described.partition)
        return list(
            await asyncio.gather(*(self._replica(broker, nodes, tp, described) for broker in described.replicas))
        )

    async def _replica(
        self, broker: int, nodes: Collection[int], tp: TopicPartition, described: topics.PartitionDescription
    ) -> ReplicaView:
        end: int | None = None
        high_watermark: int | None = None
        if broker in nodes:
            end = await self._offset(broker, tp, DEBUGGING_REPLICA_ID)
            if broker == described.leader:
                high_watermark = await self._offset(broker, tp, CONSUMER_REPLICA_ID)
        return ReplicaView(
            broker=broker,
            is_leader=broker == described.leader,
            in_isr=broker in described.isr,
            log_end_offset=end,
            high_watermark=high_watermark,
            leader_epoch=described.leader_epoch,
        )

    async def _offset(self, broker: int, tp: TopicPartition, replica_id: int) -> int | None:
        try:
            connection = await self._clients[broker].any_broker()
            return (await offsets_of(connection, {tp: LATEST}, replica_id=replica_id))[tp].offset
        except (ApiError, ClientError):
            return None
