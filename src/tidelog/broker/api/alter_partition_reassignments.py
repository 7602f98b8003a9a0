"""AlterPartitionReassignments (45), versions 0 and 1: starts, changes and cancels moves, decided by the controller."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


async def handle(
    broker: Broker, ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    response: AlterPartitionReassignmentsResponse = await broker.controller.send(request, timeout_ms=request.timeout_ms)
    return response
