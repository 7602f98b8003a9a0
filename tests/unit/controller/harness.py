"""A controller with brokers, driven without a log: every decision is replayed at once, as if committed."""

import random
from typing import Any
from uuid import UUID

from tidelog.controller.controller import Controller
from tidelog.controller.decision import Decision
from tidelog.controller.failures import error_response
from tidelog.controller.invariants import check_epochs, check_invariants
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import TopicPartition
from tidelog.metadata.features import SUPPORTED_FEATURES, bootstrap_records
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, PartitionRegistration, Provenance
from tidelog.metadata.records import MetadataRecord, frame, unframe
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tidelog.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

CLUSTER_ID = "test-cluster"
T0 = TopicPartition("t", 0)

PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "log.dirs": "/data",
}


def node_config(**more: str) -> NodeConfig:
    properties = {**PROPERTIES, **{key.replace("_", "."): value for key, value in more.items()}}
    return NodeConfig.parse(properties)[0]


class Harness:
    """`send` decides, replays and answers; `records` are those of the last decision."""

    def __init__(self, config: NodeConfig | None = None, seed: int = 1, local_broker_id: int | None = None) -> None:
        self.controller = Controller(
            config or node_config(), CLUSTER_ID, random.Random(seed), local_broker_id=local_broker_id
        )
        self.next_offset = 0
        self.now_s = 100.0
        self.records: list[MetadataRecord] = []
        self.decision: Decision[Any] = Decision(response=None)
        self.take(self.controller.activate(EMPTY_IMAGE, bootstrap_records(), self.now_s))

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def take(self, decision: Decision[Any]) -> Any:
        self.decision = decision
        # through the bytes of the log, as every other node sees them
        self.records = [unframe(frame(record)) for record in decision.records]
        if self.records:
            before = self.image
            self.next_offset += len(self.records)
            self.controller.replay(self.records, Provenance(self.next_offset - 1, 1, 0))
            check_invariants(self.image, self.controller.config)
            check_epochs(before, self.image)
        return decision.response

    def send(self, request: Any) -> Any:
        try:
            return self.take(self.controller.decide(request, next_offset=self.next_offset, now_s=self.now_s))
        except ApiError as error:
            self.records = []
            return error_response(request, error)

    def register(self, broker_id: int, *, incarnation: int = 1, rack: str | None = None, **more: Any) -> Any:
        return self.send(registration(broker_id, incarnation=incarnation, rack=rack, **more))

    def heartbeat(self, broker_id: int, **more: Any) -> Any:
        broker = self.image.brokers[broker_id]
        return self.send(
            BrokerHeartbeatRequest(
                **{
                    "broker_id": broker_id,
                    "broker_epoch": broker.epoch,
                    "current_metadata_offset": self.next_offset - 1,
                    **more,
                }
            )
        )

    def partition(self, tp: TopicPartition = T0) -> PartitionRegistration:
        partition = self.image.partition(tp)
        assert partition is not None
        return partition

    def fence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            assert self.heartbeat(broker_id, want_fence=True).is_fenced

    def unfence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            assert not self.heartbeat(broker_id).is_fenced

    def epoch(self, broker_id: int) -> int:
        return self.image.brokers[broker_id].epoch

    def join(self, *broker_ids: int, racks: tuple[str | None, ...] = ()) -> None:
        """Registered and unfenced."""
        for number, broker_id in enumerate(broker_ids):
            assert self.register(broker_id, rack=racks[number] if racks else None).error_code == 0
            assert not self.heartbeat(broker_id).is_fenced


def registration(
    broker_id: int, *, incarnation: int = 1, rack: str | None = None, directories: int = 1, **more: Any
) -> BrokerRegistrationRequest:
    values: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=1000 * broker_id + incarnation),
        "listeners": [Listener(name="PLAINTEXT", host="localhost", port=9091 + broker_id)],
        "features": [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        "rack": rack,
        "log_dirs": [directory_id(broker_id, number) for number in range(directories)],
    }
    return BrokerRegistrationRequest(**{**values, **more})


def directory_id(broker_id: int, number: int = 0) -> UUID:
    return UUID(int=(broker_id << 64) + 500 + number)


def cluster(*broker_ids: int, **config: str) -> Harness:
    """A cluster whose brokers are registered and unfenced."""
    harness = Harness(node_config(**config))
    harness.join(*broker_ids)
    return harness


def with_topic(*replicas: int, others: tuple[int, ...] = (), **config: str) -> Harness:
    """Topic `t` of one partition on these brokers, and `others` beside them."""
    harness = cluster(*replicas, *others, **config)
    create_topic(harness, "t", [list(replicas)])
    return harness


def create_topic(harness: Harness, name: str, assignments: list[list[int]]) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in enumerate(assignments)
        ],
    )
    assert harness.send(CreateTopicsRequest(topics=[topic])).topics[0].error_code == 0


def state(harness: Harness) -> tuple[Any, ...]:
    """(leader, isr, elr, last known, leader epoch)"""
    p = harness.partition()
    return p.leader, p.isr, p.elr, p.last_known_elr, p.leader_epoch
