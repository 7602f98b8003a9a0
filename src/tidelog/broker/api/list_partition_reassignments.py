"""ListPartitionReassignments (46), version 0: the moves under way, as the controller knows them."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


async def handle(
    broker: Broker, ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    response: ListPartitionReassignmentsResponse = await broker.controller.send(request, timeout_ms=request.timeout_ms)
    return response
