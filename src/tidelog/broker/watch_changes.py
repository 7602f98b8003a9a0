"""What of a node is new since it was asked last: its metadata, its place in the quorum, its replicas.

Rows, as a watcher gets them:

`metadata`  topic, topic id, partition, leader, leader epoch, partition epoch, replicas, ISR, ELR, recovers uncleanly
`deleted`   ids of topics that are gone
`brokers`   id, broker epoch, `fenced`, `unfenced` or `shutting down`
`quorum`    one row, of this node: role, epoch, leader, end of the metadata log, its high watermark, votes
`replicas`  topic, partition, role, leader epoch, log start, HW, LSO, LEO, and of a leader the effective min ISR and the
            ISR that it has asked for
`gone`      topic, partition: of replicas that this node has no more
"""

from collections.abc import Iterable
from typing import Any

from tidelog.core.ids import TopicPartition, uuid_to_text
from tidelog.metadata.image import (
    EMPTY_IMAGE,
    BrokerRegistration,
    ClusterImage,
    LeaderRecoveryState,
    PartitionRegistration,
    TopicImage,
)
from tidelog.quorum.raft import Raft
from tidelog.replication.isr import Committed
from tidelog.replication.leading import effective_min_isr
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Follower, Leader


class Changes:
    """Each method gives only the fields that have something to say, and remembers that it has said it."""

    def __init__(self) -> None:
        self._image = EMPTY_IMAGE
        self._quorum: list[Any] = []
        self._replicas: dict[TopicPartition, tuple[Any, ...]] = {}

    def metadata(self, image: ClusterImage) -> dict[str, Any]:
        before, self._image = self._image, image
        if image is before:
            return {}
        told: dict[str, Any] = {}
        if image.topics_by_name is not before.topics_by_name:
            rows = [row for topic in image.topics_by_name.values() for row in _changed(before, topic)]
            deleted = [uuid_to_text(each) for each in before.topics_by_id if each not in image.topics_by_id]
            told = _filled(metadata=rows, deleted=deleted)
        if image.brokers is not before.brokers:
            told |= _filled(
                brokers=[
                    [broker.broker_id, broker.epoch, _standing(broker)]
                    for broker in image.brokers.values()
                    if broker is not before.brokers.get(broker.broker_id)
                ]
            )
        return told

    def quorum(self, raft: Raft) -> dict[str, Any]:
        row = [
            type(raft.role).__name__.lower(),
            raft.epoch,
            raft.leader_id,
            raft.log.log_end_offset,
            raft.high_watermark,
            raft.is_voter,
        ]
        if row == self._quorum:
            return {}
        self._quorum = row
        return {"quorum": row}

    def replicas(self, partitions: Iterable[Partition]) -> dict[str, Any]:
        told = self._replicas
        rows: list[list[Any]] = []
        count = 0
        for partition in partitions:
            # In every round for every partition: as little as tells whether something moved, and nothing is made for
            # those that did not.
            count += 1
            tp, role, log = partition.topic_partition, partition.role, partition.log
            isr_state = role.isr_state if isinstance(role, Leader) else None
            known = told.get(tp)
            if (
                known is not None
                and known[0] == log.log_end_offset
                and known[1] == log.high_watermark
                and known[2] == log.log_start_offset
                and known[3] is role
                and known[4] is isr_state
                and known[5] is log.config
            ):
                continue
            told[tp] = (log.log_end_offset, log.high_watermark, log.log_start_offset, role, isr_state, log.config)
            rows.append([tp.topic, tp.partition, *_replica(partition)])
        gone = self._gone(partitions) if count < len(told) else []
        return _filled(replicas=rows, gone=gone)

    def _gone(self, partitions: Iterable[Partition]) -> list[list[Any]]:
        gone = sorted(self._replicas.keys() - {partition.topic_partition for partition in partitions})
        for tp in gone:
            del self._replicas[tp]
        return [[tp.topic, tp.partition] for tp in gone]


def _filled(**fields: list[Any]) -> dict[str, Any]:
    return {name: rows for name, rows in fields.items() if rows}


def _changed(before: ClusterImage, topic: TopicImage) -> Iterable[list[Any]]:
    known = before.topics_by_name.get(topic.name)
    if known is topic:
        return
    told = known.partitions if known is not None and known.topic_id == topic.topic_id else {}
    topic_id = uuid_to_text(topic.topic_id)
    for number, registration in topic.partitions.items():
        if told.get(number) is not registration:
            yield [topic.name, topic_id, number, *_registration(registration)]


def _registration(partition: PartitionRegistration) -> list[Any]:
    return [
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.replicas,
        partition.isr,
        partition.elr,
        partition.leader_recovery_state is LeaderRecoveryState.RECOVERING,
    ]


def _standing(broker: BrokerRegistration) -> str:
    if broker.fenced:
        return "fenced"
    return "shutting down" if broker.in_controlled_shutdown else "unfenced"


def _replica(partition: Partition) -> list[Any]:
    role, log = partition.role, partition.log
    name, min_isr, asked = "offline", None, None
    if isinstance(role, Follower):
        name = "follower"
    elif isinstance(role, Leader):
        name = "leader"
        min_isr = effective_min_isr(role, log)
        asked = None if isinstance(role.isr_state, Committed) else sorted(role.isr_state.proposed)
    return [
        name,
        partition.leader_epoch,
        log.log_start_offset,
        log.high_watermark,
        log.last_stable_offset,
        log.log_end_offset,
        min_isr,
        asked,
    ]
