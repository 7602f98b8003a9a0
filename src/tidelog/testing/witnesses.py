"""What the nodes themselves say of a partition, each asked on its own.

A client asks one broker and believes it. A test that cuts nodes off must not: a broker that is cut off still answers,
with what it knew before.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from tidelog.client import topics
from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.client.replicas import BrokerAnswer, ask, put_together, recency
from tidelog.client.replicas import ReplicaView as ReplicaView
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterLayout
from tidelog.wire.errors import ApiError

# Nodes are on this machine: one that takes longer is not answering.
_SETTINGS: Final = ConnectionSettings(client_id="tidelog-testing", connect_timeout_s=2.0, request_timeout_s=5.0)


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
        """The newest description these nodes have."""
        if not nodes:
            raise ClusterError("no node is running")
        asked = sorted(nodes)
        answers = await asyncio.gather(
            *(topics.describe_topic(self._clients[node], topic) for node in asked), return_exceptions=True
        )
        told = {
            node: each
            for node, answer in zip(asked, answers, strict=True)
            if isinstance(answer, topics.TopicDescription)
            for each in answer.partitions
            if each.partition == partition
        }
        if told:
            return newest(told)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        raise ClusterError(f"{topic} has no partition {partition}")

    async def all_know(self, nodes: Collection[int], topic: str) -> bool:
        """Whether each of these nodes has heard of a topic."""
        answers = await asyncio.gather(
            *(topics.describe_topic(self._clients[node], topic) for node in sorted(nodes)), return_exceptions=True
        )
        return all(isinstance(answer, topics.TopicDescription) for answer in answers)

    async def replicas(self, nodes: Collection[int], topic: str, partition: int) -> list[ReplicaView]:
        """Each replica's own word, and what the leader knows of it."""
        asked = sorted(nodes)
        told = await asyncio.gather(*(self._ask(node, topic) for node in asked))
        answers = {node: answer for node, answer in zip(asked, told, strict=True) if answer is not None}
        for view in put_together(topic, answers):
            if view.partition == partition:
                return list(view.replicas)
        raise ClusterError(f"no node describes {topic}-{partition}")

    async def _ask(self, node: int, topic: str) -> BrokerAnswer | None:
        try:
            return await ask(await self._clients[node].any_broker(), topic)
        except (ApiError, ClientError):
            return None


def newest(told: Mapping[int, topics.PartitionDescription]) -> topics.PartitionDescription:
    """Of what was told, by the node that told it."""
    _, found = max(
        told.items(), key=lambda each: recency(each[0], leader=each[1].leader, leader_epoch=each[1].leader_epoch)
    )
    return found
