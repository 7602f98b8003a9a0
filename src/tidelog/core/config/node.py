"""A node's config: typed, whole and checked, or one clear line that says why not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from tidelog.core.config.dynamic import check_dynamic
from tidelog.core.config.key import ConfigError
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS
from tidelog.core.config.layers import ConfigLayers, check_static, value_of
from tidelog.core.config.listeners import Endpoint, QuorumVoter
from tidelog.core.config.node_checks import check_bounds, connection_overrides, log_directories, network
from tidelog.core.config.node_quorum import quorum, quorum_warnings
from tidelog.core.config.topic import inherited_value

# Attributes whose value in force comes from several keys of different units, by the topic key that unites them.
_UNITED: Final = {
    "log_flush_interval_ms": "flush.ms",
    "log_retention_ms": "retention.ms",
    "log_roll_jitter_ms": "segment.jitter.ms",
    "log_roll_ms": "segment.ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Every value in force, under its key's name with underscores for dots.

    A key that only feeds another has no attribute of its own: `log_retention_ms` is what log.retention.ms, .minutes
    and .hours come to, `log_dirs` holds log.dir, an endpoint its protocol. `layers` keeps the texts as they were set.
    """

    layers: ConfigLayers

    advertised_listeners: tuple[Endpoint, ...]
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    broker_heartbeat_interval_ms: int
    broker_rack: str | None
    broker_session_timeout_ms: int
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    connections_max_idle_ms: int
    controlled_shutdown_enable: bool
    controller_listener_names: tuple[str, ...]
    controller_quorum_append_linger_ms: int
    controller_quorum_bootstrap_servers: tuple[tuple[str, int], ...]
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_max_bytes: int
    controller_quorum_fetch_snapshot_max_bytes: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    controller_quorum_voters: tuple[QuorumVoter, ...]
    controller_socket_timeout_ms: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    follower_replication_throttled_rate: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    inter_broker_listener_name: str
    internal_metadata_max_batch_size_in_bytes: int
    leader_imbalance_check_interval_seconds: int
    leader_replication_throttled_rate: int
    listeners: tuple[Endpoint, ...]
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_delete_retention_ms: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_dirs: tuple[str, ...]
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_initial_task_delay_ms: int
    log_message_timestamp_after_max_ms: int
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_type: str
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_retention_ms: int
    log_roll_jitter_ms: int
    log_roll_ms: int
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...]
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    message_max_bytes: int
    metadata_log_dir: str
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_max_idle_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    min_insync_replicas: int
    node_id: int
    num_partitions: int
    num_replica_fetchers: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    process_roles: tuple[str, ...]
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    queued_max_requests: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_socket_receive_buffer_bytes: int
    replica_socket_timeout_ms: int
    request_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    tidelog_connection_max_inflight_requests: int
    tidelog_connection_max_outbound_bytes: int
    tidelog_decompression_max_bytes: int
    tidelog_metrics_host: str
    tidelog_metrics_partitions_max: int
    tidelog_metrics_port: int
    tidelog_node_log_files: int
    tidelog_node_log_max_bytes: int
    tidelog_open_files_max: int
    tidelog_record_validation: str
    tidelog_replication_events_enable: bool
    tidelog_replication_events_interval_ms: int
    tidelog_replication_events_retention_ms: int
    tidelog_request_frame_timeout_ms: int
    tidelog_request_max_elements: int
    tidelog_request_max_tagged_fields: int
    unclean_leader_election_enable: bool
    unclean_leader_election_interval_ms: int

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        """Where controllers are served."""
        return tuple(at for at in self.listeners if at.listener_name in self.controller_listener_names)

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        """Where clients and brokers are served."""
        return tuple(at for at in self.listeners if at.listener_name not in self.controller_listener_names)

    @property
    def advertised_broker_listeners(self) -> tuple[Endpoint, ...]:
        """What Metadata answers may name."""
        return tuple(at for at in self.advertised_listeners if at.listener_name not in self.controller_listener_names)

    @property
    def advertised_controller_listeners(self) -> tuple[Endpoint, ...]:
        """Where other nodes reach this controller."""
        return tuple(at for at in self.advertised_listeners if at.listener_name in self.controller_listener_names)

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> tuple[Self, list[str]]:
        """The config of a `server.properties` file, and warnings; ConfigError is one line for the user."""
        static, warnings = check_static(properties)
        config = cls._build(ConfigLayers(static=static))
        return config, warnings + quorum_warnings(config) + _open_listeners(config)

    def with_dynamic(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> tuple[Self, list[str]]:
        """This config under the dynamic values of the metadata log: the cluster's defaults and this broker's own.

        A stored value that cannot be used is left out and named in a warning; ConfigError if the rest contradict each
        other, which is also how a change is tried before it is made.
        """
        cluster_layer, warnings = check_dynamic(cluster, per_broker=False)
        broker_layer, more = check_dynamic(broker, per_broker=True)
        layers = ConfigLayers(static=self.layers.static, cluster=cluster_layer, broker=broker_layer)
        return self._build(layers), warnings + more

    @classmethod
    def _build(cls, layers: ConfigLayers) -> Self:
        voting = quorum(layers)
        listening = network(layers, voting.roles)
        dirs = log_directories(layers)
        special: dict[str, Any] = {
            "layers": layers,
            "node_id": voting.node_id,
            "process_roles": voting.roles,
            "listeners": listening.listeners,
            "advertised_listeners": listening.advertised,
            "inter_broker_listener_name": listening.inter_broker,
            "controller_listener_names": listening.controller_names,
            "controller_quorum_voters": voting.voters,
            "controller_quorum_bootstrap_servers": voting.bootstrap_servers,
            "log_dirs": dirs,
            "metadata_log_dir": value_of(layers, "metadata.log.dir") or dirs[0],
            "max_connections_per_ip_overrides": connection_overrides(layers),
        }
        small_segment = value_of(layers, "internal.metadata.log.segment.bytes")
        if small_segment is not None:
            special["metadata_log_segment_bytes"] = small_segment
        for attribute in cls.__slots__:
            if attribute in _UNITED:
                special[attribute] = inherited_value(layers, TOPIC_KEYS[_UNITED[attribute]])
            elif attribute not in special:
                special[attribute] = value_of(layers, attribute.replace("_", "."))
        config = cls(**special)
        check_bounds(config)
        return config


def _open_listeners(config: NodeConfig) -> list[str]:
    return [
        f"listener {listener} is reachable from the network and asks for no authentication"
        for listener in config.listeners
        if not listener.is_loopback
    ]


def required_keys() -> list[str]:
    """What a minimal file must hold (and one of the two controller.quorum addresses)."""
    return [row.name for row in BROKER_KEYS.values() if row.required]


__all__ = ["ConfigError", "Endpoint", "NodeConfig", "QuorumVoter", "required_keys"]
