"""AlterPartitionReassignments and ListPartitionReassignments (rule C8).

A reassignment puts the new replicas beside the old ones: `replicas` is the target in its order, then who is to go. It
is done when every replica of the target is in the ISR (see `partition_targets`), whoever reports it.
"""

from collections.abc import Iterable
from typing import Final

from tidelog.controller.decision import Decision, Situation
from tidelog.controller.election_events import election_events
from tidelog.controller.elections import Election, PartitionRules
from tidelog.controller.partition_drafts import PartitionDrafts
from tidelog.controller.partition_targets import Target
from tidelog.controller.partitions import MAX_PARTITIONS_PER_REQUEST, check_assignment, first_directory
from tidelog.metadata.image import ClusterImage, PartitionRegistration, TopicImage
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

_NOT_IN_PROGRESS: Final = "No partition reassignment is in progress."


def alter_partition_reassignments(
    situation: Situation, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Begins, replaces or (null replicas) cancels; one bad partition does not fail the others."""
    if sum(len(topic.partitions) for topic in request.topics) > MAX_PARTITIONS_PER_REQUEST:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    drafts = PartitionDrafts(situation)
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        response = ReassignableTopicResponse(name=topic.name)
        for wanted in topic.partitions:
            result = ReassignablePartitionResponse(partition_index=wanted.partition_index, error_message=None)
            try:
                _alter(situation.image, drafts, topic.name, wanted, request.allow_replication_factor_change)
            except ApiError as error:
                result.error_code, result.error_message = error.code, error.message
            response.partitions.append(result)
        responses.append(response)
    return Decision(
        response=AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
            responses=responses,
        ),
        records=drafts.records,
        events=election_events(drafts.changes, "reassignment"),
    )


def _alter(
    image: ClusterImage, drafts: PartitionDrafts, name: str, wanted: ReassignablePartition, factor_may_change: bool
) -> None:
    topic = image.topic(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = drafts.partition(topic, wanted.partition_index)
    if partition is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{wanted.partition_index}."
        )
    if wanted.replicas is None:
        target = _cancelled(partition, drafts.rules(topic), f"{name}:{wanted.partition_index}")
    else:
        check_assignment(image, wanted.replicas, None)
        if not factor_may_change:
            _check_factor_unchanged(partition, wanted.replicas)
        target = _begun(image, partition, wanted.replicas)
    drafts.change(topic, wanted.partition_index, target)


def _check_factor_unchanged(partition: PartitionRegistration, replicas: list[int]) -> None:
    """Compared with where it is going, if a reassignment is under way (KIP-860)."""
    factor = len(partition.replicas) - len(partition.removing_replicas)
    if len(replicas) != factor:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(replicas)}",
        )


def _begun(image: ClusterImage, partition: PartitionRegistration, replicas: list[int]) -> Target:
    """A later reassignment replaces an earlier one: what that was adding goes, or is still being added.

    Compared with what the partition had before either, so that cancelling leads back there; only what the earlier one
    was adding and the later one does not want is, as in Kafka, kept by that.
    """
    original = original_replicas(partition)
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    new = set(replicas) - set(partition.replicas)
    return Target(
        replicas=(*replicas, *removing),
        adding=tuple(sorted(set(replicas) - set(original))),
        removing=removing,
        directories={broker_id: first_directory(image.brokers[broker_id]) for broker_id in sorted(new)},
        election=Election.ONLINE,
    )


def original_replicas(partition: PartitionRegistration) -> tuple[int, ...]:
    return tuple(replica for replica in partition.replicas if replica not in partition.adding_replicas)


def _cancelled(partition: PartitionRegistration, rules: PartitionRules, what: str) -> Target:
    """Back to the replicas of before.

    Refused where it would take the last complete copies away, or leave fewer of them than the minimum: what was added
    may by now be where the acknowledged records are.
    """
    if not is_reassigning(partition):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, _NOT_IN_PROGRESS)
    replicas = original_replicas(partition)
    isr = tuple(each for each in partition.isr if each in replicas)
    dropped = {*partition.isr, *partition.elr} - set(replicas)
    too_few = bool(dropped) and len(isr) < rules.effective_min_isr(replicas)
    if too_few and not rules.unclean_leader_election_enable:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {what} because it would require an unclean leader election.",
        )
    return Target(isr=isr, replicas=replicas, adding=(), removing=(), election=rules.election)


def is_reassigning(partition: PartitionRegistration) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def list_partition_reassignments(
    situation: Situation, request: ListPartitionReassignmentsRequest
) -> Decision[ListPartitionReassignmentsResponse]:
    """What is under way; topics and partitions that do not exist are not reassigned either."""
    topics = [
        OngoingTopicReassignment(name=topic.name, partitions=ongoing)
        for topic, indexes in _asked(situation.image, request)
        if (ongoing := _ongoing(topic, indexes))
    ]
    return Decision(response=ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _asked(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> Iterable[tuple[TopicImage, Iterable[int]]]:
    if request.topics is None:
        return [(topic, topic.partitions) for topic in image.topics_by_id.values()]
    return [
        (topic, wanted.partition_indexes)
        for wanted in request.topics
        if (topic := image.topic(wanted.name)) is not None
    ]


def _ongoing(topic: TopicImage, indexes: Iterable[int]) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            partition_index=index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
        )
        for index in indexes
        if (partition := topic.partitions.get(index)) is not None and is_reassigning(partition)
    ]
