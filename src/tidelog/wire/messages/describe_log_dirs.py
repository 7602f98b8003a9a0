"""DescribeLogDirs (key 35), with what a replica knows of itself for who asks for it.

`REPLICA_STATE` is a tag of our own, far from the few that Kafka gives out (decision 12). It is not in an answer unless
the request has it, so whoever does not know it never meets it; a broker that does not know it skips it.
"""

from enum import IntEnum
from typing import Final

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, INT64, STRING, Array, Struct, f, message, struct

REPLICA_STATE: Final = 10_000


class ReplicaRole(IntEnum):
    """As it stands in `ReplicaState.role`."""

    FOLLOWER = 0
    LEADER = 1
    OFFLINE = 2


@struct
class DescribableLogDirTopic:
    topic: str = f(STRING)
    partitions: list[int] = f(Array(INT32))


@message(api_key=35, versions="1-5", flexible="2+")
@struct
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = f(Array(DescribableLogDirTopic), nullable="1+")
    include_replica_state: bool = f(BOOL, "2+", tag=REPLICA_STATE)


@struct
class FollowerProgress:
    """What a leader knows of a follower from its fetches. Times are ages in milliseconds; -1: not in this epoch."""

    broker_id: int = f(INT32)
    log_start_offset: int = f(INT64, default=-1)
    log_end_offset: int = f(INT64, default=-1)
    last_fetch_age_ms: int = f(INT64, default=-1)
    last_caught_up_age_ms: int = f(INT64, default=-1)


@struct
class ReplicaState:
    """A replica in its own words. What stands below `log_end_offset` only a leader can tell."""

    role: int = f(INT8)
    leader_id: int = f(INT32, default=-1)
    leader_epoch: int = f(INT32, default=-1)
    partition_epoch: int = f(INT32, default=-1)
    log_start_offset: int = f(INT64, default=-1)
    high_watermark: int = f(INT64, default=-1)
    last_stable_offset: int = f(INT64, default=-1)
    log_end_offset: int = f(INT64, default=-1)
    epoch_start_offset: int = f(INT64, default=-1)
    isr: list[int] = f(Array(INT32))
    maximal_isr: list[int] = f(Array(INT32))
    # The ISR that it has asked the controller for; null when nothing is pending.
    proposed_isr: list[int] | None = f(Array(INT32), nullable="2+", default=None)
    followers: list[FollowerProgress] = f(Array(FollowerProgress))


@struct
class DescribeLogDirsPartition:
    partition_index: int = f(INT32)
    partition_size: int = f(INT64)
    offset_lag: int = f(INT64)
    is_future_key: bool = f(BOOL)
    replica_state: ReplicaState | None = f(Struct(ReplicaState), "2+", nullable="2+", tag=REPLICA_STATE, default=None)


@struct
class DescribeLogDirsTopic:
    name: str = f(STRING)
    partitions: list[DescribeLogDirsPartition] = f(Array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult:
    error_code: int = f(INT16)
    log_dir: str = f(STRING)
    topics: list[DescribeLogDirsTopic] = f(Array(DescribeLogDirsTopic))
    total_bytes: int = f(INT64, "4+", default=-1)
    usable_bytes: int = f(INT64, "4+", default=-1)
    is_cordoned: bool = f(BOOL, "5+")


@message(api_key=35, versions="1-5", flexible="2+")
@struct
class DescribeLogDirsResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16, "3+")
    results: list[DescribeLogDirsResult] = f(Array(DescribeLogDirsResult))
