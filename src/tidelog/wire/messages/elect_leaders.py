"""ElectLeaders (key 43)."""

from dataclasses import dataclass

from tidelog.wire.schema import INT8, INT16, INT32, STRING, Array, f, message


@dataclass(slots=True, kw_only=True)
class TopicPartitions:
    topic: str = f(STRING)
    partitions: list[int] = f(Array(INT32))


@message(api_key=43, versions="0-2", flexible="2+")
@dataclass(slots=True, kw_only=True)
class ElectLeadersRequest:
    election_type: int = f(INT8, "1+")
    topic_partitions: list[TopicPartitions] | None = f(Array(TopicPartitions), nullable="0+")
    timeout_ms: int = f(INT32, default=60000)


@dataclass(slots=True, kw_only=True)
class PartitionResult:
    partition_id: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")


@dataclass(slots=True, kw_only=True)
class ReplicaElectionResult:
    topic: str = f(STRING)
    partition_result: list[PartitionResult] = f(Array(PartitionResult))


@message(api_key=43, versions="0-2", flexible="2+")
@dataclass(slots=True, kw_only=True)
class ElectLeadersResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16, "1+")
    replica_election_results: list[ReplicaElectionResult] = f(Array(ReplicaElectionResult))
