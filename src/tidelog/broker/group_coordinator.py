"""The group coordinator of this broker: one shard per partition of `__consumer_offsets` that it leads.

One method per API, from wire request to wire response: it finds the shards a request concerns, resolves topic ids, and
puts the answers together. What a group does is decided in `coordinator`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from tidelog.broker import group_offsets
from tidelog.broker.group_offsets import TopicDirectory
from tidelog.broker.group_shard_runner import Decide, ShardPorts, ShardRunner
from tidelog.coordinator.append_errors import error_for_client, error_for_offset_fetch
from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.effects import Caller
from tidelog.coordinator.offset_commits import commit_refusal
from tidelog.coordinator.offset_fetches import fetch_refusal
from tidelog.coordinator.partitioning import partition_for
from tidelog.coordinator.rebalance import join_error
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

OFFSETS_TOPIC: Final = "__consumer_offsets"
# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: all there is to do with a group, where nothing is forbidden.
ALL_GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))

R = TypeVar("R")


class RequestOrigin(Protocol):
    """What of a request's context the coordinator looks at."""

    @property
    def api_version(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...


class GroupCoordinatorService:
    """Elections and resignations come from the metadata; requests from the handlers."""

    def __init__(self, config: GroupCoordinatorConfig, ports: ShardPorts, topics: TopicDirectory) -> None:
        self._config = config
        self._ports = ports
        self._topics = topics
        self._runners: dict[int, ShardRunner] = {}
        # The topic's own count rules once it exists; a config changed later must not move groups.
        self.partition_count = config.offsets_topic_num_partitions

    # -- life

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.partition_count)

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition from this epoch on: its groups are loaded from the log."""
        running = self._runners.get(partition)
        if running is not None:
            if running.leader_epoch >= leader_epoch:
                return
            running.close()
        self._runners[partition] = ShardRunner(
            TopicPartition(OFFSETS_TOPIC, partition), leader_epoch, self._config, self._ports
        )

    def on_resignation(self, partition: int) -> None:
        runner = self._runners.pop(partition, None)
        if runner is not None:
            runner.close()

    def on_topics_deleted(self, topics: Sequence[str]) -> None:
        for runner in self._runners.values():
            runner.run(lambda shard, now_ms: shard.on_topics_deleted(topics, now_ms))

    def close(self) -> None:
        for partition in list(self._runners):
            self.on_resignation(partition)

    # -- membership

    async def join_group(self, origin: RequestOrigin, request: JoinGroupRequest) -> JoinGroupResponse:
        return await self._ask(
            request.group_id,
            lambda shard, token, now_ms: shard.join_group(request, _caller(origin, token), now_ms),
            lambda error: join_error(request.member_id, error),
        )

    async def sync_group(self, origin: RequestOrigin, request: SyncGroupRequest) -> SyncGroupResponse:
        return await self._ask(
            request.group_id,
            lambda shard, token, now_ms: shard.sync_group(request, _caller(origin, token), now_ms),
            lambda error: SyncGroupResponse(error_code=error),
        )

    async def heartbeat(self, origin: RequestOrigin, request: HeartbeatRequest) -> HeartbeatResponse:
        return await self._ask(
            request.group_id,
            lambda shard, token, now_ms: shard.heartbeat(request, _caller(origin, token), now_ms),
            lambda error: HeartbeatResponse(error_code=error),
        )

    async def leave_group(self, origin: RequestOrigin, request: LeaveGroupRequest) -> LeaveGroupResponse:
        return await self._ask_and_wait(
            request.group_id,
            lambda shard, token, now_ms: shard.leave_group(request, _caller(origin, token), now_ms),
            lambda error: LeaveGroupResponse(error_code=error),
        )

    # -- offsets

    async def offset_commit(self, origin: RequestOrigin, request: OffsetCommitRequest) -> OffsetCommitResponse:
        known, refused = group_offsets.resolve_commit(request, origin.api_version, self._topics)
        if not known.topics:
            return refused
        response = await self._ask_and_wait(
            request.group_id,
            lambda shard, token, now_ms: shard.offset_commit(known, _caller(origin, token), now_ms),
            lambda error: commit_refusal(known, error),
        )
        return group_offsets.merge_commit(response, refused)

    async def offset_fetch(self, origin: RequestOrigin, request: OffsetFetchRequest) -> OffsetFetchResponse:
        groups = group_offsets.fetch_groups(request, origin.api_version)
        answers = await asyncio.gather(
            *(self._fetch_group(origin, group, require_stable=request.require_stable) for group in groups)
        )
        return group_offsets.fetch_response(request, origin.api_version, answers)

    async def _fetch_group(
        self, origin: RequestOrigin, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        known, refused = group_offsets.resolve_fetch(request, origin.api_version, self._topics)
        response = await self._ask_and_wait(
            request.group_id,
            lambda shard, token, now_ms: shard.offset_fetch(
                known, _caller(origin, token), now_ms, require_stable=require_stable
            ),
            lambda error: fetch_refusal(known, error),
            error_for_offset_fetch,
        )
        return group_offsets.merge_fetch(response, refused, origin.api_version, self._topics)

    async def offset_delete(self, origin: RequestOrigin, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        return await self._ask_and_wait(
            request.group_id,
            lambda shard, token, now_ms: shard.offset_delete(request, _caller(origin, token), now_ms),
            lambda error: OffsetDeleteResponse(error_code=error),
        )

    # -- administration

    def describe_groups(self, origin: RequestOrigin, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        described = []
        for group_id in request.groups:
            runner = self._runners.get(self.partition_for(group_id))
            if runner is None:
                group = DescribedGroup(group_id=group_id, error_code=ErrorCode.NOT_COORDINATOR)
            else:
                group = runner.shard.describe_group(group_id, origin.api_version)
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_GROUP_OPERATIONS
            described.append(group)
        return DescribeGroupsResponse(groups=described)

    def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        response = ListGroupsResponse()
        try:
            for partition in sorted(self._runners):
                shard = self._runners[partition].shard
                response.groups += shard.list_groups(request.states_filter, request.types_filter)
        except ApiError as error:
            return ListGroupsResponse(error_code=error.code)
        return response

    async def delete_groups(self, origin: RequestOrigin, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        by_partition: dict[int, list[str]] = {}
        for group_id in request.groups_names:
            by_partition.setdefault(self.partition_for(group_id), []).append(group_id)
        of_shards = await asyncio.gather(*(self._delete_in_shard(origin, ids) for ids in by_partition.values()))
        return DeleteGroupsResponse(results=[result for results in of_shards for result in results])

    async def _delete_in_shard(self, origin: RequestOrigin, group_ids: list[str]) -> list[DeletableGroupResult]:
        return await self._ask_and_wait(
            group_ids[0],
            lambda shard, token, now_ms: shard.delete_groups(group_ids, _caller(origin, token), now_ms),
            lambda error: [DeletableGroupResult(group_id=group_id, error_code=error) for group_id in group_ids],
        )

    # -- helpers

    async def _ask(self, group_id: str, decide: Decide, refusal: Callable[[ErrorCode], R]) -> R:
        """The shard's answer, whenever it comes: a join phase may take minutes."""
        runner = self._runners.get(self.partition_for(group_id))
        if runner is None:
            return refusal(ErrorCode.NOT_COORDINATOR)
        if runner.is_full:
            return refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response: R = await runner.submit(decide)
        return response

    async def _ask_and_wait(
        self,
        group_id: str,
        decide: Decide,
        refusal: Callable[[ErrorCode], R],
        meaning: Callable[[ErrorCode], ErrorCode] = error_for_client,
    ) -> R:
        """As `_ask`, but no longer than `offsets.commit.timeout.ms`. What was appended may still be committed."""
        try:
            async with asyncio.timeout(self._config.offsets_commit_timeout_ms / 1000):
                return await self._ask(group_id, decide, refusal)
        except TimeoutError:
            return refusal(meaning(ErrorCode.REQUEST_TIMED_OUT))


def _caller(origin: RequestOrigin, token: int) -> Caller:
    # Kafka shows addresses the way Java prints them.
    return Caller(token, origin.api_version, origin.client_id or "", f"/{origin.client_host}")
