"""Requests about records, and what a client asks first: a success and an error of each."""

from typing import Any

from tests.clients.version_world import (
    MISSING,
    SERVED,
    Cases,
    World,
    batch,
    case,
    code,
    fetch_request,
    list_offsets_request,
    produce_request,
)

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import offset_for_leader_epoch as epoch_messages
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest

RECORD_CASES: Cases = {}


@case(RECORD_CASES, 0)
class Produce:
    @staticmethod
    def success(world: World, version: int) -> None:
        topic = world.new_topic()
        response = world.client.call(produce_request(topic, world.id_of(topic), batch(b"a", b"b")), version)
        answer = response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)

    @staticmethod
    def error(world: World, version: int) -> None:
        broken = bytearray(batch(b"a"))
        broken[-1] ^= 1
        response = world.client.call(produce_request(world.topic, world.topic_id, bytes(broken)), version)
        answer = response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)


@case(RECORD_CASES, 1)
class Fetch:
    @staticmethod
    def success(world: World, version: int) -> None:
        answer = world.client.call(fetch_request(world.topic, world.topic_id), version).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        assert answer.high_watermark == 3
        assert len(answer.records) > 61

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(fetch_request(world.topic, world.topic_id, offset=1000), version)
        assert response.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@case(RECORD_CASES, 2)
class ListOffsets:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(list_offsets_request(world.topic, 1_700_000_000_001), version)
        answer = response.topics[0].partitions[0]
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, 1, 1_700_000_000_001)
        assert world.client.call(list_offsets_request(world.topic, -1), version).topics[0].partitions[0].offset == 3
        assert world.client.call(list_offsets_request(world.topic, -2), version).topics[0].partitions[0].offset == 0
        if version >= 7:
            newest = world.client.call(list_offsets_request(world.topic, -3), version).topics[0].partitions[0]
            assert (newest.offset, newest.timestamp) == (2, 1_700_000_000_002)

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(list_offsets_request(MISSING, -1), version)
        assert code(response) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version < 7:
            newest = world.client.call(list_offsets_request(world.topic, -3), version)
            assert code(newest) == ErrorCode.UNSUPPORTED_VERSION
        if version >= 4:
            response = world.client.call(list_offsets_request(world.topic, -1, epoch=1000), version)
            assert code(response) == ErrorCode.UNKNOWN_LEADER_EPOCH


@case(RECORD_CASES, 18)
class ApiVersions:
    @staticmethod
    def success(world: World, version: int) -> None:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        response = world.client.call(request, version)
        assert response.error_code == ErrorCode.NONE
        assert {entry.api_key for entry in response.api_keys} == set(SERVED)

    @staticmethod
    def error(world: World, version: int) -> None:
        request = ApiVersionsRequest(client_software_name="no blanks allowed", client_software_version="1.0")
        assert world.client.call(request, version).error_code == ErrorCode.INVALID_REQUEST


@case(RECORD_CASES, 22)
class InitProducerId:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(InitProducerIdRequest(transactional_id=None), version)
        assert (response.error_code, response.producer_epoch) == (ErrorCode.NONE, 0)
        assert response.producer_id >= 0

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(InitProducerIdRequest(transactional_id="t"), version)
        assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def epoch_request(topic: str, epoch: int, current: int = -1) -> Any:
    m = epoch_messages
    partition = m.OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    return m.OffsetForLeaderEpochRequest(topics=[m.OffsetForLeaderTopic(topic=topic, partitions=[partition])])


@case(RECORD_CASES, 23)
class OffsetForLeaderEpoch:
    @staticmethod
    def success(world: World, version: int) -> None:
        answer = world.client.call(epoch_request(world.topic, 0), version).topics[0].partitions[0]
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (ErrorCode.NONE, 0, 3)

    @staticmethod
    def error(world: World, version: int) -> None:
        assert code(world.client.call(epoch_request(world.topic, 0, 99), version)) == ErrorCode.UNKNOWN_LEADER_EPOCH
