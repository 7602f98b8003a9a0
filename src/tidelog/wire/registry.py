"""The one table of API keys: name, request, response, versions. What a node *serves* stands in `broker.api.table`.

Message classes are loaded when first asked for: a node that never sees an API never pays for it.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final

from tidelog.wire.schema import UNBOUNDED, MessageSpec, spec_of

API_VERSIONS_KEY: Final = 18


@dataclass(frozen=True)
class Api:
    """One API of the protocol."""

    key: int
    name: str
    module: str

    @cached_property
    def request(self) -> type[Any]:
        found: type[Any] = getattr(import_module(f"tidelog.wire.messages.{self.module}"), f"{self.name}Request")
        return found

    @cached_property
    def response(self) -> type[Any]:
        found: type[Any] = getattr(import_module(f"tidelog.wire.messages.{self.module}"), f"{self.name}Response")
        return found

    @cached_property
    def spec(self) -> MessageSpec:
        return spec_of(self.request)

    @cached_property
    def min_version(self) -> int:
        return self.spec.versions.low

    @cached_property
    def max_version(self) -> int:
        return self.spec.versions.high

    @cached_property
    def flexible_since(self) -> int:
        """From this version on: compact lengths and tagged fields (KIP-482), in the body and in the headers."""
        flexible = self.spec.flexible
        return flexible.low if flexible.low <= flexible.high else UNBOUNDED

    def flexible(self, version: int) -> bool:
        return version >= self.flexible_since

    def response_header_version(self, version: int) -> int:
        """ApiVersions is answered with header v0 always: the asker does not know yet what we speak."""
        return 1 if version >= self.flexible_since and self.key != API_VERSIONS_KEY else 0


def _api(key: int, name: str, module: str) -> Api:
    return Api(key, name, module)


APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        _api(0, "Produce", "produce"),
        _api(1, "Fetch", "fetch"),
        _api(2, "ListOffsets", "list_offsets"),
        _api(3, "Metadata", "metadata"),
        _api(8, "OffsetCommit", "offset_commit"),
        _api(9, "OffsetFetch", "offset_fetch"),
        _api(10, "FindCoordinator", "find_coordinator"),
        _api(11, "JoinGroup", "join_group"),
        _api(12, "Heartbeat", "heartbeat"),
        _api(13, "LeaveGroup", "leave_group"),
        _api(14, "SyncGroup", "sync_group"),
        _api(15, "DescribeGroups", "describe_groups"),
        _api(16, "ListGroups", "list_groups"),
        _api(17, "SaslHandshake", "sasl_handshake"),
        _api(18, "ApiVersions", "api_versions"),
        _api(19, "CreateTopics", "create_topics"),
        _api(20, "DeleteTopics", "delete_topics"),
        _api(21, "DeleteRecords", "delete_records"),
        _api(22, "InitProducerId", "init_producer_id"),
        _api(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch"),
        _api(24, "AddPartitionsToTxn", "add_partitions_to_txn"),
        _api(25, "AddOffsetsToTxn", "add_offsets_to_txn"),
        _api(26, "EndTxn", "end_txn"),
        _api(27, "WriteTxnMarkers", "write_txn_markers"),
        _api(28, "TxnOffsetCommit", "txn_offset_commit"),
        _api(32, "DescribeConfigs", "describe_configs"),
        _api(35, "DescribeLogDirs", "describe_log_dirs"),
        _api(36, "SaslAuthenticate", "sasl_authenticate"),
        _api(37, "CreatePartitions", "create_partitions"),
        _api(42, "DeleteGroups", "delete_groups"),
        _api(43, "ElectLeaders", "elect_leaders"),
        _api(44, "IncrementalAlterConfigs", "incremental_alter_configs"),
        _api(45, "AlterPartitionReassignments", "alter_partition_reassignments"),
        _api(46, "ListPartitionReassignments", "list_partition_reassignments"),
        _api(47, "OffsetDelete", "offset_delete"),
        _api(52, "Vote", "vote"),
        _api(53, "BeginQuorumEpoch", "begin_quorum_epoch"),
        _api(54, "EndQuorumEpoch", "end_quorum_epoch"),
        _api(55, "DescribeQuorum", "describe_quorum"),
        _api(56, "AlterPartition", "alter_partition"),
        _api(57, "UpdateFeatures", "update_features"),
        _api(58, "Envelope", "envelope"),
        _api(59, "FetchSnapshot", "fetch_snapshot"),
        _api(60, "DescribeCluster", "describe_cluster"),
        _api(61, "DescribeProducers", "describe_producers"),
        _api(62, "BrokerRegistration", "broker_registration"),
        _api(63, "BrokerHeartbeat", "broker_heartbeat"),
        _api(64, "UnregisterBroker", "unregister_broker"),
        _api(65, "DescribeTransactions", "describe_transactions"),
        _api(66, "ListTransactions", "list_transactions"),
        _api(67, "AllocateProducerIds", "allocate_producer_ids"),
        _api(68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat"),
        _api(69, "ConsumerGroupDescribe", "consumer_group_describe"),
        _api(70, "ControllerRegistration", "controller_registration"),
        _api(73, "AssignReplicasToDirs", "assign_replicas_to_dirs"),
        _api(74, "ListConfigResources", "list_config_resources"),
        _api(75, "DescribeTopicPartitions", "describe_topic_partitions"),
        _api(80, "AddRaftVoter", "add_raft_voter"),
        _api(81, "RemoveRaftVoter", "remove_raft_voter"),
        _api(82, "UpdateRaftVoter", "update_raft_voter"),
    )
}


def api_named(name: str) -> Api:
    """The API by its name, e.g. ``Fetch``; KeyError if there is none."""
    for api in APIS.values():
        if api.name == name:
            return api
    raise KeyError(name)
