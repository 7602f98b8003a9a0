"""Between registration records and what an image holds of a node."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidelog.metadata.image import BrokerRegistration, ControllerRegistration, EndpointInfo, VersionRange
from tidelog.metadata.records import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
)


def broker_from_record(record: RegisterBrokerRecord) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        listeners=_listeners(record.end_points),
        supported_features=_features(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(record.log_dirs),
        cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
    )


def broker_to_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=_endpoints(broker.listeners),
        features=_supported(broker.supported_features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
    )


def merge_registration_change(broker: BrokerRegistration, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
    return replace(
        broker,
        fenced=record.fenced > 0 if record.fenced else broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
        log_dirs=tuple(record.log_dirs) or broker.log_dirs,
        cordoned_log_dirs=(
            broker.cordoned_log_dirs if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs)
        ),
    )


def controller_from_record(record: RegisterControllerRecord) -> ControllerRegistration:
    return ControllerRegistration(
        controller_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        listeners=_listeners(record.end_points),
        supported_features=_features(record.features),
        zk_migration_ready=record.zk_migration_ready,
    )


def controller_to_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=_endpoints(controller.listeners),
        features=_supported(controller.supported_features),
    )


def _listeners(endpoints: Iterable[Endpoint]) -> tuple[EndpointInfo, ...]:
    return tuple(EndpointInfo(e.name, e.host, e.port, e.security_protocol) for e in endpoints)


def _endpoints(listeners: Iterable[EndpointInfo]) -> list[Endpoint]:
    return [Endpoint(name=x.name, host=x.host, port=x.port, security_protocol=x.security_protocol) for x in listeners]


def _features(features: Iterable[SupportedFeature]) -> dict[str, VersionRange]:
    return {x.name: VersionRange(x.min_supported_version, x.max_supported_version) for x in features}


def _supported(features: Mapping[str, VersionRange]) -> list[SupportedFeature]:
    return [
        SupportedFeature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
        for name, levels in features.items()
    ]
