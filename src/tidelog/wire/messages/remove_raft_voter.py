"""RemoveRaftVoter (key 81)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import INT16, INT32, STRING, UUID, f, message, struct


@message(api_key=81, versions="0-0", flexible="0+")
@struct
class RemoveRaftVoterRequest:
    cluster_id: str | None = f(STRING, nullable="0+")
    voter_id: int = f(INT32)
    voter_directory_id: PyUuid = f(UUID)


@message(api_key=81, versions="0-0", flexible="0+")
@struct
class RemoveRaftVoterResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
