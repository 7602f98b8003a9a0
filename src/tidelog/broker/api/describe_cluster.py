"""DescribeCluster (60), versions 0 to 2: cluster id, controller, brokers (with the fenced ones, v2, when asked)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.endpoints import endpoint_of
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1


def handle(broker: Broker, ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == BROKERS + 1
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this listener describes brokers; ask a controller listener for controllers",
            endpoint_type=request.endpoint_type,
        )
    response = DescribeClusterResponse(cluster_id=broker.cluster_id, controller_id=broker.controller_id)
    for node_id in sorted(broker.image.brokers):
        fenced = broker.image.brokers[node_id].fenced
        endpoint = endpoint_of(broker.image, node_id, ctx.listener_name)
        if endpoint is None or (fenced and not request.include_fenced_brokers):
            continue
        response.brokers.append(
            DescribeClusterBroker(
                broker_id=node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack, is_fenced=fenced
            )
        )
    return response
