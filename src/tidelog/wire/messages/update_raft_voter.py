"""UpdateRaftVoter (key 82)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import INT16, INT32, STRING, UINT16, UUID, Array, Struct, f, message, struct


@struct
class Listener:
    name: str = f(STRING)
    host: str = f(STRING)
    port: int = f(UINT16)


@struct
class KRaftVersionFeature:
    min_supported_version: int = f(INT16)
    max_supported_version: int = f(INT16)


@message(api_key=82, versions="0-0", flexible="0+")
@struct
class UpdateRaftVoterRequest:
    cluster_id: str | None = f(STRING, nullable="0+")
    current_leader_epoch: int = f(INT32)
    voter_id: int = f(INT32)
    voter_directory_id: PyUuid = f(UUID)
    listeners: list[Listener] = f(Array(Listener))
    k_raft_version_feature: KRaftVersionFeature = f(Struct(KRaftVersionFeature))


@struct
class CurrentLeader:
    leader_id: int = f(INT32, default=-1)
    leader_epoch: int = f(INT32, default=-1)
    host: str = f(STRING)
    port: int = f(INT32)


@message(api_key=82, versions="0-0", flexible="0+")
@struct
class UpdateRaftVoterResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    current_leader: CurrentLeader = f(Struct(CurrentLeader), tag=0)
