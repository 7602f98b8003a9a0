"""Membership in a consumer group by the classic protocol: join, sync, heartbeat, leave.

joined -> heartbeats say REBALANCE_IN_PROGRESS -> `rejoin_needed` -> the owner commits and joins again
an unknown member id or an old generation: join again under a new id, committing nothing
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.client.client import Client
from tidelog.client.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.client.errors import ConnectionFailed, raise_for
from tidelog.client.groups import commit_offsets
from tidelog.client.tasks import ended
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 60_000
HEARTBEAT_INTERVAL_S: Final = 3.0
ASSIGNOR: Final = "range"

_LOST_MEMBERSHIP: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_JOIN_AGAIN: Final = _LOST_MEMBERSHIP | {ErrorCode.REBALANCE_IN_PROGRESS}


def assign_range(
    members: Mapping[str, Iterable[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Kafka's range assignor: per topic, consecutive ranges over the members in order of their ids."""
    assignment: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for topic in sorted(partitions):
        subscribed = sorted(member for member, topics in members.items() if topic in set(topics))
        if not subscribed:
            continue
        each, more = divmod(partitions[topic], len(subscribed))
        start = 0
        for index, member in enumerate(subscribed):
            count = each + (1 if index < more else 0)
            assignment[member] += [TopicPartition(topic, number) for number in range(start, start + count)]
            start += count
    return assignment


class GroupMember:
    """One member. The owner calls `join`, reads, commits, and looks at `rejoin_needed` between reads."""

    def __init__(self, client: Client, group: str, topics: Iterable[str]) -> None:
        self.group = group
        self.rejoin_needed = asyncio.Event()
        self._client = client
        self._topics = sorted(topics)
        self._member_id = ""
        self._generation_id = -1
        self._heartbeats: asyncio.Task[None] | None = None

    async def join(self) -> list[TopicPartition]:
        """Joins (again) and returns what this member reads from now on."""
        await self._stop_heartbeats()
        self.rejoin_needed.clear()
        while True:
            try:
                assigned = await self._client.retrying(self._join_once)
            except ApiError as error:
                if error.code in _LOST_MEMBERSHIP:
                    self._member_id = ""
                if error.code not in _JOIN_AGAIN:
                    raise
                continue
            self._heartbeats = asyncio.create_task(self._beat(), name=f"heartbeats of {self.group}")
            return assigned

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commits positions; False when the group has moved on and the owner must join again."""
        try:
            await commit_offsets(
                self._client, self.group, offsets, generation_id=self._generation_id, member_id=self._member_id
            )
        except ApiError as error:
            if error.code not in _JOIN_AGAIN:
                raise
            self.rejoin_needed.set()
            return False
        return True

    async def leave(self) -> None:
        """Tells the group, so that it need not wait for our session to time out."""
        await self._stop_heartbeats()
        if not self._member_id:
            return
        request = LeaveGroupRequest(
            group_id=self.group,
            member_id=self._member_id,
            members=[MemberIdentity(member_id=self._member_id, reason="the consumer was closed")],
        )
        self._member_id = ""
        try:
            await (await self._client.coordinator(self.group)).request(request, LeaveGroupResponse, timeout_s=5.0)
        except (ApiError, ConnectionFailed):
            return  # the session timeout does the same, later

    async def _join_once(self) -> list[TopicPartition]:
        connection = await self._client.coordinator(self.group)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=ASSIGNOR, metadata=encode_subscription(self._topics))],
        )
        # Answered when every member has joined, or the rebalance timed out.
        patience_s = REBALANCE_TIMEOUT_MS / 1000 + 10
        joined = await connection.request(request, JoinGroupResponse, timeout_s=patience_s)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = request.member_id = joined.member_id
            joined = await connection.request(request, JoinGroupResponse, timeout_s=patience_s)
        raise_for(joined.error_code, what=f"joining group {self.group!r}")
        self._member_id = joined.member_id
        self._generation_id = joined.generation_id
        sync = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=await self._decide(joined) if joined.leader == joined.member_id else [],
        )
        synced = await connection.request(sync, SyncGroupResponse, timeout_s=patience_s)
        raise_for(synced.error_code, what=f"joining group {self.group!r}")
        return decode_assignment(synced.assignment)

    async def _decide(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The leader of a group assigns for all of its members."""
        members = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
        partitions: dict[str, int] = {}
        for topic in sorted({topic for topics in members.values() for topic in topics}):
            try:
                partitions[topic] = len((await self._client.topic(topic)).partitions)
            except ApiError as error:
                # A topic that is gone has no partitions to give.
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        assignment = assign_range(members, partitions)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(assigned))
            for member, assigned in sorted(assignment.items())
        ]

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            request = HeartbeatRequest(
                group_id=self.group, generation_id=self._generation_id, member_id=self._member_id
            )
            try:
                connection = await self._client.coordinator(self.group)
                answer = await connection.request(request, HeartbeatResponse)
            except (ApiError, ConnectionFailed):
                self._client.forget_coordinator(self.group)
                continue
            if answer.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self._client.forget_coordinator(self.group)
            elif answer.error_code in _JOIN_AGAIN:
                self.rejoin_needed.set()
                return

    async def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await ended([self._heartbeats])
            self._heartbeats = None
