"""UpdateFeatures (57), versions 0 to 2: finalized feature levels, decided by the controller (KIP-584, KIP-778)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.controller.features import UpgradeType
from tidelog.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


async def handle(broker: Broker, ctx: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    response: UpdateFeaturesResponse = await broker.controller.send(modern(request), timeout_ms=request.timeout_ms)
    return response


def modern(request: UpdateFeaturesRequest) -> UpdateFeaturesRequest:
    """Version 0 only knows that lowering a level is allowed, which is less than saying it may lose metadata."""
    for update in request.feature_updates:
        if update.allow_downgrade:
            update.allow_downgrade, update.upgrade_type = False, UpgradeType.SAFE_DOWNGRADE
    return request
