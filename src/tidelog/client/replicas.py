"""The replicas of a topic, each in its own words, put together with what their leader knows of them.

Every broker is asked, since none speaks for another: one that is cut off still answers, with what it knew before. From
brokers that do not know our tag (decision 12), Apache Kafka's, comes what the metadata has and no offsets.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError, raise_for
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ReplicaRole,
    ReplicaState,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

# A broker that takes longer is shown as silent; the others are not held up by it.
PATIENCE_S: Final = 1.0


class ReplicaStatus(Enum):
    """What a replica is, as far as it can be told."""

    LEADER = "leader"
    FOLLOWER = "follower"
    # Takes itself for the leader in an epoch that is over.
    DEPOSED = "deposed"
    # Its broker is fenced, gone, or has no working directory for it.
    OFFLINE = "offline"
    # Its broker counts as alive and did not answer.
    SILENT = "silent"


class IsrMembership(Enum):
    """A change that the leader has proposed is not decided: until then a newcomer counts, and so does a leaver."""

    IN = "yes"
    OUT = "no"
    JOINING = "joining"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica. `None`: nobody could be asked who knows."""

    broker: int
    status: ReplicaStatus
    membership: IsrMembership
    # The epoch that the replica itself is in.
    leader_epoch: int | None
    log_start_offset: int | None
    high_watermark: int | None
    log_end_offset: int | None
    # Where its last fetch in this epoch stood: its end in the eyes of the leader.
    fetched_to: int | None
    # Records that the leader has and it has not: by its own word, or the leader's if it does not answer.
    lag: int | None
    # How long ago it had everything, in the eyes of the leader; None also of the leader itself.
    last_caught_up_ms: int | None
    last_fetch_ms: int | None

    @property
    def is_leader(self) -> bool:
        return self.status is ReplicaStatus.LEADER

    @property
    def in_isr(self) -> bool:
        """As committed: who is leaving is still in it, who is joining is not yet."""
        return self.membership in (IsrMembership.IN, IsrMembership.LEAVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition, its replicas in the order of the assignment. `leader` is -1 when nobody leads."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    maximal_isr: tuple[int, ...]
    replicas: tuple[ReplicaView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAnswer:
    """What one broker told of a topic: the metadata as it has replayed it, and its own replicas."""

    brokers: Mapping[int, Address]
    partitions: Mapping[int, MetadataResponsePartition]
    states: Mapping[int, ReplicaState] = field(default_factory=dict)


async def ask(connection: Connection, topic: str) -> BrokerAnswer:
    """One broker's word, whatever it is worth."""
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    cluster = await connection.request(metadata, MetadataResponse)
    raise_for(cluster.error_code, what="Metadata")
    partitions: dict[int, MetadataResponsePartition] = {}
    for described in cluster.topics:
        raise_for(described.error_code, what=f"topic {topic!r}")
        partitions |= {each.partition_index: each for each in described.partitions}
    asked = DescribableLogDirTopic(topic=topic, partitions=sorted(partitions))
    request = DescribeLogDirsRequest(topics=[asked], include_replica_state=True)
    answer = await connection.request(request, DescribeLogDirsResponse)
    raise_for(answer.error_code, what="DescribeLogDirs")
    return BrokerAnswer(
        brokers={broker.node_id: Address(broker.host, broker.port) for broker in cluster.brokers},
        partitions=partitions,
        states={
            each.partition_index: each.replica_state
            for directory in answer.results
            for held in directory.topics
            if held.name == topic
            for each in held.partitions
            if each.replica_state is not None and not each.is_future_key
        },
    )


class ReplicaObserver:
    """Looks at a topic again and again over connections that it keeps, also to brokers that have been away."""

    def __init__(self, client: Client, topic: str, *, patience_s: float = PATIENCE_S) -> None:
        self._client = client
        self._topic = topic
        self._patience_s = patience_s
        # Of every broker that anybody has ever named: one that is fenced is named by nobody, and may still answer.
        self._known: dict[int, Address] = {}

    async def look(self) -> list[PartitionView]:
        """ApiError or ClientError if not one broker could tell."""
        if not self._known:
            await self._client.retrying(lambda: self._client.refresh([self._topic]))
            self._known = dict(self._client.metadata.brokers)
        brokers = sorted(self._known)
        told = await asyncio.gather(*(self._ask(self._known[broker]) for broker in brokers))
        answers = {
            broker: answer for broker, answer in zip(brokers, told, strict=True) if isinstance(answer, BrokerAnswer)
        }
        if not answers:
            for answer in told:
                if isinstance(answer, BaseException):
                    raise answer
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "the cluster has no running broker")
        for each in answers.values():
            self._known |= each.brokers
        return put_together(self._topic, answers)

    async def _ask(self, address: Address) -> BrokerAnswer | ApiError | ClientError:
        try:
            async with asyncio.timeout(self._patience_s):
                return await ask(await self._client.at(address), self._topic)
        except TimeoutError:
            return ClientError(f"{address} does not answer")
        except (ApiError, ClientError) as error:
            return error


def put_together(topic: str, answers: Mapping[int, BrokerAnswer]) -> list[PartitionView]:
    """From the answers by broker; of each partition the newest metadata that anybody has counts."""
    numbers = sorted({number for answer in answers.values() for number in answer.partitions})
    return [_partition(topic, number, answers) for number in numbers]


def recency(teller: int, *, leader: int, leader_epoch: int) -> tuple[int, bool]:
    """What one broker's metadata of a partition is worth beside another's: the greater counts.

    Within an epoch the ISR still changes: its leader hears of that, or is replaced; a follower may be cut off.
    """
    return leader_epoch, teller == leader


def _partition(topic: str, number: int, answers: Mapping[int, BrokerAnswer]) -> PartitionView:
    told = [(broker, answer.partitions[number]) for broker, answer in answers.items() if number in answer.partitions]
    _, newest = max(
        told, key=lambda each: recency(each[0], leader=each[1].leader_id, leader_epoch=each[1].leader_epoch)
    )
    states = {broker: answer.states[number] for broker, answer in answers.items() if number in answer.states}
    leader = _leader(newest, states)
    isr = newest.isr_nodes if leader is None else leader.isr
    return PartitionView(
        topic=topic,
        partition=number,
        leader=newest.leader_id if leader is None else leader.leader_id,
        leader_epoch=newest.leader_epoch if leader is None else leader.leader_epoch,
        isr=tuple(isr),
        maximal_isr=tuple(isr if leader is None else leader.maximal_isr),
        replicas=tuple(
            _replica(broker, newest, states.get(broker), leader, answers.keys()) for broker in newest.replica_nodes
        ),
    )


def _leader(newest: MetadataResponsePartition, states: Mapping[int, ReplicaState]) -> ReplicaState | None:
    """Who leads by its own word, in an epoch not older than the metadata's. Its ISR is newer than anybody else's."""
    leading = [each for each in states.values() if each.role == ReplicaRole.LEADER]
    current = [each for each in leading if each.leader_epoch >= newest.leader_epoch]
    return max(current, key=lambda each: each.leader_epoch, default=None)


def _replica(
    broker: int,
    newest: MetadataResponsePartition,
    state: ReplicaState | None,
    leader: ReplicaState | None,
    answered: Collection[int],
) -> ReplicaView:
    known = None if leader is None else next((each for each in leader.followers if each.broker_id == broker), None)
    fetched_to = None if known is None else _told(known.log_end_offset)
    end = fetched_to if state is None else state.log_end_offset
    return ReplicaView(
        broker=broker,
        status=_status(broker, newest, state, leader, broker in answered),
        membership=_membership(broker, newest, leader),
        leader_epoch=None if state is None else _told(state.leader_epoch),
        log_start_offset=None if state is None else state.log_start_offset,
        high_watermark=None if state is None else state.high_watermark,
        log_end_offset=None if state is None else state.log_end_offset,
        fetched_to=fetched_to,
        # The two were asked at different instants: a follower may by now have what its leader had not yet.
        lag=None if leader is None or end is None else max(0, leader.log_end_offset - end),
        last_caught_up_ms=None if known is None else _told(known.last_caught_up_age_ms),
        last_fetch_ms=None if known is None else _told(known.last_fetch_age_ms),
    )


def _status(
    broker: int,
    newest: MetadataResponsePartition,
    state: ReplicaState | None,
    leader: ReplicaState | None,
    answered: bool,
) -> ReplicaStatus:
    if state is None:
        if not answered:
            return ReplicaStatus.OFFLINE if broker in newest.offline_replicas else ReplicaStatus.SILENT
        # It answers, and has nothing to show for it: a failed directory, or a broker that does not know our tag.
        if broker in newest.offline_replicas:
            return ReplicaStatus.OFFLINE
        return ReplicaStatus.LEADER if broker == newest.leader_id else ReplicaStatus.FOLLOWER
    if state.role == ReplicaRole.OFFLINE:
        return ReplicaStatus.OFFLINE
    if state.role == ReplicaRole.LEADER:
        return ReplicaStatus.LEADER if state is leader else ReplicaStatus.DEPOSED
    return ReplicaStatus.FOLLOWER


def _membership(broker: int, newest: MetadataResponsePartition, leader: ReplicaState | None) -> IsrMembership:
    isr = newest.isr_nodes if leader is None else leader.isr
    proposed = isr if leader is None or leader.proposed_isr is None else leader.proposed_isr
    if broker in isr:
        return IsrMembership.IN if broker in proposed else IsrMembership.LEAVING
    return IsrMembership.JOINING if broker in proposed else IsrMembership.OUT


def _told(value: int) -> int | None:
    return value if value >= 0 else None
