"""Records about the nodes of a cluster: registrations, their changes, fencing."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UINT16, UUID, Array, f, message, struct


@struct
class Endpoint:
    name: str = f(STRING)
    host: str = f(STRING)
    port: int = f(UINT16)
    security_protocol: int = f(INT16)


@struct
class SupportedFeature:
    name: str = f(STRING)
    min_supported_version: int = f(INT16)
    max_supported_version: int = f(INT16)


@message(api_key=0, versions="0-4", flexible="0+")
@struct
class RegisterBrokerRecord:
    """A broker process joined; its epoch is the offset of this very record."""

    broker_id: int = f(INT32)
    is_migrating_zk_broker: bool = f(BOOL, "2+")
    incarnation_id: PyUuid = f(UUID)
    broker_epoch: int = f(INT64)
    end_points: list[Endpoint] = f(Array(Endpoint))
    features: list[SupportedFeature] = f(Array(SupportedFeature))
    rack: str | None = f(STRING, nullable="0+")
    fenced: bool = f(BOOL, default=True)
    in_controlled_shutdown: bool = f(BOOL, "1+")
    log_dirs: list[PyUuid] = f(Array(UUID), "3+", tag=0)
    # null until the broker's heartbeats have told
    cordoned_log_dirs: list[PyUuid] | None = f(Array(UUID), "4+", nullable="4+", tag=1, default=None)


@message(api_key=1, versions="0-0", flexible="0+")
@struct
class UnregisterBrokerRecord:
    broker_id: int = f(INT32)
    broker_epoch: int = f(INT64)


@message(api_key=7, versions="0-0", flexible="0+")
@struct
class FenceBrokerRecord:
    """Kafka's older way to say it; read, and no longer written (BrokerRegistrationChange is)."""

    id: int = f(INT32)
    epoch: int = f(INT64)


@message(api_key=8, versions="0-0", flexible="0+")
@struct
class UnfenceBrokerRecord:
    """Kafka's older way to say it; read, and no longer written (BrokerRegistrationChange is)."""

    id: int = f(INT32)
    epoch: int = f(INT64)


@message(api_key=17, versions="0-3", flexible="0+")
@struct
class BrokerRegistrationChangeRecord:
    """What of a registration changed."""

    broker_id: int = f(INT32)
    broker_epoch: int = f(INT64)
    # -1: now unfenced, 0: as before, 1: now fenced
    fenced: int = f(INT8, tag=0)
    # 0: as before, 1: now shutting down
    in_controlled_shutdown: int = f(INT8, "1+", tag=1)
    # empty: as before
    log_dirs: list[PyUuid] = f(Array(UUID), "2+", tag=2)
    # null: as before
    cordoned_log_dirs: list[PyUuid] | None = f(Array(UUID), "3+", nullable="3+", tag=3, default=None)


@message(api_key=27, versions="0-0", flexible="0+")
@struct
class RegisterControllerRecord:
    controller_id: int = f(INT32)
    incarnation_id: PyUuid = f(UUID)
    zk_migration_ready: bool = f(BOOL)
    end_points: list[Endpoint] = f(Array(Endpoint))
    features: list[SupportedFeature] = f(Array(SupportedFeature))
