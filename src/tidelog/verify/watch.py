"""Watches a topic through every broker at once: a node that is cut off goes on telling what it last knew."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.addresses import Address
from tidelog.client.connection import Connection, ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.client.security import Security
from tidelog.verify.workload import VerifyError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

_EVERY_S: Final = 0.1
_PATIENCE_S: Final = 3.0
_METADATA_TOPIC: Final = "__cluster_metadata"

# One broker's picture: its partitions by number.
Picture = dict[int, MetadataResponsePartition]


@dataclass(frozen=True, slots=True)
class View:
    """What each broker said at one moment; None from one that did not answer."""

    pictures: Mapping[int, Picture | None]
    partitions: int

    def newest(self) -> Picture:
        """The partitions by their highest leader epoch: a broker behind the others is not believed."""
        merged: Picture = {}
        for picture in self.pictures.values():
            for number, partition in (picture or {}).items():
                if number not in merged or partition.leader_epoch > merged[number].leader_epoch:
                    merged[number] = partition
        return merged

    def missing(self) -> str | None:
        """What keeps the topic from being whole: every broker there and all of one mind, every replica in sync."""
        newest = self.newest()
        for broker, picture in sorted(self.pictures.items()):
            if picture is None:
                return f"broker {broker} does not answer"
            if len(picture) != self.partitions:
                return f"broker {broker} knows {len(picture)} of {self.partitions} partitions"
            for number, partition in sorted(picture.items()):
                if partition.leader_id < 0:
                    return f"partition {number} has no leader"
                if set(partition.isr_nodes) != set(partition.replica_nodes):
                    isr, replicas = sorted(partition.isr_nodes), sorted(partition.replica_nodes)
                    return f"partition {number}: {isr} of {replicas} are in sync, by the metadata of broker {broker}"
                if partition.leader_epoch != newest[number].leader_epoch:
                    epoch = newest[number].leader_epoch
                    return f"partition {number}: broker {broker} does not know leader epoch {epoch}"
        return None


class LeaderChanges:
    """Counts partitions that were seen with another leader than before; moments without one do not count."""

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[int, tuple[int, int]] = {}

    def look(self, view: View) -> None:
        for number, partition in view.newest().items():
            epoch, leader = self._last.get(number, (-1, -1))
            if partition.leader_id < 0 or partition.leader_epoch <= epoch:
                continue
            if leader >= 0 and partition.leader_id != leader:
                self.count += 1
            self._last[number] = (partition.leader_epoch, partition.leader_id)


class Watch:
    """Asks all brokers again and again while it runs; `view` is the latest answer."""

    def __init__(
        self, brokers: Mapping[int, Address], topic: str, partitions: int, security: Security | None = None
    ) -> None:
        self.changes = LeaderChanges()
        self.brokers = dict(brokers)
        self._topic = topic
        self._partitions = partitions
        self._settings = ConnectionSettings(
            client_id="tidelog-verify",
            connect_timeout_s=_PATIENCE_S,
            request_timeout_s=_PATIENCE_S,
            security=security,
        )
        self._connections: dict[int, Connection] = {}
        self._looked = asyncio.Condition()
        # When the picture of each broker was asked for; one that does not answer holds up none of the others.
        self._asked_s = dict.fromkeys(self.brokers, float("-inf"))
        self.view = View(dict.fromkeys(self.brokers), partitions)

    async def run(self) -> None:
        try:
            await asyncio.gather(*(self._look_at(broker) for broker in self.brokers))
        finally:
            for connection in self._connections.values():
                connection.abort("the watch ended")

    async def next_view(self) -> View:
        """What every broker answers when it is asked after this call."""
        now = asyncio.get_running_loop().time()
        async with self._looked:
            await self._looked.wait_for(lambda: min(self._asked_s.values()) >= now)
        return self.view

    async def wait_whole(self, timeout_s: float) -> str | None:
        """Waits until nothing is missing; what still was when the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            missing = (await self.next_view()).missing()
            if missing is None or loop.time() > deadline:
                return missing

    async def controller(self) -> int:
        """The node that leads the metadata quorum, as the brokers that answer know it."""
        asked = TopicData(topic_name=_METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
        newest, leader = -1, -1
        for broker in self.brokers:
            try:
                connection = await self._connection(broker)
                answer = await connection.request(DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse)
            except ClientError:
                continue  # it is down or cut off; the others know
            for topic in answer.topics:
                for partition in topic.partitions:
                    if partition.error_code == ErrorCode.NONE and partition.leader_epoch > newest:
                        newest, leader = partition.leader_epoch, partition.leader_id
        if leader < 0:
            raise VerifyError("no broker knows the active controller")
        return leader

    async def _look_at(self, broker: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            asked_s = loop.time()
            picture = await self._picture(broker)
            async with self._looked:
                self._asked_s[broker] = asked_s
                self.view = View({**self.view.pictures, broker: picture}, self._partitions)
                self.changes.look(self.view)
                self._looked.notify_all()
            await asyncio.sleep(_EVERY_S)

    async def _picture(self, broker: int) -> Picture | None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False)
        try:
            connection = await self._connection(broker)
            answer = await connection.request(request, MetadataResponse)
        except ClientError:
            return None  # that it does not answer is the answer
        return {
            partition.partition_index: partition
            for topic in answer.topics
            if topic.name == self._topic and topic.error_code == ErrorCode.NONE
            for partition in topic.partitions
        }

    async def _connection(self, broker: int) -> Connection:
        connection = self._connections.get(broker)
        if connection is None or connection.closed:
            connection = await Connection.open(self.brokers[broker], self._settings)
            self._connections[broker] = connection
        return connection
