"""The one table of what a node serves: key, versions, handler. A key stands here only when it works."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tidelog.broker.api import (
    add_raft_voter,
    alter_partition_reassignments,
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
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    remove_raft_voter,
    sync_group,
    unregister_broker,
    update_features,
)
from tidelog.broker.broker import Broker
from tidelog.broker.controller_api import broker_heartbeat, controllers, decided, metadata_fetch, quorum
from tidelog.broker.controller_api.services import ControllerServices
from tidelog.broker.dispatch import Dispatch, Route, route
from tidelog.metadata.image import ClusterImage
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
    (43, 0, 2, elect_leaders.handle),
    (44, 0, 1, incremental_alter_configs.handle),
    (45, 0, 1, alter_partition_reassignments.handle),
    (46, 0, 0, list_partition_reassignments.handle),
    (47, 0, 0, offset_delete.handle),
    (55, 0, 2, describe_quorum.handle),
    (57, 0, 2, update_features.handle),
    (60, 0, 2, describe_cluster.handle),
    (64, 0, 0, unregister_broker.handle),
    (75, 0, 0, describe_topic_partitions.handle),
    (80, 0, 1, add_raft_voter.handle),
    (81, 0, 0, remove_raft_voter.handle),
)
# What controllers say to each other, brokers to them, and admin clients that come to them directly (KIP-919).
CONTROLLER_APIS: Final[tuple[tuple[int, int, int, Any], ...]] = (
    (1, 17, 18, metadata_fetch.handle),
    (19, 2, 7, decided.handle),
    (20, 1, 6, decided.handle),
    (37, 0, 3, decided.handle),
    (43, 0, 2, decided.handle),
    (44, 0, 1, decided.handle),
    (45, 0, 1, decided.handle),
    (46, 0, 0, decided.handle),
    (52, 0, 2, quorum.handle),
    (53, 0, 1, quorum.handle),
    (54, 0, 1, quorum.handle),
    (55, 0, 2, quorum.handle),
    (56, 2, 3, decided.handle),
    (57, 0, 2, decided.handle_features),
    (59, 0, 1, quorum.handle),
    (60, 0, 2, controllers.handle),
    (62, 0, 4, decided.handle),
    (63, 0, 2, broker_heartbeat.handle),
    (64, 0, 0, decided.handle),
    (67, 0, 0, decided.handle),
    (73, 0, 0, decided.handle),
    (80, 0, 1, quorum.handle),
    (81, 0, 0, quorum.handle),
    (82, 0, 0, quorum.handle),
)
API_VERSIONS: Final = (18, 0, 4)
# Old librdkafka turns compression off unless Produce is advertised from version 0 (KIP-896); older than 3 is refused.
ADVERTISED_FROM: Final = {0: 0}


def broker_dispatch(broker: Broker, kraft_version: Callable[[], int]) -> Dispatch:
    """The handlers of a broker's listeners, bound to it. `kraft_version` is that of the quorum it follows."""
    return _dispatch(BROKER_APIS, broker, lambda: broker.image, kraft_version)


def quorum_dispatch(services: ControllerServices) -> Dispatch:
    """The handlers of the controller's listener."""
    return _dispatch(CONTROLLER_APIS, services, services.image, lambda: services.quorum.raft.voters.kraft_version)


def _dispatch(
    apis: tuple[tuple[int, int, int, Any], ...],
    services: Any,
    metadata: Callable[[], ClusterImage],
    kraft_version: Callable[[], int],
) -> Dispatch:
    served = [
        ApiVersion(api_key=key, min_version=ADVERTISED_FROM.get(key, low), max_version=high)
        for key, low, high in sorted([*(entry[:3] for entry in apis), API_VERSIONS])
    ]
    routes: list[Route] = [
        route(key, partial(handler, services), min_version=low, max_version=high) for key, low, high, handler in apis
    ]
    key, low, high = API_VERSIONS
    versions = partial(api_versions.handle, metadata, kraft_version, served=served)
    return Dispatch([*routes, route(key, versions, min_version=low, max_version=high)])
