"""Requests about groups and their offsets: a success and an error of each."""

import uuid
from typing import Any

from tests.clients.version_world import (
    Cases,
    World,
    case,
    code,
    commit_request,
    join_request,
    offset_fetch_request,
    sync_request,
    unique,
)

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import leave_group as leave_messages
from tidelog.wire.messages import offset_delete as offset_delete_messages
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest

GROUP_CASES: Cases = {}


@case(GROUP_CASES, 8)
class OffsetCommit:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(commit_request(unique("group"), world.topic, world.topic_id), version)
        assert code(response) == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        request = commit_request(unique("group"), world.topic, world.topic_id, metadata="x" * 5000)
        assert code(world.client.call(request, version)) == ErrorCode.OFFSET_METADATA_TOO_LARGE


@case(GROUP_CASES, 9)
class OffsetFetch:
    @staticmethod
    def success(world: World, version: int) -> None:
        group = world.commit()
        response = world.client.call(offset_fetch_request(group, world.topic, world.topic_id, version), version)
        topics = response.groups[0].topics if version >= 8 else response.topics
        answer = topics[0].partitions[0]
        assert (answer.error_code, answer.committed_offset, answer.metadata) == (0, 2, "note")

    @staticmethod
    def error(world: World, version: int) -> None:
        # A group without offsets: -1, which is how this API says that there are none.
        request = offset_fetch_request(unique("group"), world.topic, world.topic_id, version)
        response = world.client.call(request, version)
        topics = response.groups[0].topics if version >= 8 else response.topics
        assert topics[0].partitions[0].committed_offset == -1
        if version >= 10:
            unknown = uuid.UUID(int=123456789)
            response = world.client.call(offset_fetch_request(unique("group"), "", unknown, version), version)
            assert response.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@case(GROUP_CASES, 10)
class FindCoordinator:
    @staticmethod
    def success(world: World, version: int) -> None:
        request = FindCoordinatorRequest(key="g", coordinator_keys=["g"])
        response = world.client.call(request, version)
        found = response.coordinators[0] if version >= 4 else response
        assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)

    @staticmethod
    def error(world: World, version: int) -> None:
        request = FindCoordinatorRequest(key="t", coordinator_keys=["t"], key_type=1)
        response = world.client.call(request, version)
        found = response.coordinators[0] if version >= 4 else response
        assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)


@case(GROUP_CASES, 11)
class JoinGroup:
    @staticmethod
    def success(world: World, version: int) -> None:
        request = join_request(unique("group"))
        response = world.client.call(request, version)
        if version >= 4:
            assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
            request.member_id = response.member_id
            response = world.client.call(request, version)
        assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 1)
        assert response.leader == response.member_id

    @staticmethod
    def error(world: World, version: int) -> None:
        request = join_request(unique("group"))
        request.session_timeout_ms = 1
        assert world.client.call(request, version).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


@case(GROUP_CASES, 12)
class Heartbeat:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, member, generation = world.join()
        request = HeartbeatRequest(group_id=group, member_id=member, generation_id=generation)
        assert world.client.call(request, version).error_code == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        group, member, generation = world.join()
        request = HeartbeatRequest(group_id=group, member_id=member, generation_id=generation + 1)
        assert world.client.call(request, version).error_code == ErrorCode.ILLEGAL_GENERATION


@case(GROUP_CASES, 13)
class LeaveGroup:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, member, _ = world.join()
        identity = leave_messages.MemberIdentity(member_id=member, group_instance_id=None)
        request = leave_messages.LeaveGroupRequest(group_id=group, member_id=member, members=[identity])
        response = world.client.call(request, version)
        assert response.error_code == ErrorCode.NONE
        if version >= 3:
            assert response.members[0].error_code == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        group, _, _ = world.join()
        identity = leave_messages.MemberIdentity(member_id="nobody", group_instance_id=None)
        request = leave_messages.LeaveGroupRequest(group_id=group, member_id="nobody", members=[identity])
        response = world.client.call(request, version)
        found = response.members[0].error_code if version >= 3 else response.error_code
        assert found == ErrorCode.UNKNOWN_MEMBER_ID


@case(GROUP_CASES, 14)
class SyncGroup:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, member, generation = world.join()
        response = world.client.call(sync_request(group, member, generation), version)
        assert (response.error_code, response.assignment) == (ErrorCode.NONE, b"mine")

    @staticmethod
    def error(world: World, version: int) -> None:
        group, _, generation = world.join()
        response = world.client.call(sync_request(group, "nobody", generation), version)
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@case(GROUP_CASES, 15)
class DescribeGroups:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, member, _ = world.join()
        described = world.client.call(DescribeGroupsRequest(groups=[group]), version).groups[0]
        assert (described.error_code, described.group_state) == (ErrorCode.NONE, "Stable")
        assert described.members[0].member_id == member

    @staticmethod
    def error(world: World, version: int) -> None:
        described = world.client.call(DescribeGroupsRequest(groups=[unique("none")]), version).groups[0]
        assert described.group_state == "Dead"
        assert described.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)


@case(GROUP_CASES, 16)
class ListGroups:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, _, _ = world.join()
        response = world.client.call(ListGroupsRequest(), version)
        assert response.error_code == ErrorCode.NONE
        assert group in {listed.group_id for listed in response.groups}

    @staticmethod
    def error(world: World, version: int) -> None:
        # Refuses nothing but a coordinator that is loading; a filter that matches nothing is its "no".
        response = world.client.call(ListGroupsRequest(states_filter=["NoSuchState"]), version)
        assert (response.error_code, response.groups) == (ErrorCode.NONE, [])


@case(GROUP_CASES, 42)
class DeleteGroups:
    @staticmethod
    def success(world: World, version: int) -> None:
        group = world.commit()
        response = world.client.call(DeleteGroupsRequest(groups_names=[group]), version)
        assert response.results[0].error_code == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        group, _, _ = world.join()
        response = world.client.call(DeleteGroupsRequest(groups_names=[group, unique("none")]), version)
        codes = {result.group_id: result.error_code for result in response.results}
        assert codes.pop(group) == ErrorCode.NON_EMPTY_GROUP
        assert list(codes.values()) == [ErrorCode.GROUP_ID_NOT_FOUND]


def offset_delete(group: str, topic: str) -> Any:
    m = offset_delete_messages
    partition = m.OffsetDeleteRequestPartition(partition_index=0)
    return m.OffsetDeleteRequest(
        group_id=group, topics=[m.OffsetDeleteRequestTopic(name=topic, partitions=[partition])]
    )


@case(GROUP_CASES, 47)
class OffsetDelete:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(offset_delete(world.commit(), world.topic), version)
        assert (response.error_code, code(response)) == (ErrorCode.NONE, ErrorCode.NONE)

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(offset_delete(unique("none"), world.topic), version)
        assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
