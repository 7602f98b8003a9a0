"""The metadata quorum: who leads it, how far everybody is, and who votes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.client.client import Client
from tidelog.client.errors import raise_for
from tidelog.core.ids import METADATA_TOPIC
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    ResponsePartitionData,
    TopicData,
)
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

UNKNOWN: Final = -1
# A voter is added once it has caught up with the log, which a new one first has to read.
_ADD_TIMEOUT_MS: Final = 25_000
_WHAT: Final = "metadata quorum"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumEndpoint:
    """Where a controller listens."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or an observer, as the leader of the quorum sees it. UNKNOWN (-1): it has not fetched yet."""

    id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    endpoints: tuple[QuorumEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum at one moment."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    @property
    def leader(self) -> QuorumReplica | None:
        return next((voter for voter in self.voters if voter.id == self.leader_id), None)

    def lag_of(self, replica: QuorumReplica) -> int:
        """Records behind the leader's end; UNKNOWN when nobody can tell."""
        if self.leader is None or replica.log_end_offset == UNKNOWN:
            return UNKNOWN
        return self.leader.log_end_offset - replica.log_end_offset

    @property
    def max_follower_lag(self) -> int:
        slowest, leader = self._slowest, self.leader
        return UNKNOWN if slowest is None or leader is None else leader.log_end_offset - slowest.log_end_offset

    @property
    def max_follower_lag_time_ms(self) -> int:
        """How long ago the slowest voter had everything; UNKNOWN if it never had."""
        slowest, leader = self._slowest, self.leader
        if slowest is None or leader is None:
            return UNKNOWN
        if slowest.log_end_offset == leader.log_end_offset:
            return 0
        if UNKNOWN in (leader.last_caught_up_timestamp, slowest.last_caught_up_timestamp):
            return UNKNOWN
        return leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp

    def replica(self, node_id: int) -> QuorumReplica | None:
        return next((each for each in (*self.voters, *self.observers) if each.id == node_id), None)

    @property
    def _slowest(self) -> QuorumReplica | None:
        return min(self.voters, key=lambda voter: voter.log_end_offset, default=None)


async def describe_quorum(client: Client) -> QuorumDescription:
    """What the leader of the quorum knows; any broker passes the question on."""
    request = DescribeQuorumRequest(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
    )

    async def attempt() -> QuorumDescription:
        answer = await (await client.any_broker()).request(request, DescribeQuorumResponse)
        raise_for(answer.error_code, answer.error_message, what=_WHAT)
        for topic in answer.topics:
            for partition in topic.partitions:
                raise_for(partition.error_code, partition.error_message, what=_WHAT)
                return _described(answer, partition)
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{_WHAT}: the response describes no quorum")

    return await client.retrying(attempt)


async def add_voter(client: Client, node_id: int, directory_id: UUID, endpoints: Sequence[QuorumEndpoint]) -> None:
    """Makes an observer a voter, once it has caught up."""
    request = AddRaftVoterRequest(
        cluster_id=await _cluster_id(client),
        timeout_ms=_ADD_TIMEOUT_MS,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in endpoints],
    )
    asked_before = False

    async def attempt() -> None:
        nonlocal asked_before
        again, asked_before = asked_before, True
        answer = await (await client.any_broker()).request(request, AddRaftVoterResponse)
        if again and answer.error_code == ErrorCode.DUPLICATE_VOTER:
            return  # the first try had its effect, only its answer was lost
        raise_for(answer.error_code, answer.error_message, what=f"voter {node_id}")

    await client.retrying(attempt)


async def remove_voter(client: Client, node_id: int, directory_id: UUID) -> None:
    """Takes a voter's vote away; it may be the leader itself, which then hands over."""
    request = RemoveRaftVoterRequest(
        cluster_id=await _cluster_id(client), voter_id=node_id, voter_directory_id=directory_id
    )
    asked_before = False

    async def attempt() -> None:
        nonlocal asked_before
        again, asked_before = asked_before, True
        answer = await (await client.any_broker()).request(request, RemoveRaftVoterResponse)
        if again and answer.error_code == ErrorCode.VOTER_NOT_FOUND:
            return  # the first try had its effect, only its answer was lost
        raise_for(answer.error_code, answer.error_message, what=f"voter {node_id}")

    await client.retrying(attempt)


async def _cluster_id(client: Client) -> str | None:
    if client.metadata.cluster_id is None:
        await client.retrying(lambda: client.refresh([]))
    return client.metadata.cluster_id


def _described(answer: DescribeQuorumResponse, partition: ResponsePartitionData) -> QuorumDescription:
    endpoints = {
        node.node_id: tuple(QuorumEndpoint(name=at.name, host=at.host, port=at.port) for at in node.listeners)
        for node in answer.nodes
    }

    def replica(state: ReplicaState) -> QuorumReplica:
        return QuorumReplica(
            id=state.replica_id,
            directory_id=state.replica_directory_id,
            log_end_offset=state.log_end_offset,
            last_fetch_timestamp=state.last_fetch_timestamp,
            last_caught_up_timestamp=state.last_caught_up_timestamp,
            endpoints=endpoints.get(state.replica_id, ()),
        )

    return QuorumDescription(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(replica(state) for state in partition.current_voters),
        observers=tuple(replica(state) for state in partition.observers),
    )
