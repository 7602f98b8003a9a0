"""Requests that the active controller decides, in the versions of `api/table.py`.

CreateTopics (19), DeleteTopics (20), CreatePartitions (37), ElectLeaders (43), IncrementalAlterConfigs (44), Alter- and
ListPartitionReassignments (45, 46), AlterPartition (56), UpdateFeatures (57), BrokerRegistration (62), UnregisterBroker
(64), AllocateProducerIds (67), AssignReplicasToDirs (73).

They are answered once what was decided is committed (C1), and NOT_CONTROLLER where the active controller is not.
"""

from typing import Any, Final

from tidelog.broker.api.update_features import modern
from tidelog.broker.controller_api.services import ControllerServices
from tidelog.broker.dispatch import RequestContext
from tidelog.controller.failures import error_response
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.update_features import UpdateFeaturesRequest

# For requests that name no time themselves.
DECISION_TIMEOUT_MS: Final = 30_000


async def handle(services: ControllerServices, ctx: RequestContext, request: Any) -> Any:
    if services.controller is None:
        return error_response(request, ApiError(ErrorCode.NOT_CONTROLLER, "This node has no controller."))
    timeout_ms = getattr(request, "timeout_ms", DECISION_TIMEOUT_MS)
    return await services.controller.send(request, timeout_ms=timeout_ms)


async def handle_features(services: ControllerServices, ctx: RequestContext, request: UpdateFeaturesRequest) -> Any:
    return await handle(services, ctx, modern(request))
