"""AddRaftVoter (key 80)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import BOOL, INT16, INT32, STRING, UINT16, UUID, Array, f, message, struct


@struct
class Listener:
    name: str = f(STRING)
    host: str = f(STRING)
    port: int = f(UINT16)


@message(api_key=80, versions="0-1", flexible="0+")
@struct
class AddRaftVoterRequest:
    cluster_id: str | None = f(STRING, nullable="0+")
    timeout_ms: int = f(INT32)
    voter_id: int = f(INT32)
    voter_directory_id: PyUuid = f(UUID)
    listeners: list[Listener] = f(Array(Listener))
    ack_when_committed: bool = f(BOOL, "1+", default=True)


@message(api_key=80, versions="0-1", flexible="0+")
@struct
class AddRaftVoterResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
