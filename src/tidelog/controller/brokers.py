"""BrokerRegistration, UnregisterBroker, and fencing (rule C2).

Where a decision is larger than a batch it is committed piece by piece, and the controller may fail in between. So the
partitions come first and the record of the broker last: what was cut short is decided again as a whole.
"""

from tidelog.controller.broker_changes import directories_failed, leaving, restarted
from tidelog.controller.decision import Decision, Situation
from tidelog.controller.election_events import election_events
from tidelog.controller.sessions import BrokerSessions
from tidelog.core.events import BrokerFenced, BrokerRegistered
from tidelog.core.ids import RESERVED_UUIDS
from tidelog.metadata.features import KRAFT_VERSION
from tidelog.metadata.image import BrokerRegistration, ClusterImage
from tidelog.metadata.records import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    RegisterBrokerRecord,
    SupportedFeature,
    UnregisterBrokerRecord,
)
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def register_broker(
    situation: Situation,
    request: BrokerRegistrationRequest,
    cluster_id: str,
    sessions: BrokerSessions,
    *,
    predecessor_connected: bool,
) -> Decision[BrokerRegistrationResponse]:
    """A broker process joins, fenced. Its epoch is the offset of its record; whoever had its id before is gone.

    `predecessor_connected`: a connection stands that carried heartbeats of the process registered under this id.
    """
    if request.cluster_id != cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {request.broker_id} belongs to cluster {request.cluster_id}, this is {cluster_id}",
        )
    known = situation.image.brokers.get(request.broker_id)
    if known is not None and sessions.is_valid(known.broker_id, situation.now_s):
        _check_predecessor(known, request, predecessor_connected)
    _check_directories(situation.image, request)
    _check_features(situation.image, request)
    if known is not None and known.incarnation_id == request.incarnation_id:
        epoch, fenced, in_controlled_shutdown = known.epoch, known.fenced, known.in_controlled_shutdown
        left = directories_failed(situation, request.broker_id, set(known.log_dirs) - set(request.log_dirs))
    else:
        # The new incarnation never goes on in the old one's leader epochs (E6).
        clean = known is not None and request.previous_broker_epoch == known.epoch
        left = restarted(situation, request.broker_id, clean=clean, log_dirs=request.log_dirs)
        epoch, fenced, in_controlled_shutdown = situation.next_offset + len(left), True, False
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
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=list(request.log_dirs),
    )
    reason = f"broker {request.broker_id} registered again"
    return Decision(
        response=BrokerRegistrationResponse(broker_epoch=epoch),
        records=[*(each.record for each in left), record],
        atomic=False,
        events=[
            BrokerRegistered(broker_id=request.broker_id, broker_epoch=epoch),
            *election_events(left, reason),
        ],
    )


def _check_predecessor(known: BrokerRegistration, request: BrokerRegistrationRequest, connected: bool) -> None:
    """The session of the process before this one is valid, which says that it may live.

    Unless it can be told that it does not: nobody else holds its directories while it does, nobody else listens where
    it listened, and its connection ended with it. Only two machines with copies of one disk could say all that of two
    processes, and of the one that lives the connection stands.
    """
    if known.incarnation_id == request.incarnation_id or known.in_controlled_shutdown:
        return
    listened = {(each.host, each.port) for each in known.listeners}
    listens = {(each.host, each.port) for each in request.listeners}
    took_its_place = bool(set(known.log_dirs) & set(request.log_dirs)) and bool(listened & listens)
    if connected or not took_its_place:
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {request.broker_id} is already registered by another running process",
        )


def _check_directories(image: ClusterImage, request: BrokerRegistrationRequest) -> None:
    if RESERVED_UUIDS & set(request.log_dirs):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "a log directory id is reserved")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "a log directory id appears twice")
    for other in image.brokers.values():
        shared = set(request.log_dirs) & set(other.log_dirs)
        if other.broker_id != request.broker_id and shared:
            raise ApiError(
                ErrorCode.INVALID_REGISTRATION, f"broker {other.broker_id} already uses the same log directory id"
            )


def _check_features(image: ClusterImage, request: BrokerRegistrationRequest) -> None:
    supported = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    for name, level in sorted(image.features.items()):
        low, high = supported.get(name, (0, 0))
        if not low <= level <= high and name != KRAFT_VERSION:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"broker {request.broker_id} supports {name} {low} to {high}, but the cluster uses {level}",
            )


def check_broker_epoch(image: ClusterImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The registration that a request of that broker epoch speaks for, or STALE_BROKER_EPOCH."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.epoch != epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has epoch {broker.epoch}, not {epoch}")
    return broker


def fence(situation: Situation, broker: BrokerRegistration, reason: str) -> Decision[None]:
    """Takes a broker out: fenced, out of every ISR, leading nothing."""
    left = leaving(situation, broker.broker_id)
    record = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=1)
    return Decision(
        response=None,
        records=[*(each.record for each in left), record],
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
    left = leaving(situation, broker.broker_id)
    record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    return Decision(
        response=UnregisterBrokerResponse(error_message=None),
        records=[*(each.record for each in left), record],
        atomic=False,
        events=election_events(left, f"broker {broker.broker_id} unregistered"),
    )
