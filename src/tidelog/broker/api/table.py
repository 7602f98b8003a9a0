"""The one table of what a broker serves: key, versions, handler. A key stands here only when it works."""

from functools import partial
from typing import Any, Final

from tidelog.broker.api import (
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import Dispatch, Route, route
from tidelog.wire.messages.api_versions import ApiVersion

# key, first version, last version, handler
BROKER_APIS: Final[tuple[tuple[int, int, int, Any], ...]] = (
    (0, 3, 13, produce.handle),
    (1, 4, 18, fetch.handle),
    (2, 1, 11, list_offsets.handle),
    (3, 0, 13, metadata.handle),
    (8, 2, 10, offset_commit.handle),
    (9, 1, 10, offset_fetch.handle),
    (10, 0, 6, find_coordinator.handle),
    (11, 0, 9, join_group.handle),
    (12, 0, 4, heartbeat.handle),
    (13, 0, 5, leave_group.handle),
    (14, 0, 5, sync_group.handle),
    (15, 0, 6, describe_groups.handle),
    (16, 0, 5, list_groups.handle),
    (19, 2, 7, create_topics.handle),
    (20, 1, 6, delete_topics.handle),
    (21, 0, 2, delete_records.handle),
    (22, 0, 5, init_producer_id.handle),
    (23, 2, 4, offset_for_leader_epoch.handle),
    (32, 1, 4, describe_configs.handle),
    (35, 1, 5, describe_log_dirs.handle),
    (37, 0, 3, create_partitions.handle),
    (42, 0, 2, delete_groups.handle),
    (44, 0, 1, incremental_alter_configs.handle),
    (47, 0, 0, offset_delete.handle),
    (60, 0, 2, describe_cluster.handle),
    (75, 0, 0, describe_topic_partitions.handle),
)
API_VERSIONS: Final = (18, 0, 4)
# Old librdkafka turns compression off unless Produce is advertised from version 0 (KIP-896); older than 3 is refused.
ADVERTISED_FROM: Final = {0: 0}


def broker_dispatch(broker: Broker) -> Dispatch:
    """The handlers of a broker's listeners, bound to it."""
    served = [
        ApiVersion(api_key=key, min_version=ADVERTISED_FROM.get(key, low), max_version=high)
        for key, low, high in sorted([*(entry[:3] for entry in BROKER_APIS), API_VERSIONS])
    ]
    routes: list[Route] = [
        route(key, partial(handler, broker), min_version=low, max_version=high)
        for key, low, high, handler in BROKER_APIS
    ]
    return Dispatch([*routes, _api_versions(broker, served)])


def controller_dispatch(broker: Broker) -> Dispatch:
    """What the controller's listener serves: a quorum of one has nobody to talk to yet."""
    key, low, high = API_VERSIONS
    return Dispatch([_api_versions(broker, [ApiVersion(api_key=key, min_version=low, max_version=high)])])


def _api_versions(broker: Broker, served: list[ApiVersion]) -> Route:
    key, low, high = API_VERSIONS
    return route(key, partial(api_versions.handle, broker, served=served), min_version=low, max_version=high)
