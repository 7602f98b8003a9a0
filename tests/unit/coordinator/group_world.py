"""One shard with a clock, timers and a log that the test moves by hand."""

import random
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.effects import (
    Append,
    Caller,
    CancelTimer,
    Decision,
    Respond,
    StartTimer,
    Tell,
    TimerKey,
    TimerKind,
)
from tidelog.coordinator.group import Group, GroupState
from tidelog.coordinator.offsets_records import KeyValue
from tidelog.coordinator.shard import GroupShard
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

T = TypeVar("T")
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000
GROUP = "g"


def subscription(*topics: str, version: int = 1) -> bytes:
    """A consumer's metadata: topics, null user data."""
    data = version.to_bytes(2, "big") + len(topics).to_bytes(4, "big")
    for topic in topics:
        data += len(topic).to_bytes(2, "big") + topic.encode()
    return data + (-1).to_bytes(4, "big", signed=True)


RANGE = (("range", subscription("t")),)


@dataclass
class GroupWorld:
    config: GroupCoordinatorConfig = field(default_factory=GroupCoordinatorConfig)
    now_ms: int = 1_000_000
    auto_commit: bool = True
    log: list[KeyValue] = field(default_factory=list)
    appends: list[Append] = field(default_factory=list)
    responses: dict[int, Any] = field(default_factory=dict)
    timers: dict[TimerKey, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    tokens: int = 0

    def __post_init__(self) -> None:
        self.shard = GroupShard(0, self.config, random.Random(7))
        for key, value in self.log:
            self.shard.replay(key, value)
        self.do(self.shard.finish_loading(self.now_ms))

    # -- the shell's part

    def do(self, decision: Decision) -> None:
        for effect in decision.effects:
            match effect:
                case Respond():
                    assert effect.token not in self.responses, "answered twice"
                    self.responses[effect.token] = effect.response
                case StartTimer():
                    self.timers[effect.key] = self.now_ms + effect.delay_ms
                case CancelTimer():
                    self.timers.pop(effect.key, None)
                case Tell():
                    self.told.append(effect.event.text())
        if decision.append is not None:
            self.appends.append(decision.append)
        self.shard.check_invariants()
        while self.auto_commit and self.appends:
            self.commit()

    def commit(self) -> None:
        append = self.appends.pop(0)
        self.log += append.records
        self.do(self.shard.on_committed(append.ticket, self.now_ms))

    def fail(self, error: ErrorCode) -> None:
        append = self.appends.pop(0)
        self.do(self.shard.on_append_failed(append.ticket, error, self.now_ms))

    def advance(self, delay_ms: int) -> None:
        """Lets time pass; timers fire in their order."""
        until = self.now_ms + delay_ms
        while due := [(at, key) for key, at in self.timers.items() if at <= until]:
            at, key = min(due, key=lambda item: item[0])
            del self.timers[key]
            self.now_ms = at
            self.do(self.shard.on_timer(key, at))
        self.now_ms = until

    def reloaded(self) -> "GroupWorld":
        """Another coordinator, from the same log."""
        return GroupWorld(self.config, self.now_ms, log=list(self.log))

    def answer(self, token: int, expected: type[T]) -> T:
        response = self.responses[token]
        assert isinstance(response, expected)
        return response

    def is_waiting(self, token: int) -> bool:
        return token not in self.responses

    def has_timer(self, kind: TimerKind, member_id: str = "", group: str = GROUP) -> bool:
        return TimerKey(kind, group, member_id) in self.timers

    def caller(self, api_version: int, client_id: str = "c") -> Caller:
        self.tokens += 1
        return Caller(self.tokens, api_version, client_id, "/127.0.0.1")

    @property
    def group(self) -> Group:
        return self.shard.groups[GROUP]

    def state(self) -> GroupState:
        return self.group.state

    # -- requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client_id: str = "c",
    ) -> int:
        caller = self.caller(version, client_id)
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        self.do(self.shard.join_group(request, caller, self.now_ms))
        return caller.token

    def joined(self, token: int) -> JoinGroupResponse:
        return self.answer(token, JoinGroupResponse)

    def join_error(self, *args: Any, **kwargs: Any) -> ErrorCode:
        return ErrorCode(self.joined(self.join(*args, **kwargs)).error_code)

    def new_member_id(self, **kwargs: Any) -> str:
        """The first half of a dynamic member's join."""
        response = self.joined(self.join(**kwargs))
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return response.member_id

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        version: int = 5,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> int:
        caller = self.caller(version)
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assignments or {}).items()],
        )
        self.do(self.shard.sync_group(request, caller, self.now_ms))
        return caller.token

    def synced(self, token: int) -> SyncGroupResponse:
        return self.answer(token, SyncGroupResponse)

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None
    ) -> ErrorCode:
        caller = self.caller(4)
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        self.do(self.shard.heartbeat(request, caller, self.now_ms))
        return ErrorCode(self.answer(caller.token, HeartbeatResponse).error_code)

    def leave(self, *members: MemberIdentity | str, group: str = GROUP, version: int = 5) -> int:
        caller = self.caller(version)
        identities = [MemberIdentity(member_id=m) if isinstance(m, str) else m for m in members]
        request = LeaveGroupRequest(group_id=group, members=identities)
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=identities[0].member_id)
        self.do(self.shard.leave_group(request, caller, self.now_ms))
        return caller.token

    def left(self, token: int) -> LeaveGroupResponse:
        return self.answer(token, LeaveGroupResponse)

    def commit_offset(
        self,
        offset: int,
        *,
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = "",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        group: str = GROUP,
        version: int = 9,
        retention_ms: int = -1,
    ) -> int:
        caller = self.caller(version)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        self.do(self.shard.offset_commit(request, caller, self.now_ms))
        return caller.token

    def commit_error(self, token: int) -> ErrorCode:
        response = self.answer(token, OffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def fetch(
        self,
        topics: dict[str, list[int]] | None = None,
        *,
        group: str = GROUP,
        require_stable: bool = False,
    ) -> int:
        caller = self.caller(8)
        request = OffsetFetchRequestGroup(
            group_id=group,
            topics=None
            if topics is None
            else [OffsetFetchRequestTopics(name=name, partition_indexes=ps) for name, ps in topics.items()],
        )
        self.do(self.shard.offset_fetch(request, caller, self.now_ms, require_stable=require_stable))
        return caller.token

    def fetched(self, token: int) -> dict[tuple[str, int], int]:
        response = self.answer(token, OffsetFetchResponseGroup)
        assert response.error_code == ErrorCode.NONE
        return {(t.name, p.partition_index): p.committed_offset for t in response.topics for p in t.partitions}

    def offsets(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        return self.fetched(self.fetch(group=group))

    def delete_offset(self, topic: str = "t", partition: int = 0, *, group: str = GROUP) -> int:
        caller = self.caller(0)
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
                )
            ],
        )
        self.do(self.shard.offset_delete(request, caller, self.now_ms))
        return caller.token

    def deleted_offset(self, token: int) -> tuple[ErrorCode, ErrorCode | None]:
        """The error of the whole, and of the partition if there is one."""
        response = self.answer(token, OffsetDeleteResponse)
        of_partition = ErrorCode(response.topics[0].partitions[0].error_code) if response.topics else None
        return ErrorCode(response.error_code), of_partition

    def delete_groups(self, *groups: str) -> int:
        caller = self.caller(2)
        self.do(self.shard.delete_groups(groups, caller, self.now_ms))
        return caller.token

    def deleted(self, token: int) -> dict[str, ErrorCode]:
        results = cast(list[DeletableGroupResult], self.responses[token])
        return {result.group_id: ErrorCode(result.error_code) for result in results}

    # -- stories

    def stable(self, members: int = 1, **kwargs: Any) -> list[str]:
        """A Stable group of so many dynamic members, the leader first; returns their ids."""
        ids = [self.new_member_id(**kwargs) for _ in range(members)]
        tokens = [self.join(member_id, **kwargs) for member_id in ids]
        self.advance(INITIAL_DELAY_MS * 2 if members > 1 else INITIAL_DELAY_MS)
        self.finish(tokens)
        return ids

    def finish(self, tokens: list[int]) -> dict[str, bytes]:
        """Lets everybody whose join was just answered sync; returns the assignments."""
        joined = [self.joined(token) for token in tokens]
        assert all(response.error_code == ErrorCode.NONE for response in joined), joined
        leader = next(response for response in joined if response.leader == response.member_id)
        assignments = {
            member.member_id: f"{leader.generation_id}:{n}".encode() for n, member in enumerate(leader.members)
        }
        instances = {member.member_id: member.group_instance_id for member in leader.members}
        syncs = {
            r.member_id: self.sync(
                r.member_id,
                r.generation_id,
                assignments if r is leader else None,
                instance=instances[r.member_id],
                protocol_name=r.protocol_name,
                protocol_type=r.protocol_type,
            )
            for r in sorted(joined, key=lambda r: r is leader)
        }
        for member_id, token in syncs.items():
            assert self.synced(token).assignment == assignments[member_id]
        return assignments
