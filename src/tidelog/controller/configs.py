"""IncrementalAlterConfigs: topic configs and the dynamic configs of brokers."""

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum

from tidelog.controller.decision import Decision, Situation
from tidelog.controller.elections import elr_enabled
from tidelog.controller.topic_configs import check_together
from tidelog.core.config.dynamic import validate_broker_config
from tidelog.core.config.key import ConfigError, ConfigKey, ConfigType, format_value
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS
from tidelog.core.config.topic import change_list, inherited_value, validate_topic_config
from tidelog.core.ids import NO_LEADER
from tidelog.metadata.image import ClusterImage, ConfigResource, ResourceType
from tidelog.metadata.records import ClearElrRecord, ConfigRecord, MetadataRecord, PartitionChangeRecord
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class Operation(IntEnum):
    """What to do with a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(
    situation: Situation, request: IncrementalAlterConfigsRequest
) -> Decision[IncrementalAlterConfigsResponse]:
    """Each resource changes as a whole or not at all; one that is refused does not stop the others."""
    mentions = Counter((each.resource_type, each.resource_name) for each in request.resources)
    responses: list[AlterConfigsResourceResponse] = []
    records: list[MetadataRecord] = []
    for resource in request.resources:
        response = AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            if mentions[resource.resource_type, resource.resource_name] > 1:
                raise _invalid("Each resource must appear at most once.")
            records += _alter(situation, resource)
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
    answer = IncrementalAlterConfigsResponse(responses=responses)
    return Decision(response=answer, records=[] if request.validate_only else records)


def _alter(situation: Situation, wanted: AlterConfigsResource) -> list[MetadataRecord]:
    resource = _resource(situation, wanted)
    if len({entry.name for entry in wanted.configs}) != len(wanted.configs):
        raise _invalid("Error due to duplicate config keys")
    current = situation.image.configs(resource)
    after = dict(current)
    for entry in wanted.configs:
        value = _new_value(situation, resource, current, entry)
        if value is None:
            after.pop(entry.name, None)
        else:
            after[entry.name] = value
    _check(situation, resource, after)
    changed = [name for name in dict.fromkeys((*after, *current)) if after.get(name) != current.get(name)]
    records: list[MetadataRecord] = [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=after.get(name))
        for name in changed
    ]
    if MIN_INSYNC_REPLICAS in changed and elr_enabled(situation.image):
        records += _clear_elr(situation.image, resource.name if resource.type is ResourceType.TOPIC else "")
    return records


def _clear_elr(image: ClusterImage, topic_name: str) -> list[MetadataRecord]:
    """What was eligible under another minimum need not hold every committed record (C5).

    The record forgets the last known leaders as well. Where nobody leads, that one is all that is left to elect: it is
    put down again.
    """
    only = image.topic(topic_name) if topic_name else None
    return [
        ClearElrRecord(topic_name=topic_name),
        *(
            PartitionChangeRecord(
                topic_id=topic.topic_id, partition_id=index, last_known_elr=list(partition.last_known_elr)
            )
            for topic in (image.topics_by_id.values() if only is None else [only])
            for index, partition in topic.partitions.items()
            if partition.leader == NO_LEADER and partition.last_known_elr
        ),
    ]


def one_minimum(situation: Situation) -> list[MetadataRecord]:
    """What it takes that all count by the same `min.insync.replicas`: it stands in the log, and no broker has its own.

    A leader with a smaller one than the controller's would commit what a replica lacks that counts as eligible (C5).
    """
    image = situation.image
    records: list[MetadataRecord] = []
    if MIN_INSYNC_REPLICAS not in image.broker_configs(None):
        records.append(minimum_record("", str(situation.config.min_insync_replicas)))
    own = [
        resource.name
        for resource, configs in image.configs_by_resource.items()
        if resource.type is ResourceType.BROKER and resource.name and MIN_INSYNC_REPLICAS in configs
    ]
    return [*records, *(minimum_record(name, None) for name in sorted(own, key=int))]


def minimum_record(broker: str, value: str | None) -> ConfigRecord:
    """Of one broker, or with an empty name of all of them; None takes it away."""
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value)


def _resource(situation: Situation, wanted: AlterConfigsResource) -> ConfigResource:
    """The resource, if there is such a one and it has configs."""
    name = wanted.resource_name
    if wanted.resource_type == ResourceType.TOPIC:
        if not name:
            raise _invalid("Default topic resources are not allowed.")
        if situation.image.topic(name) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return ConfigResource(ResourceType.TOPIC, name)
    if wanted.resource_type == ResourceType.BROKER:
        if name and not (name.isascii() and name.isdecimal()):
            raise _invalid(f"Node id must be an integer, but it is: {name}")
        if name and int(name) not in situation.image.brokers:
            raise _invalid(f"Broker {name} is not registered.")
        return ConfigResource(ResourceType.BROKER, str(int(name)) if name else "")
    raise _invalid(f"Unknown resource type {wanted.resource_type}")


def _new_value(
    situation: Situation, resource: ConfigResource, current: Mapping[str, str], entry: AlterableConfig
) -> str | None:
    """The text to store; None takes the key away."""
    if entry.config_operation == Operation.DELETE:
        return None
    if entry.config_operation not in (Operation.SET, Operation.APPEND, Operation.SUBTRACT):
        raise _invalid(f"Unknown operation type {entry.config_operation}")
    if entry.value is None:
        raise _invalid(f"Null value not supported for : {entry.name}")
    value = entry.value
    if entry.config_operation != Operation.SET:
        row = _list_key(resource, entry)
        present = current.get(entry.name)
        if present is None:
            present = _default(situation, resource, row)
        value = change_list(row, present, entry.value, remove=entry.config_operation == Operation.SUBTRACT)
    try:
        if resource.type is ResourceType.TOPIC:
            return validate_topic_config(entry.name, value)
        return validate_broker_config(entry.name, value, per_broker=bool(resource.name))
    except ConfigError as error:
        raise ApiError(_code(resource), str(error)) from error


def _list_key(resource: ConfigResource, entry: AlterableConfig) -> ConfigKey:
    row = (TOPIC_KEYS if resource.type is ResourceType.TOPIC else BROKER_KEYS).get(entry.name)
    if row is None or row.type is not ConfigType.LIST:
        verb = Operation(entry.config_operation).name
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {entry.name} because its type is not LIST.")
    return row


def _default(situation: Situation, resource: ConfigResource, row: ConfigKey) -> str:
    """What a list holds before anybody set it."""
    if resource.type is ResourceType.TOPIC:
        return format_value(inherited_value(situation.config.layers, row)) or ""
    return situation.config.layers.static.get(row.name, row.default or "")


def _check(situation: Situation, resource: ConfigResource, after: Mapping[str, str]) -> None:
    """Whether the values go together."""
    if resource.type is ResourceType.TOPIC:
        check_together(situation.config, after)
        return
    if elr_enabled(situation.image):
        if resource.name and MIN_INSYNC_REPLICAS in after:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            )
        if not resource.name and MIN_INSYNC_REPLICAS in situation.image.broker_configs(None).keys() - after.keys():
            raise ApiError(
                ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
            )
    cluster = situation.image.broker_configs(None)
    try:
        situation.config.with_dynamic(
            cluster=cluster if resource.name else after, broker=after if resource.name else {}
        )
    except ConfigError as error:
        raise ApiError(_code(resource), str(error)) from error


def _code(resource: ConfigResource) -> ErrorCode:
    """Kafka answers INVALID_CONFIG for topics and INVALID_REQUEST for brokers."""
    return ErrorCode.INVALID_CONFIG if resource.type is ResourceType.TOPIC else ErrorCode.INVALID_REQUEST


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
