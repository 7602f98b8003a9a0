"""BrokerHeartbeat: a broker is fenced, unfenced, shutting down, or told that it may stop (rules C2, C9, C10).

fenced             wants to stop            -> may stop at once
                   has caught up            -> unfenced
unfenced           wants to be fenced       -> fenced
                   wants to stop, leads     -> shutting down: out of every ISR, leading nothing
                   wants to stop, does not  -> fenced, may stop
shutting down      leads                    -> what it leads is moved
                   others know of the move  -> fenced, may stop

A heartbeat that tells of a failed directory changes only that; the broker asks again for the rest.
"""

from collections.abc import Sequence
from uuid import UUID

from tidelog.controller.broker_changes import directories_failed, leaving, returning
from tidelog.controller.brokers import check_broker_epoch, fence
from tidelog.controller.decision import Decision, Situation
from tidelog.controller.election_events import election_events
from tidelog.controller.sessions import BrokerSessions
from tidelog.core.events import BrokerShuttingDown, BrokerUnfenced
from tidelog.metadata.image import BrokerRegistration, ClusterImage
from tidelog.metadata.records import BrokerRegistrationChangeRecord, MetadataRecord
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def heartbeat(
    situation: Situation, request: BrokerHeartbeatRequest, sessions: BrokerSessions
) -> Decision[BrokerHeartbeatResponse]:
    """Keeps a broker alive, and moves it between its states as it asks and may."""
    broker = check_broker_epoch(situation.image, request.broker_id, request.broker_epoch)
    # It must know of its own registration before it serves anybody.
    caught_up = request.current_metadata_offset >= broker.epoch
    answer = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=broker.fenced)
    if not broker.fenced:
        sessions.touch(broker.broker_id, situation.now_s, request.current_metadata_offset)
    failed = [directory for directory in broker.log_dirs if directory in request.offline_log_dirs]
    if failed:
        answer.should_shut_down = broker.fenced and request.want_shut_down
        return _directories_failed(situation, broker, failed, answer)
    if broker.fenced:
        if request.want_shut_down:
            answer.should_shut_down = True
        elif caught_up and not request.want_fence:
            sessions.touch(broker.broker_id, situation.now_s, request.current_metadata_offset)
            reason = f"it replayed the metadata up to offset {request.current_metadata_offset}"
            return _unfence(situation, broker, reason, answer)
        return Decision(response=answer)
    if request.want_fence:
        answer.should_shut_down = request.want_shut_down
        return _fence(situation, broker, "it requested to be fenced", answer)
    if request.want_shut_down or broker.in_controlled_shutdown:
        return _shut_down(situation, broker, sessions, answer)
    return Decision(response=answer)


def _unfence(
    situation: Situation, broker: BrokerRegistration, reason: str, answer: BrokerHeartbeatResponse
) -> Decision[BrokerHeartbeatResponse]:
    led = returning(situation, broker.broker_id)
    answer.is_fenced = False
    # First the broker: a fenced one must not be in an ISR. What is cut short here is for the next controller to finish.
    record = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=-1)
    return Decision(
        response=answer,
        records=[record, *(each.record for each in led)],
        atomic=False,
        events=[
            BrokerUnfenced(broker_id=broker.broker_id, broker_epoch=broker.epoch, reason=reason),
            *election_events(led, f"broker {broker.broker_id} unfenced"),
        ],
    )


def _fence(
    situation: Situation, broker: BrokerRegistration, reason: str, answer: BrokerHeartbeatResponse
) -> Decision[BrokerHeartbeatResponse]:
    decision = fence(situation, broker, reason)
    answer.is_fenced = True
    return Decision(response=answer, records=decision.records, atomic=False, events=decision.events)


def _shut_down(
    situation: Situation, broker: BrokerRegistration, sessions: BrokerSessions, answer: BrokerHeartbeatResponse
) -> Decision[BrokerHeartbeatResponse]:
    if _leads(situation.image, broker.broker_id):
        return _move_leadership(situation, broker, sessions, answer)
    if broker.in_controlled_shutdown:
        if not sessions.is_shutting_down(broker.broker_id):
            # A new active controller has not seen the move itself: all that is decided by now holds it.
            sessions.shuts_down(broker.broker_id, situation.next_offset - 1)
        if not sessions.may_stop(broker.broker_id):
            return Decision(response=answer)
    answer.should_shut_down = True
    return _fence(situation, broker, "it is shutting down", answer)


def _move_leadership(
    situation: Situation, broker: BrokerRegistration, sessions: BrokerSessions, answer: BrokerHeartbeatResponse
) -> Decision[BrokerHeartbeatResponse]:
    left = leaving(situation, broker.broker_id)
    records: list[MetadataRecord] = [each.record for each in left]
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1
            )
        )
    sessions.shuts_down(broker.broker_id, situation.next_offset + len(records) - 1)
    events = [
        BrokerShuttingDown(broker_id=broker.broker_id, broker_epoch=broker.epoch, moved=len(left)),
        *election_events(left, f"broker {broker.broker_id} is shutting down"),
    ]
    return Decision(response=answer, records=records, atomic=False, events=events)


def _leads(image: ClusterImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics_by_id.values()
        for partition in topic.partitions.values()
    )


def _directories_failed(
    situation: Situation, broker: BrokerRegistration, failed: Sequence[UUID], answer: BrokerHeartbeatResponse
) -> Decision[BrokerHeartbeatResponse]:
    remaining = [directory for directory in broker.log_dirs if directory not in failed]
    if not remaining:
        # A registration cannot say that no directory is left, and there is nothing left to serve from.
        return (
            Decision(response=answer)
            if broker.fenced
            else _fence(situation, broker, "all its log directories failed", answer)
        )
    left = directories_failed(situation, broker.broker_id, failed)
    record = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=remaining)
    return Decision(
        response=answer,
        records=[*(each.record for each in left), record],
        atomic=False,
        events=election_events(left, f"a log directory of broker {broker.broker_id} failed"),
    )
