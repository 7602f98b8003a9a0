"""BrokerHeartbeat (key 63)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import BOOL, INT16, INT32, INT64, UUID, Array, f, message, struct


@message(api_key=63, versions="0-2", flexible="0+")
@struct
class BrokerHeartbeatRequest:
    broker_id: int = f(INT32)
    broker_epoch: int = f(INT64, default=-1)
    current_metadata_offset: int = f(INT64)
    want_fence: bool = f(BOOL)
    want_shut_down: bool = f(BOOL)
    offline_log_dirs: list[PyUuid] = f(Array(UUID), "1+", tag=0)
    cordoned_log_dirs: list[PyUuid] = f(Array(UUID), "2+", tag=1, default=None)


@message(api_key=63, versions="0-2", flexible="0+")
@struct
class BrokerHeartbeatResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    is_caught_up: bool = f(BOOL)
    is_fenced: bool = f(BOOL, default=True)
    should_shut_down: bool = f(BOOL)
