"""BrokerRegistration, BrokerHeartbeat, UnregisterBroker, and fencing (rule C2)."""

from collections.abc import Iterable

from tidelog.controller.decision import Decision, Situation
from tidelog.controller.election_events import election_events
from tidelog.controller.elections import Change, changes
from tidelog.controller.partition_rules import rules_for
from tidelog.controller.sessions import BrokerSessions
from tidelog.core.events import BrokerFenced, BrokerRegistered, BrokerUnfenced, Event
from tidelog.metadata.features import KRAFT_VERSION
from tidelog.metadata.image import BrokerRegistration, ClusterImage
from tidelog.metadata.records import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    MetadataRecord,
    RegisterBrokerRecord,
    SupportedFeature,
    UnregisterBrokerRecord,
)
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def register_broker(
    situation: Situation, request: BrokerRegistrationRequest, cluster_id: str, sessions: BrokerSessions
) -> Decision[BrokerRegistrationResponse]:
    """A broker process joins, fenced. Its epoch is the offset of its record; whoever had its id before is gone."""
    known = situation.image.brokers.get(request.broker_id)
    _check_registration(situation, request, cluster_id, known, sessions)
    same_process = known is not None and known.incarnation_id == request.incarnation_id
    epoch = known.epoch if known is not None and same_process else situation.next_offset
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            Endpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in request.listeners
        ],
        features=[
            SupportedFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
        rack=request.rack,
        fenced=known.fenced if known is not None and same_process else True,
        in_controlled_shutdown=known.in_controlled_shutdown if known is not None and same_process else False,
        log_dirs=list(request.log_dirs),
    )
    records: list[MetadataRecord] = [record]
    events: list[Event] = [BrokerRegistered(broker_id=request.broker_id, broker_epoch=epoch)]
    if known is not None and not same_process:
        # The new incarnation never goes on in the old one's leader epochs (E6).
        clean = request.previous_broker_epoch == known.epoch
        left = list(_registered_again(situation, request.broker_id, clean=clean))
        records += [each.record for each in left]
        reason = f"broker {request.broker_id} registered again after {'a clean' if clean else 'an unclean'} shutdown"
        events += election_events(left, reason)
    return Decision(
        response=BrokerRegistrationResponse(broker_epoch=epoch), records=records, atomic=False, events=events
    )


def _registered_again(situation: Situation, broker_id: int, *, clean: bool) -> Iterable[Change]:
    rules = rules_for(situation)
    if clean:
        return changes(situation.image, rules, leaving=broker_id)
    return changes(situation.image, rules, uncleanly_restarted=broker_id)


def _check_registration(
    situation: Situation,
    request: BrokerRegistrationRequest,
    cluster_id: str,
    known: BrokerRegistration | None,
    sessions: BrokerSessions,
) -> None:
    if request.cluster_id != cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {request.broker_id} belongs to cluster {request.cluster_id}, this is {cluster_id}",
        )
    another = known is not None and known.incarnation_id != request.incarnation_id and not known.in_controlled_shutdown
    if another and sessions.is_valid(request.broker_id, situation.now_s):
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {request.broker_id} is registered by another process that is alive",
        )
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "a log directory id appears twice")
    for other in situation.image.brokers.values():
        shared = set(request.log_dirs) & set(other.log_dirs)
        if other.broker_id != request.broker_id and shared:
            raise ApiError(
                ErrorCode.INVALID_REGISTRATION, f"broker {other.broker_id} has a log directory of the same id"
            )
    _check_features(situation.image, request)


def _check_features(image: ClusterImage, request: BrokerRegistrationRequest) -> None:
    supported = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    for name, level in sorted(image.features.items()):
        low, high = supported.get(name, (0, 0))
        if not low <= level <= high and name != KRAFT_VERSION:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"broker {request.broker_id} supports {name} from {low} to {high}, the cluster is at {level}",
            )


def check_broker_epoch(image: ClusterImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The registration that a request of that broker epoch speaks for, or STALE_BROKER_EPOCH."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.epoch != epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has epoch {broker.epoch}, not {epoch}")
    return broker


def heartbeat(
    situation: Situation, request: BrokerHeartbeatRequest, sessions: BrokerSessions
) -> Decision[BrokerHeartbeatResponse]:
    """Keeps a broker alive, and moves it between fenced, unfenced and shutting down as it asks and may."""
    image = situation.image
    broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    # It must know of its own registration before it serves anybody.
    caught_up = request.current_metadata_offset >= broker.epoch
    leads = request.want_shut_down and any(
        partition.leader == broker.broker_id
        for topic in image.topics_by_id.values()
        for partition in topic.partitions.values()
    )
    if broker.fenced:
        unfence = caught_up and not request.want_fence and not request.want_shut_down
        if unfence:
            sessions.touch(broker.broker_id, situation.now_s)
            return _unfence(situation, broker)
        return _beat(fenced=True, caught_up=caught_up, shut_down=request.want_shut_down)
    sessions.touch(broker.broker_id, situation.now_s)
    if request.want_fence:
        return _with_response(
            fence(situation, broker, "it asked for it"), _beat(fenced=True, caught_up=caught_up).response
        )
    if request.want_shut_down:
        return _shut_down(situation, broker, caught_up=caught_up, leads=leads)
    return _beat(fenced=False, caught_up=caught_up)


def _beat(*, fenced: bool, caught_up: bool, shut_down: bool = False) -> Decision[BrokerHeartbeatResponse]:
    return Decision(
        response=BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=fenced, should_shut_down=shut_down)
    )


def _with_response(decision: Decision[None], response: BrokerHeartbeatResponse) -> Decision[BrokerHeartbeatResponse]:
    return Decision(response=response, records=decision.records, atomic=False, events=decision.events)


def _unfence(situation: Situation, broker: BrokerRegistration) -> Decision[BrokerHeartbeatResponse]:
    led = list(changes(situation.image, rules_for(situation), returning=broker.broker_id))
    record = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=-1)
    return Decision(
        response=BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False),
        records=[record, *(each.record for each in led)],
        atomic=False,
        events=[
            BrokerUnfenced(broker_id=broker.broker_id, broker_epoch=broker.epoch),
            *election_events(led, f"broker {broker.broker_id} unfenced"),
        ],
    )


def _shut_down(
    situation: Situation, broker: BrokerRegistration, *, caught_up: bool, leads: bool
) -> Decision[BrokerHeartbeatResponse]:
    """Controlled shutdown: leadership goes first; the broker may stop once it leads nothing (C9)."""
    records: list[MetadataRecord] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1
            )
        )
    left = list(changes(situation.image, rules_for(situation), leaving=broker.broker_id))
    records += [each.record for each in left]
    response = BrokerHeartbeatResponse(
        is_caught_up=caught_up, is_fenced=False, should_shut_down=not records and not leads
    )
    events = election_events(left, f"broker {broker.broker_id} shuts down")
    return Decision(response=response, records=records, atomic=False, events=events)


def fence(situation: Situation, broker: BrokerRegistration, reason: str) -> Decision[None]:
    """Takes a broker out: fenced, out of every ISR, leading nothing."""
    left = list(changes(situation.image, rules_for(situation), leaving=broker.broker_id))
    record = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=1)
    return Decision(
        response=None,
        records=[record, *(each.record for each in left)],
        atomic=False,
        events=[
            BrokerFenced(broker_id=broker.broker_id, broker_epoch=broker.epoch, reason=reason),
            *election_events(left, f"broker {broker.broker_id} fenced"),
        ],
    )


def unregister_broker(situation: Situation, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
    """Forgets a broker that will not come back."""
    broker = situation.image.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    left = list(changes(situation.image, rules_for(situation), leaving=broker.broker_id))
    record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    return Decision(
        response=UnregisterBrokerResponse(error_message=None),
        records=[*(each.record for each in left), record],
        atomic=False,
        events=election_events(left, f"broker {broker.broker_id} unregistered"),
    )
