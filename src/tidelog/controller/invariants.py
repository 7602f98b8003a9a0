"""What must hold of every image (Metadata) and between one image and the next (Epochs).

`check_invariants` is called after each step in simulation and tests. It judges committed metadata, or what the active
controller has decided, at the boundaries of batches.
"""

from collections.abc import Iterator, Mapping
from uuid import UUID

from tidelog.controller.elections import PartitionRules
from tidelog.controller.partition_rules import rules_for
from tidelog.controller.partitions import is_online
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import NO_LEADER, TopicPartition
from tidelog.metadata.image import ClusterImage, PartitionRegistration, TopicImage


class InvariantBroken(AssertionError):
    """The metadata contradicts itself, in what it says of one partition."""

    def __init__(self, partition: TopicPartition, what: str) -> None:
        super().__init__(f"{partition}: {what}")
        self.partition = partition


def check_invariants(image: ClusterImage, config: NodeConfig, *, judged: ClusterImage | None = None) -> None:
    """The Metadata invariant. `config` is the node's with the image's dynamic values.

    `judged` is an image of which it holds: topics that are the same are not judged again, if brokers, configs and
    features are the same as well.
    """
    rules_of = rules_for(image, config)
    known: Mapping[UUID, TopicImage] = {}
    if judged is not None and _judges_alike(judged, image):
        known = judged.topics_by_id
    for topic_id, topic in image.topics_by_id.items():
        if known.get(topic_id) is topic:
            continue
        rules = rules_of(topic)
        for index, partition in topic.partitions.items():
            for broken in _partition_breaks(image, partition, rules):
                raise InvariantBroken(TopicPartition(topic.name, index), f"{broken}: {partition}, {rules}")


def _judges_alike(one: ClusterImage, other: ClusterImage) -> bool:
    return (
        one.brokers is other.brokers
        and one.configs_by_resource is other.configs_by_resource
        and one.features is other.features
    )


def _partition_breaks(image: ClusterImage, partition: PartitionRegistration, rules: PartitionRules) -> Iterator[str]:
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    adding, removing = set(partition.adding_replicas), set(partition.removing_replicas)
    if partition.leader != NO_LEADER and partition.leader not in isr:
        yield "the leader is not in the ISR"
    if not isr | elr <= replicas:
        yield "ISR or ELR names a replica that is not assigned"
    if isr & elr:
        yield "ISR and ELR overlap"
    if any(len(set(each)) != len(each) for each in (partition.replicas, partition.isr, partition.elr)):
        yield "a replica is assigned twice"
    if not adding | removing <= replicas or adding & removing:
        yield "the reassignment does not match the assigned replicas"
    if len(partition.directories) != len(partition.replicas):
        yield "the number of directories differs from the number of replicas"
    if elr and (not rules.elr_enabled or len(isr) >= min(rules.min_insync_replicas, len(replicas))):
        yield "the ELR is not empty, although the ISR has min.insync.replicas members"
    if partition.leader_recovery_state and len(isr) > 1:
        yield "the ISR has several members while the leader is recovering"
    # Without an ELR a partition that nobody leads keeps its last member in the ISR, whatever became of it.
    if rules.elr_enabled or partition.leader != NO_LEADER:
        for member in sorted(isr & replicas):
            broker = image.brokers.get(member)
            # In its own words: `active` is part of what is judged.
            if broker is None or broker.fenced or broker.in_controlled_shutdown:
                yield f"broker {member} is in the ISR, although it is fenced or shutting down"
            elif not is_online(broker, partition.directory_of(member)):
                yield f"broker {member} is in the ISR, although its directory is offline"


def check_epochs(before: ClusterImage, after: ClusterImage) -> None:
    """The Epochs invariant: both grow by exactly their rules, and nothing changes without them."""
    for topic_id, topic in after.topics_by_id.items():
        earlier = before.topics_by_id.get(topic_id)
        if earlier is None or earlier is topic:
            continue
        for index, partition in topic.partitions.items():
            was = earlier.partitions.get(index)
            if was is None or was is partition:
                continue
            for broken in _epoch_breaks(was, partition):
                raise InvariantBroken(TopicPartition(topic.name, index), f"{broken}: {was} to {partition}")


def _epoch_breaks(before: PartitionRegistration, after: PartitionRegistration) -> Iterator[str]:
    changes = after.partition_epoch - before.partition_epoch
    leaders = after.leader_epoch - before.leader_epoch
    left = not set(before.replicas) <= set(after.replicas)
    if changes < 0 or leaders < 0:
        yield "an epoch went back"
    if leaders > changes:
        yield "the leader epoch grew, but the partition epoch did not"
    if changes == 0 and before != after:
        yield "the partition changed, but its partition epoch did not"
    if leaders == 0 and (after.leader != before.leader or left):
        yield "the leader changed, or a replica left, but the leader epoch did not grow"
    if changes == 1 and leaders == 1 and after.leader == before.leader and not left:
        yield "the leader epoch grew without a reason"
