"""DescribeCluster (60), versions 0 to 2, asked of a controller: the voters and who leads them (KIP-919)."""

from typing import Final

from tidelog.broker.controller_api.services import ControllerServices
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(
    services: ControllerServices, ctx: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != CONTROLLERS:
        mismatched = request.endpoint_type == BROKERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if mismatched else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this listener describes controllers; ask a broker listener for brokers",
            endpoint_type=request.endpoint_type,
        )
    raft = services.quorum.raft
    response = DescribeClusterResponse(
        endpoint_type=CONTROLLERS, cluster_id=services.cluster_id, controller_id=raft.leader_id
    )
    for node_id in raft.voters.ids:
        endpoint = raft.endpoint(node_id)
        if endpoint is not None:
            host, port = endpoint
            response.brokers.append(DescribeClusterBroker(broker_id=node_id, host=host, port=port))
    return response
