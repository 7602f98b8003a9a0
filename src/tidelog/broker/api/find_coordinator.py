"""FindCoordinator (10), versions 0 to 6: who leads the partition of `__consumer_offsets` that a group belongs to.

The topic is made on first use. From v4 several keys at once. Only groups: no transaction coordinator is served yet.
"""

from tidelog.broker.auto_create import ensure_offsets_topic
from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.endpoints import endpoint_of
from tidelog.coordinator.partitioning import partition_for
from tidelog.metadata.names import GROUP_OFFSETS_TOPIC
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
SEVERAL_KEYS_SINCE = 4


async def handle(broker: Broker, ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    several = ctx.api_version >= SEVERAL_KEYS_SINCE
    keys = request.coordinator_keys if several else [request.key]
    found = [await _find(broker, ctx, request.key_type, key) for key in keys]
    if several:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


async def _find(broker: Broker, ctx: RequestContext, key_type: int, key: str) -> Coordinator:
    try:
        if key_type != GROUP:
            raise ApiError(ErrorCode.INVALID_REQUEST, "only group coordinators are served")
        partitions = await ensure_offsets_topic(broker)
        number = partition_for(key, partitions)
        leader = broker.image.topics_by_name[GROUP_OFFSETS_TOPIC].partitions[number].leader
        endpoint = endpoint_of(broker.image, leader, ctx.listener_name)
        if endpoint is None:
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"partition {number} of {GROUP_OFFSETS_TOPIC} has no leader"
            )
    except ApiError as error:
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message or None
        )
    return Coordinator(key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, error_message=None)
