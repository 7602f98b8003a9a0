"""DescribeCluster (key 60)."""

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, f, message, struct


@message(api_key=60, versions="0-2", flexible="0+")
@struct
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = f(BOOL)
    endpoint_type: int = f(INT8, "1+", default=1)
    include_fenced_brokers: bool = f(BOOL, "2+")


@struct
class DescribeClusterBroker:
    broker_id: int = f(INT32)
    host: str = f(STRING)
    port: int = f(INT32)
    rack: str | None = f(STRING, nullable="0+", default=None)
    is_fenced: bool = f(BOOL, "2+")


@message(api_key=60, versions="0-2", flexible="0+")
@struct
class DescribeClusterResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+", default=None)
    endpoint_type: int = f(INT8, "1+", default=1)
    cluster_id: str = f(STRING)
    controller_id: int = f(INT32, default=-1)
    brokers: list[DescribeClusterBroker] = f(Array(DescribeClusterBroker))
    cluster_authorized_operations: int = f(INT32, default=-2147483648)
