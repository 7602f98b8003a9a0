"""ElectLeaders, and the elections that nobody asks for: preferred leaders and unclean ones, by timer (rules C6, C7)."""

from collections.abc import Iterable
from typing import Final

from tidelog.controller.decision import Decision, Situation
from tidelog.controller.election_events import election_events
from tidelog.controller.elections import Election
from tidelog.controller.partition_drafts import PartitionDrafts
from tidelog.controller.partition_targets import Target
from tidelog.core.ids import NO_LEADER
from tidelog.metadata.image import ClusterImage
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

# As Kafka: what a timer changes at once; if there is more it comes again without waiting.
MAX_ELECTIONS_PER_ROUND: Final = 1000

_ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(situation: Situation, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """One result per partition. Asked for all, those that need no election are left out."""
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    everything = request.topic_partitions is None
    drafts = PartitionDrafts(situation)
    results: list[ReplicaElectionResult] = []
    for name, indexes in _asked(situation.image, request):
        result = ReplicaElectionResult(topic=name)
        for index in indexes:
            error = _elect(situation.image, drafts, name, index, election)
            if not (everything and error.code is ErrorCode.ELECTION_NOT_NEEDED):
                result.partition_result.append(
                    PartitionResult(partition_id=index, error_code=error.code, error_message=error.message or None)
                )
        if result.partition_result or not everything:
            results.append(result)
    return Decision(
        response=ElectLeadersResponse(replica_election_results=results),
        records=drafts.records,
        atomic=False,
        events=election_events(drafts.changes, f"{election.name.lower()} election requested"),
    )


def _asked(image: ClusterImage, request: ElectLeadersRequest) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, list(topic.partitions)) for topic in image.topics_by_id.values()]
    return [(topic.topic, topic.partitions) for topic in request.topic_partitions]


def _elect(image: ClusterImage, drafts: PartitionDrafts, name: str, index: int, election: Election) -> ApiError:
    """NONE, or why nobody was elected."""
    topic = image.topic(name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = drafts.partition(topic, index)
    if partition is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    settled = partition.leader != NO_LEADER
    if election is Election.PREFERRED:
        settled = partition.leader == partition.preferred_leader
    if settled:
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED)
    if drafts.change(topic, index, Target(election=election)) is not None:
        return ApiError(ErrorCode.NONE)
    if election is Election.PREFERRED:
        return ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def balance_leaders(situation: Situation) -> Decision[bool]:
    """Preferred leaders lead again where they can (`auto.leader.rebalance.enable`). True: there may be more to do."""
    drafts = PartitionDrafts(situation)
    for topic in situation.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            if partition.leader == partition.preferred_leader:
                continue
            if len(drafts.changes) >= MAX_ELECTIONS_PER_ROUND:
                return _round(drafts, "preferred leader", more=True)
            drafts.change(topic, index, Target(election=Election.PREFERRED))
    return _round(drafts, "preferred leader", more=False)


def elect_unclean_leaders(situation: Situation) -> Decision[bool]:
    """Where nobody leads and the config, perhaps only since now, lets somebody lead. True: there may be more to do.

    Whoever led last may do so once a new minimum has cleared the ELR, also where not just anybody may (C5).
    """
    drafts = PartitionDrafts(situation)
    for topic in situation.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            if partition.leader != NO_LEADER:
                continue
            if len(drafts.changes) >= MAX_ELECTIONS_PER_ROUND:
                return _round(drafts, "nobody leads", more=True)
            drafts.change(topic, index, Target(election=drafts.rules(topic).election))
    return _round(drafts, "nobody leads", more=False)


def _round(drafts: PartitionDrafts, reason: str, *, more: bool) -> Decision[bool]:
    events = election_events(drafts.changes, reason)
    return Decision(response=more, records=drafts.records, atomic=False, events=events)
