"""A partition led by broker 1 on real storage, with brokers 2 and 3 as the metadata knows them."""

from typing import Any
from uuid import UUID

from tidelog.core.config.topic import TopicConfig
from tidelog.core.event import Event
from tidelog.core.ids import BrokerId, TopicPartition
from tidelog.metadata.image import BrokerRegistration, LeaderRecoveryState, PartitionRegistration
from tidelog.replication.context import ReplicationContext
from tidelog.replication.partition import Partition
from tidelog.replication.reading import Read
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from tidelog.wire.records.plain import Record, encode_batch

TP = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7777)
NOW = 1_700_000_000_000
LOCAL = BrokerId(1)
LAG_S = 30.0
NO_DIR = UUID(int=0)


def epoch_of(broker_id: int) -> int:
    """Brokers 1, 2, 3 have registered with epochs 11, 12, 13."""
    return broker_id + 10


def batch(*values: bytes, **options: Any) -> memoryview:
    records = [Record(timestamp=NOW, key=None, value=value) for value in values or (b"v",)]
    return memoryview(bytearray(encode_batch(records, **options)))


def broker(broker_id: int, **changes: Any) -> BrokerRegistration:
    given: dict[str, Any] = {
        "broker_id": broker_id,
        "epoch": epoch_of(broker_id),
        "incarnation_id": UUID(int=broker_id),
        "listeners": (),
        "fenced": False,
    }
    return BrokerRegistration(**(given | changes))


def brokers(*ids: int) -> dict[int, BrokerRegistration]:
    return {each: broker(each) for each in ids}


def registration(**changes: Any) -> PartitionRegistration:
    given: dict[str, Any] = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "leader": 1, "leader_epoch": 5}
    given |= changes
    given.setdefault("directories", (NO_DIR,) * len(given["replicas"]))
    return PartitionRegistration(**given)


def recovering(**changes: Any) -> PartitionRegistration:
    return registration(isr=(1,), leader_recovery_state=LeaderRecoveryState.RECOVERING, **changes)


class Led:
    """The partition, its context, and a short way to do what followers, the controller and the metadata do."""

    def __init__(
        self,
        config: TopicConfig | None = None,
        *,
        disk: MemoryDisk | None = None,
        context: ReplicationContext | None = None,
        **changes: Any,
    ) -> None:
        if disk is None:
            disk = MemoryDisk()
            disk.make_dirs("/data")
        log = Log.open(
            disk, f"/data/{TP}", TP, config or TopicConfig(), topic_id=TOPIC_ID, clean_shutdown=False, now_ms=NOW
        )
        self.events: list[Event] = []
        self.context = context or ReplicationContext(brokers=brokers(1, 2, 3), lag_s=LAG_S, on_event=self.events.append)
        self.partition = Partition(TP, TOPIC_ID, LOCAL, log, self.context)
        self.now_s = 1000.0
        self.partition.apply(registration(**changes), self.now_s)

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def isr(self) -> set[int]:
        return set(self.partition.require_leader().isr_state.isr)

    @property
    def maximal_isr(self) -> set[int]:
        return set(self.partition.require_leader().isr_state.maximal_isr)

    def apply(self, **changes: Any) -> None:
        self.partition.apply(registration(**changes), self.now_s)

    def write(self, count: int = 1, acks: int = 1) -> int:
        """`count` batches of one record; the log end offset."""
        for _ in range(count):
            self.partition.append_as_leader(batch(), acks, NOW, self.now_s)
        return self.log.log_end_offset

    def fetch(
        self,
        replica: int,
        offset: int | None = None,
        *,
        broker_epoch: int | None = None,
        leader_epoch: int | None = None,
        last_epoch: int = -1,
        log_start: int = 0,
    ) -> Read:
        """A follower's fetch as the handler serves it; without an offset, from the log's end. ApiError if refused."""
        at = self.log.log_end_offset if offset is None else offset
        of_broker = epoch_of(replica) if broker_epoch is None else broker_epoch
        of_leader = self.partition.leader_epoch if leader_epoch is None else leader_epoch
        read = self.partition.read_for_follower(
            replica,
            of_broker,
            at,
            1 << 20,
            current_leader_epoch=of_leader,
            last_fetched_epoch=last_epoch,
            min_one=True,
        )
        if read.diverging_epoch is None:
            self.partition.on_follower_fetch(replica, of_broker, at, log_start, of_leader, self.now_s)
            read.take_offsets(self.log)
        return read

    def request(self) -> AlterPartitionRequest | None:
        return self.context.changes.next_request(LOCAL, epoch_of(LOCAL))

    def proposed(self) -> PartitionData:
        """The proposal that goes out now; there has to be one."""
        request = self.request()
        assert request is not None
        [topic] = request.topics
        [partition] = topic.partitions
        return partition

    def answer(self, error: ErrorCode = ErrorCode.NONE, **fields: Any) -> bool:
        """The controller's answer about this partition; whether it is to be asked again."""
        given = {"partition_index": 0, "error_code": error, "leader_id": 1, "leader_epoch": self.partition.leader_epoch}
        data = ResponsePartitionData(**(given | fields))
        topics = [ResponseTopicData(topic_id=TOPIC_ID, partitions=[data])]
        _, again = self.context.changes.on_response(AlterPartitionResponse(topics=topics), self.now_s)
        return again

    def accept(self) -> PartitionData:
        """The controller does what is proposed."""
        asked = self.proposed()
        isr = [member.broker_id for member in asked.new_isr_with_epochs]
        self.answer(
            isr=isr, partition_epoch=asked.partition_epoch + 1, leader_recovery_state=asked.leader_recovery_state
        )
        return asked
