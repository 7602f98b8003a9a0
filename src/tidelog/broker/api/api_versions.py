"""ApiVersions (18), versions 0 to 4: what this listener serves, and the cluster's feature levels (KIP-584).

A version newer than ours is answered by the connection itself, in v0 (the asker cannot know better yet).
"""

import re
from collections.abc import Callable

from tidelog.broker.dispatch import RequestContext
from tidelog.metadata.features import KRAFT_VERSION, SUPPORTED_FEATURES
from tidelog.metadata.image import ClusterImage
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE_SINCE = 3
SOFTWARE_PATTERN = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
# Before v4 a feature whose range starts at 0 would be misread (KIP-584's readers take 0 for "absent").
ZERO_MIN_SINCE = 4


def handle(
    metadata: Callable[[], ClusterImage],
    kraft_version: Callable[[], int],
    ctx: RequestContext,
    request: ApiVersionsRequest,
    served: list[ApiVersion],
) -> ApiVersionsResponse:
    if ctx.api_version >= SOFTWARE_SINCE:
        name, version = request.client_software_name, request.client_software_version
        if not (SOFTWARE_PATTERN.fullmatch(name) and SOFTWARE_PATTERN.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        ctx.connection.client_software = (name, version)
    image = metadata()
    # The quorum's own level stands in its control records, not among the cluster's.
    levels = {**image.features, KRAFT_VERSION: kraft_version()}
    return ApiVersionsResponse(
        api_keys=served,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            if low > 0 or ctx.api_version >= ZERO_MIN_SINCE
        ],
        finalized_features_epoch=image.provenance.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(levels.items())
            if level > 0
        ],
    )
