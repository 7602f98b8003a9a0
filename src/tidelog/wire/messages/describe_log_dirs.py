"""DescribeLogDirs (key 35)."""

from tidelog.wire.schema import BOOL, INT16, INT32, INT64, STRING, Array, f, message, struct


@struct
class DescribableLogDirTopic:
    topic: str = f(STRING)
    partitions: list[int] = f(Array(INT32))


@message(api_key=35, versions="1-5", flexible="2+")
@struct
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = f(Array(DescribableLogDirTopic), nullable="1+")


@struct
class DescribeLogDirsPartition:
    partition_index: int = f(INT32)
    partition_size: int = f(INT64)
    offset_lag: int = f(INT64)
    is_future_key: bool = f(BOOL)


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
