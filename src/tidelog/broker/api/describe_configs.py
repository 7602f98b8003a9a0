"""DescribeConfigs (32), versions 1 to 4: every key of a topic or broker, its value, and where the value comes from."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.core.config.describe import DescribedConfig, describe_broker, describe_brokers_default, describe_topic
from tidelog.metadata.image import ResourceType
from tidelog.metadata.names import why_illegal
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(broker: Broker, ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(broker, request, resource) for resource in request.resources])


def _describe(
    broker: Broker, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    try:
        found = _find(broker, resource)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    result.configs = [_entry(request, config) for config in found]
    return result


def _find(broker: Broker, resource: DescribeConfigsResource) -> list[DescribedConfig]:
    # An empty list of keys means all of them, as null does: old clients send it.
    names = resource.configuration_keys or None
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            problem = why_illegal(name)
            if problem is not None:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
            if name not in broker.image.topics_by_name:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
            return describe_topic(broker.config, broker.image.topic_configs(name), names)
        case ResourceType.BROKER:
            if not name:
                return describe_brokers_default(broker.image.broker_configs(None), names)
            if name != str(broker.node_id):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"broker {broker.node_id} cannot describe broker {name}; send the request to broker {name}",
                )
            return describe_broker(broker.config, names)
        case ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            kind = ResourceType(resource.resource_type).name
            raise ApiError(ErrorCode.INVALID_REQUEST, f"configs of resource type {kind} are not supported")
    raise ApiError(ErrorCode.INVALID_REQUEST, f"{resource.resource_type} is not a resource type")


def _entry(request: DescribeConfigsRequest, config: DescribedConfig) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.sensitive,
        config_type=config.type,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in config.synonyms
        ]
        if request.include_synonyms
        else [],
        documentation=config.documentation if request.include_documentation else None,
    )
