"""AssignReplicasToDirs: a broker tells in which of its directories its replicas lie (rule C10, KIP-858)."""

from uuid import UUID

from tidelog.controller.brokers import check_broker_epoch
from tidelog.controller.decision import Decision, Situation
from tidelog.controller.election_events import election_events
from tidelog.controller.partition_drafts import PartitionDrafts
from tidelog.controller.partition_targets import Target
from tidelog.controller.partitions import is_online
from tidelog.metadata.image import BrokerRegistration, ClusterImage
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)


def assign_replicas_to_dirs(
    situation: Situation, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """One result per replica."""
    image = situation.image
    broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    drafts = PartitionDrafts(situation)
    directories = [
        ResponseDirectoryData(
            id_=directory.id_,
            topics=[
                ResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        ResponsePartitionData(
                            partition_index=each.partition_index,
                            error_code=_assign(
                                image, drafts, broker, directory.id_, topic.topic_id, each.partition_index
                            ),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in directory.topics
            ],
        )
        for directory in request.directories
    ]
    return Decision(
        response=AssignReplicasToDirsResponse(directories=directories),
        records=drafts.records,
        atomic=False,
        events=election_events(drafts.changes, f"broker {broker.broker_id} reported the directory of its replica"),
    )


def _assign(
    image: ClusterImage,
    drafts: PartitionDrafts,
    broker: BrokerRegistration,
    directory: UUID,
    topic_id: UUID,
    index: int,
) -> ErrorCode:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = drafts.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    isr, uncleanly_restarted = partition.isr, frozenset[int]()
    if not is_online(broker, directory):
        isr = tuple(each for each in isr if each != broker.broker_id)
    elif not is_online(broker, partition.directory_of(broker.broker_id)):
        # The old directory is gone and its records with it: this replica was made anew.
        uncleanly_restarted = frozenset([broker.broker_id])
    target = Target(
        isr=isr,
        directories={broker.broker_id: directory},
        uncleanly_restarted=uncleanly_restarted,
        election=drafts.rules(topic).election,
    )
    drafts.change(topic, index, target)
    return ErrorCode.NONE
