"""`GroupShard`: all groups of one partition of `__consumer_offsets`, and the one door to them.

Each method takes one event (a request, a timer, an append that settled) and returns a `Decision`. The rules:

- What is in the log is changed by `replay` alone, at load and, for offsets and deletions, when the append is committed:
  nobody sees an offset before it is safe. What is not in the log (the phases of a rebalance) is changed at once.
- A decision's append is settled by `on_committed` or `on_append_failed` in the order of the tickets, which is the order
  of the log. A failed append has left the log untouched and undoes nothing but what waited for it; when the shell
  cannot know whether the records are in the log, it makes a new shard and loads it.
- LOADING answers COORDINATOR_LOAD_IN_PROGRESS, UNLOADED answers NOT_COORDINATOR; the way back is a new shard.
"""

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tidelog.coordinator import admin, joins, leaves, offset_commits, offset_fetches, rebalance, syncs
from tidelog.coordinator.append_errors import error_for_client
from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.effects import (
    Answer,
    AnswerWhenSettled,
    Append,
    AssignmentStored,
    Caller,
    Decision,
    GroupDeleted,
    Outcome,
    Refusal,
    StaticMemberStored,
    TimerKey,
    TimerKind,
    Turn,
)
from tidelog.coordinator.group import Group
from tidelog.coordinator.offset_store import OffsetKey
from tidelog.coordinator.offsets_records import GroupRecord, KeyValue, OffsetRecord, decode
from tidelog.coordinator.state import CoordinatorState
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult
from tidelog.wire.messages.describe_groups import DescribedGroup
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.list_groups import ListedGroup
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_EXPIRATION: Final = TimerKey(TimerKind.EXPIRATION)


class ShardState(Enum):
    LOADING = auto()
    ACTIVE = auto()
    UNLOADED = auto()


@dataclass(slots=True)
class _InFlight:
    records: tuple[KeyValue, ...]
    offsets: list[OffsetKey]
    outcomes: list[Outcome]


class GroupShard:
    """See the module. `partition` is for people only; a shard does not know of others."""

    def __init__(self, partition: int, config: GroupCoordinatorConfig, rng: random.Random) -> None:
        self.partition = partition
        self.shard_state = ShardState.LOADING
        # Records of kinds we do not know, written by a newer broker: kept in the log, not acted upon.
        self.unknown_records = 0
        self._state = CoordinatorState(config, rng)
        self._in_flight: OrderedDict[int, _InFlight] = OrderedDict()
        self._next_ticket = 0

    # -- life

    @property
    def groups(self) -> dict[str, Group]:
        return self._state.groups

    @property
    def appends_in_flight(self) -> int:
        return len(self._in_flight)

    def replay(self, key: bytes | memoryview, value: bytes | memoryview | None) -> None:
        """Applies one record of the log, in order. WireError when its bytes are broken or too new."""
        record = decode(key, value)
        if isinstance(record, OffsetRecord):
            self._replay_offset(record)
        elif isinstance(record, GroupRecord):
            self._replay_group(record)
        else:
            self.unknown_records += 1

    def _replay_offset(self, record: OffsetRecord) -> None:
        key = record.key
        if record.value is None:
            self._state.offsets.remove(key.group, key.topic, key.partition)
            return
        # An offset without a group is a consumer's that manages its partitions by itself.
        self._state.groups.setdefault(key.group, Group(key.group))
        self._state.offsets.put(key.group, key.topic, key.partition, record.value)

    def _replay_group(self, record: GroupRecord) -> None:
        group_id = record.key.group
        if record.value is None:
            self._state.groups.pop(group_id, None)
        elif self.shard_state is ShardState.LOADING:
            self._state.groups[group_id] = Group.from_stored(group_id, record.value)
        # A live group is ahead of its own record.

    def finish_loading(self, now_ms: int) -> Decision:
        """The log is replayed: sessions of the members found in it start now."""
        assert self.shard_state is ShardState.LOADING
        self.shard_state = ShardState.ACTIVE
        turn = Turn(now_ms)
        turn.start_timer(_EXPIRATION, self._state.config.offsets_retention_check_interval_ms)
        for group in self._state.groups.values():
            for member in group.members.values():
                rebalance.restart_session(turn, group, member)
            if len(group.members) > self._state.config.group_max_size:
                # The limit was lowered. A rebalance lets members commit before the last of them are turned away.
                rebalance.prepare_rebalance(self._state, turn, group, "the group exceeds group.max.size")
        return self._decide(turn)

    def unload(self, now_ms: int) -> Decision:
        """Another broker leads this partition now; everybody who waits is sent to it. The shell drops all timers."""
        turn = Turn(now_ms)
        error = ErrorCode.NOT_COORDINATOR
        for group in self._state.groups.values():
            for member in group.members.values():
                rebalance.answer_join(turn, group, member, rebalance.join_error(member.member_id, error))
                rebalance.answer_sync(turn, member, SyncGroupResponse(error_code=error))
        for in_flight in self._in_flight.values():
            for outcome in in_flight.outcomes:
                if isinstance(outcome, Answer | AnswerWhenSettled):
                    turn.respond(outcome.token, outcome.refusal(error))
        self._in_flight.clear()
        self._state = CoordinatorState(self._state.config, self._state.rng)
        self.shard_state = ShardState.UNLOADED
        return Decision(tuple(turn.effects))

    # -- requests

    def join_group(self, request: JoinGroupRequest, caller: Caller, now_ms: int) -> Decision:
        return self._write(
            now_ms,
            caller,
            lambda turn: joins.join_group(self._state, turn, request, caller),
            lambda error: rebalance.join_error(request.member_id, error),
        )

    def sync_group(self, request: SyncGroupRequest, caller: Caller, now_ms: int) -> Decision:
        return self._write(
            now_ms,
            caller,
            lambda turn: syncs.sync_group(self._state, turn, request, caller),
            lambda error: SyncGroupResponse(error_code=error),
        )

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, now_ms: int) -> Decision:
        def refusal(error: ErrorCode) -> HeartbeatResponse:
            # Sessions start anew when loading ends; a member that is alive has nothing to worry about.
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)

        return self._write(now_ms, caller, lambda turn: syncs.heartbeat(self._state, turn, request, caller), refusal)

    def leave_group(self, request: LeaveGroupRequest, caller: Caller, now_ms: int) -> Decision:
        return self._write(
            now_ms,
            caller,
            lambda turn: leaves.leave_group(self._state, turn, request, caller),
            lambda error: LeaveGroupResponse(error_code=error),
        )

    def offset_commit(self, request: OffsetCommitRequest, caller: Caller, now_ms: int) -> Decision:
        return self._write(
            now_ms,
            caller,
            lambda turn: offset_commits.offset_commit(self._state, turn, request, caller),
            lambda error: offset_commits.commit_refusal(request, error),
        )

    def offset_delete(self, request: OffsetDeleteRequest, caller: Caller, now_ms: int) -> Decision:
        return self._write(
            now_ms,
            caller,
            lambda turn: offset_commits.offset_delete(self._state, turn, request, caller),
            lambda error: OffsetDeleteResponse(error_code=error),
        )

    def offset_fetch(
        self, request: OffsetFetchRequestGroup, caller: Caller, now_ms: int, *, require_stable: bool
    ) -> Decision:
        """Committed offsets of one group. `require_stable` also waits for the commits that are on their way."""

        def read(turn: Turn) -> None:
            if require_stable and self._in_flight:
                last = next(reversed(self._in_flight.values()))
                last.outcomes.append(
                    AnswerWhenSettled(
                        caller.token,
                        lambda: offset_fetches.offset_fetch(self._state, request),
                        lambda error: offset_fetches.fetch_refusal(request, error),
                    )
                )
            else:
                turn.respond(caller.token, offset_fetches.offset_fetch(self._state, request))

        return self._write(now_ms, caller, read, lambda error: offset_fetches.fetch_refusal(request, error))

    def delete_groups(self, group_ids: Sequence[str], caller: Caller, now_ms: int) -> Decision:
        """Answers with a list of `DeletableGroupResult`."""
        return self._write(
            now_ms,
            caller,
            lambda turn: admin.delete_groups(self._state, turn, group_ids, caller),
            lambda error: [DeletableGroupResult(group_id=g, error_code=error) for g in group_ids],
        )

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        error = self._availability()
        if error is not ErrorCode.NONE:
            return DescribedGroup(group_id=group_id, error_code=error)
        return admin.describe_group(self._state, group_id, api_version)

    def list_groups(self, states_filter: Sequence[str], types_filter: Sequence[str]) -> list[ListedGroup]:
        """ApiError while loading: a list that lacks groups would look complete."""
        if self.shard_state is ShardState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"__consumer_offsets-{self.partition} is loading")
        return admin.list_groups(self._state, states_filter, types_filter)

    # -- timers and appends

    def on_timer(self, key: TimerKey, now_ms: int) -> Decision:
        """A timer that comes late, for a group or member that is gone, does nothing."""
        if self.shard_state is not ShardState.ACTIVE:
            return Decision()
        turn = Turn(now_ms)
        group = self._state.groups.get(key.group_id)
        if key.kind is TimerKind.EXPIRATION:
            offset_commits.expire_offsets(self._state, turn)
            turn.start_timer(_EXPIRATION, self._state.config.offsets_retention_check_interval_ms)
        elif group is None:
            return Decision()
        elif key.kind is TimerKind.HEARTBEAT:
            rebalance.on_heartbeat_timer(self._state, turn, group, key.member_id)
        elif key.kind is TimerKind.JOIN:
            rebalance.on_join_timer(self._state, turn, group)
        else:
            rebalance.on_sync_timer(self._state, turn, group)
        return self._decide(turn)

    def on_topics_deleted(self, topics: Sequence[str], now_ms: int) -> Decision:
        """Offsets of a deleted topic mean nothing, least of all to a new topic of that name."""
        if self.shard_state is not ShardState.ACTIVE:
            return Decision()
        turn = Turn(now_ms)
        offset_commits.forget_topics(self._state, turn, topics)
        return self._decide(turn)

    def on_committed(self, ticket: int, now_ms: int) -> Decision:
        return self._settle(ticket, now_ms, ErrorCode.NONE)

    def on_append_failed(self, ticket: int, error: ErrorCode, now_ms: int) -> Decision:
        """`error` is the log's; those who wait hear what it means to them."""
        assert error is not ErrorCode.NONE
        return self._settle(ticket, now_ms, error)

    def _settle(self, ticket: int, now_ms: int, append_error: ErrorCode) -> Decision:
        if self.shard_state is not ShardState.ACTIVE:
            return Decision()
        assert next(iter(self._in_flight)) == ticket, f"append {ticket} settled out of order"
        in_flight = self._in_flight.pop(ticket)
        for key in in_flight.offsets:
            self._state.offsets.end_flight(key)
        if append_error is ErrorCode.NONE:
            for key_bytes, value in in_flight.records:
                self.replay(key_bytes, value)
        error = error_for_client(append_error)
        turn = Turn(now_ms)
        for outcome in in_flight.outcomes:
            self._conclude(turn, outcome, error)
        return self._decide(turn)

    def _conclude(self, turn: Turn, outcome: Outcome, error: ErrorCode) -> None:
        match outcome:
            case Answer():
                failed = error is not ErrorCode.NONE
                turn.respond(outcome.token, outcome.refusal(error) if failed else outcome.response)
            case AnswerWhenSettled():
                turn.respond(outcome.token, outcome.answer())
            case AssignmentStored():
                syncs.on_assignment_stored(self._state, turn, outcome, error)
            case StaticMemberStored():
                joins.on_static_member_stored(self._state, turn, outcome, error)
            case GroupDeleted():
                offset_commits.on_group_deleted(self._state, outcome, error)

    # -- helpers

    def _availability(self) -> ErrorCode:
        if self.shard_state is ShardState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if self.shard_state is ShardState.UNLOADED:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    def _write(self, now_ms: int, caller: Caller, decide: Callable[[Turn], None], refusal: Refusal) -> Decision:
        turn = Turn(now_ms)
        error = self._availability()
        if error is ErrorCode.NONE:
            decide(turn)
        else:
            turn.respond(caller.token, refusal(error))
        return self._decide(turn)

    def _decide(self, turn: Turn) -> Decision:
        if not turn.records:
            assert not turn.outcomes
            return Decision(tuple(turn.effects))
        ticket = self._next_ticket
        self._next_ticket += 1
        records = tuple(turn.records)
        offsets: list[OffsetKey] = []
        for key, _ in records:
            record = decode(key, None)
            if isinstance(record, OffsetRecord):
                offset_key = (record.key.group, record.key.topic, record.key.partition)
                offsets.append(offset_key)
                self._state.offsets.start_flight(offset_key)
        self._in_flight[ticket] = _InFlight(records, offsets, turn.outcomes)
        return Decision(tuple(turn.effects), Append(ticket, records))

    def check_invariants(self) -> None:
        """For tests and simulation."""
        for group_id, group in self._state.groups.items():
            assert group_id == group.group_id
            group.check_invariants()
