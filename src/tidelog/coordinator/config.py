"""What the coordinator takes from the node's configuration; attributes are Kafka's keys, defaults Kafka's defaults."""

from dataclasses import dataclass

from tidelog.core.config.node import NodeConfig

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorConfig:
    """Invariant: 0 < group_min_session_timeout_ms <= group_max_session_timeout_ms."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 30 * _MINUTE_MS
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 10 * _MINUTE_MS
    offsets_topic_num_partitions: int = 50
    offsets_commit_timeout_ms: int = 5_000
    # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
    offsets_topic_compression_codec: int = 0

    # Not keys of Kafka's: a member that has joined for the first time cannot heartbeat while its JoinGroup waits, so
    # its wait is bounded; ids given out and not yet used, and tombstones written in one pass, are bounded too.
    new_member_join_timeout_ms: int = 5 * _MINUTE_MS
    max_pending_members: int = 10_000
    max_tombstones_per_pass: int = 1_000

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * _MINUTE_MS

    @classmethod
    def from_node(cls, node: NodeConfig) -> "GroupCoordinatorConfig":
        return cls(
            group_min_session_timeout_ms=node.group_min_session_timeout_ms,
            group_max_session_timeout_ms=node.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=node.group_initial_rebalance_delay_ms,
            group_max_size=node.group_max_size,
            offset_metadata_max_bytes=node.offset_metadata_max_bytes,
            offsets_retention_minutes=node.offsets_retention_minutes,
            offsets_retention_check_interval_ms=node.offsets_retention_check_interval_ms,
            offsets_topic_num_partitions=node.offsets_topic_num_partitions,
            offsets_commit_timeout_ms=node.offsets_commit_timeout_ms,
            offsets_topic_compression_codec=node.offsets_topic_compression_codec,
        )
