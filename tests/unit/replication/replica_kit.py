"""A leader's log that answers fetches as F5, F6 and E2 say, and a follower that fetches from it: both on real storage.

The leader here is a dumb twin of the real one: a log and an epoch, nothing more.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from tidelog.replication.fetcher import Fetcher, FetcherConfig, Request
from tidelog.replication.fetcher_state import Outcome
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Follower
from tidelog.replication.throttle import ReplicationThrottle
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.records.plain import Record, encode_batch

TP = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7777)
NOW = 1_700_000_000_000
LEADER = BrokerId(1)
LOCAL = BrokerId(2)
UNLIMITED = 2**63 - 1


def batch(count: int = 1, value: bytes = b"v") -> memoryview:
    return memoryview(bytearray(encode_batch([Record(timestamp=NOW, key=None, value=value)] * count)))


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dirs("/data")
    disk.fsync_dir("/")
    return disk


def open_log(disk: MemoryDisk, tp: TopicPartition = TP, *, topic_id: UUID = TOPIC_ID, **options: object) -> Log:
    config = options.pop("config", None) or TopicConfig()
    return Log.open(
        disk,
        f"/data/{tp}",
        tp,
        config,  # type: ignore[arg-type]
        topic_id=topic_id,
        clean_shutdown=bool(options.pop("clean_shutdown", False)),
        now_ms=NOW,
        **options,  # type: ignore[arg-type]
    )


def contents(log: Log) -> bytes:
    """Every byte of the log, over all segments."""
    parts: list[bytes] = []
    for segment in log.segments:
        parts.append(segment.log.pread(segment.size, 0))
    return b"".join(parts)


def follower_of(log: Log, epoch: int, leader: int = LEADER, topic_id: UUID = TOPIC_ID) -> Partition:
    partition = Partition(log.topic_partition, topic_id, LOCAL, log)
    follow(partition, epoch, leader)
    return partition


def follow(partition: Partition, epoch: int, leader: int = LEADER) -> None:
    partition.role = Follower(epoch=LeaderEpoch(epoch), partition_epoch=PartitionEpoch(epoch), leader=BrokerId(leader))


def new_fetcher(*, rate: int = UNLIMITED, **config: int) -> Fetcher:
    return Fetcher(LOCAL, LEADER, 11, FetcherConfig(**config), ReplicationThrottle(LOCAL, rate))


@dataclass(slots=True)
class ToyLeader:
    """Answers for its logs in its epoch. `answers` can be given per partition to say something else."""

    logs: dict[TopicPartition, Log]
    epoch: int
    topic_ids: dict[UUID, str] = field(default_factory=lambda: {TOPIC_ID: TP.topic})
    # The session as the leader holds it.
    session: dict[tuple[UUID, int], FetchPartition] = field(default_factory=dict)

    def answer(self, request: Request) -> FetchResponse | ListOffsetsResponse:
        if isinstance(request, ListOffsetsRequest):
            return self.offsets(request)
        return self.fetch(request)

    def fetch(self, request: FetchRequest) -> FetchResponse:
        if request.session_epoch == 0:
            self.session = {}
        for topic in request.topics:
            for asked in topic.partitions:
                self.session[topic.topic_id, asked.partition] = asked
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                del self.session[forgotten.topic_id, number]
        topics: dict[UUID, FetchableTopicResponse] = {}
        for (topic_id, _), asked in self.session.items():
            data = self.read(TopicPartition(self.topic_ids[topic_id], asked.partition), asked)
            topics.setdefault(topic_id, FetchableTopicResponse(topic_id=topic_id)).partitions.append(data)
        return FetchResponse(session_id=77, responses=list(topics.values()))

    def read(self, tp: TopicPartition, asked: FetchPartition) -> PartitionData:
        log = self.logs[tp]
        data = PartitionData(partition_index=asked.partition, aborted_transactions=None)
        if asked.current_leader_epoch != self.epoch:
            older = asked.current_leader_epoch < self.epoch
            data.error_code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
            return data
        data.high_watermark, data.log_start_offset = log.high_watermark, log.log_start_offset
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(asked.last_fetched_epoch)
            if epoch < 0:
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                return data
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
                return data
        try:
            found = log.read(
                asked.fetch_offset, asked.partition_max_bytes, upper_bound=log.log_end_offset, min_one=True
            )
        except ApiError as error:
            data.error_code = error.code
            return data
        data.records = found.read()
        return data

    def offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        assert request.replica_id == LOCAL
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                log = self.logs[TopicPartition(topic.name, asked.partition_index)]
                assert asked.current_leader_epoch == self.epoch
                offset = log.log_end_offset if asked.timestamp == -1 else log.log_start_offset
                answers.append(ListOffsetsPartitionResponse(partition_index=asked.partition_index, offset=offset))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return ListOffsetsResponse(topics=topics)


def exchange(fetcher: Fetcher, leader: ToyLeader, now_s: float = 0.0) -> Outcome:
    """One request and its answer."""
    request = fetcher.build_request(now_s)
    assert request is not None
    return fetcher.on_response(request, leader.answer(request), now_s, NOW)


def catch_up(fetcher: Fetcher, leader: ToyLeader, partition: Partition, rounds: int = 100) -> list[Outcome]:
    """Fetches until the follower has what the leader has, and has been told the high watermark with it."""
    outcomes = []
    for _ in range(rounds):
        log, theirs = partition.log, leader.logs[partition.topic_partition]
        outcomes.append(exchange(fetcher, leader))
        request = fetcher.build_request(0.0)
        assert request is not None
        fetcher.abandon(request)
        if contents(log) == contents(theirs) and log.log_end_offset == theirs.log_end_offset:
            outcomes.append(exchange(fetcher, leader))
            return outcomes
    raise AssertionError(f"still at {partition.log.log_end_offset} after {rounds} rounds: {outcomes[-1]}")


def write(log: Log, epochs: Sequence[tuple[int, int]]) -> None:
    """(epoch, number of batches of one record), one after the other."""
    for epoch, count in epochs:
        for _ in range(count):
            log.append_as_leader(batch(1, b"%d" % epoch), epoch, NOW)


def rng(seed: int) -> random.Random:
    return random.Random(seed)


OTHER = TopicPartition("orders", 1)


def pair(epoch: int = 0) -> tuple[Log, Partition]:
    """A leader's log and a follower, both empty."""
    return open_log(new_disk()), follower_of(open_log(new_disk()), epoch)


def fetch_of(request: object) -> FetchRequest:
    assert isinstance(request, FetchRequest)
    return request
