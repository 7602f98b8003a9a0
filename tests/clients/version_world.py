"""What the cases of every key and version share: a broker with a topic, requests, and where cases are kept."""

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.clients.wire_client import WireClient

from tidelog.core.ids import ZERO_UUID
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import create_topics as create_topics_messages
from tidelog.wire.messages import fetch as fetch_messages
from tidelog.wire.messages import join_group as join_messages
from tidelog.wire.messages import list_offsets as list_offsets_messages
from tidelog.wire.messages import metadata as metadata_messages
from tidelog.wire.messages import offset_commit as commit_messages
from tidelog.wire.messages import offset_fetch as offset_fetch_messages
from tidelog.wire.messages import produce as produce_messages
from tidelog.wire.messages import sync_group as sync_messages
from tidelog.wire.records.plain import Record, encode_batch

LATEST_METADATA = 12
MISSING = "no-such-topic"
_serial = itertools.count()
# What one broker serves today.
SERVED = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5),
    23: (2, 4), 32: (1, 4), 35: (1, 5), 37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0),
    47: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 64: (0, 0), 75: (0, 0), 80: (0, 1), 81: (0, 0),
}  # fmt: skip


def unique(prefix: str) -> str:
    return f"{prefix}-{next(_serial)}-{uuid.uuid4().hex[:8]}"  # noqa: TID251 - a name no other test has


@dataclass
class World:
    """A broker with a topic of three records, and a connection to it."""

    client: WireClient
    topic: str
    topic_id: uuid.UUID

    def new_topic(self) -> str:
        name = unique("made")
        request = create_topics_messages.CreateTopicsRequest(
            topics=[create_topics_messages.CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        )
        response = self.client.call(request, 7)
        assert response.topics[0].error_code == ErrorCode.NONE, response
        return name

    def id_of(self, name: str) -> uuid.UUID:
        request = metadata_messages.MetadataRequest(
            topics=[metadata_messages.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        found: uuid.UUID = self.client.call(request, LATEST_METADATA).topics[0].topic_id
        return found

    def join(self) -> tuple[str, str, int]:
        """(group, member, generation) of a stable group of one."""
        group = unique("group")
        request = join_request(group)
        first = self.client.call(request, 5)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED, first
        request.member_id = first.member_id
        joined = self.client.call(request, 5)
        assert joined.error_code == ErrorCode.NONE, joined
        synced = self.client.call(sync_request(group, joined.member_id, joined.generation_id), 5)
        assert synced.error_code == ErrorCode.NONE, synced
        return group, joined.member_id, joined.generation_id

    def commit(self) -> str:
        group = unique("group")
        request = commit_request(group, self.topic, ZERO_UUID)
        response = self.client.call(request, 9)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE, response
        return group


def batch(*values: bytes) -> bytes:
    return encode_batch(
        [
            Record(offset=index, timestamp=1_700_000_000_000 + index, key=None, value=value, headers=())
            for index, value in enumerate(values)
        ]
    )


def produce_request(topic: str, topic_id: uuid.UUID, records: bytes, acks: int = -1) -> Any:
    data = produce_messages.PartitionProduceData(index=0, records=records)
    return produce_messages.ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[produce_messages.TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
    )


def fetch_request(topic: str, topic_id: uuid.UUID, offset: int = 0) -> Any:
    ask = fetch_messages.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return fetch_messages.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[fetch_messages.FetchTopic(topic=topic, topic_id=topic_id, partitions=[ask])],
    )


def join_request(group: str, protocol_type: str = "consumer") -> Any:
    return join_messages.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type=protocol_type,
        protocols=[join_messages.JoinGroupRequestProtocol(name="range", metadata=b"\0\0")],
    )


def sync_request(group: str, member: str, generation: int) -> Any:
    return sync_messages.SyncGroupRequest(
        group_id=group,
        member_id=member,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[sync_messages.SyncGroupRequestAssignment(member_id=member, assignment=b"mine")],
    )


def commit_request(group: str, topic: str, topic_id: uuid.UUID, metadata: str = "note") -> Any:
    partition = commit_messages.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=2, committed_metadata=metadata
    )
    return commit_messages.OffsetCommitRequest(
        group_id=group,
        topics=[commit_messages.OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[partition])],
    )


def offset_fetch_request(group: str, topic: str, topic_id: uuid.UUID, version: int) -> Any:
    m = offset_fetch_messages
    if version >= 8:
        asked = m.OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[0])
        return m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(group_id=group, topics=[asked])])
    return m.OffsetFetchRequest(group_id=group, topics=[m.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])])


def list_offsets_request(topic: str, timestamp: int, epoch: int = -1) -> Any:
    m = list_offsets_messages
    partition = m.ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    return m.ListOffsetsRequest(replica_id=-1, topics=[m.ListOffsetsTopic(name=topic, partitions=[partition])])


# --- what a key is asked, and what it must say ------------------------------------------------------------------------

Check = Callable[[World, int], None]
# By API key: a success and an error; None where there is none to show.
Cases = dict[int, tuple[Check | None, Check | None]]


def case(cases: Cases, key: int) -> Callable[[type], type]:
    """Puts a class with a `success` and an `error` among the cases."""

    def add(cls: Any) -> Any:
        cases[key] = (cls.success, cls.error)
        return cls

    return add


def code(response: Any) -> int:
    """The only partition's error, for responses of the usual shape."""
    topics = response.topics if hasattr(response, "topics") else response.responses
    partitions = topics[0].partitions
    return int(partitions[0].error_code)
