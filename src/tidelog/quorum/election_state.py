"""The `quorum-state` file: epoch, vote and leader, durable before any message or record that depends on them (Q1).

Kafka's JSON: data version 0 names the voters (kraft.version 0), version 1 the directory of the candidate voted for.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from tidelog.core.ids import NO_LEADER, ZERO_UUID, uuid_from_text, uuid_to_text
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.voters import KRAFT_VERSION_STATIC, ReplicaKey
from tidelog.storage.ports import Disk

QUORUM_STATE: Final = "quorum-state"
_NEWEST: Final = 1


@dataclass(frozen=True, slots=True)
class ElectionState:
    """Invariant: within an epoch a vote, once there, never changes; nor does the leader."""

    epoch: int
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None


def read_election_state(disk: Disk, path: str) -> ElectionState | None:
    """None if the file is not there; QuorumError if it is there and not to be trusted."""
    if not disk.exists(path):
        return None
    try:
        content = json.loads(disk.read_bytes(path))
        version = content["data_version"]
        if not 0 <= version <= _NEWEST:
            raise QuorumError(
                f"{path} has data version {version}, but this version of Tidelog reads only up to {_NEWEST}"
            )
        directory_id = uuid_from_text(content["votedDirectoryId"]) if version >= 1 else ZERO_UUID
        return _state(content["leaderEpoch"], content["leaderId"], content["votedId"], directory_id)
    except (ValueError, KeyError, TypeError) as error:
        raise QuorumError(f"{path} is malformed: {error!r}") from error


def _state(epoch: object, leader_id: object, voted_id: object, directory_id: UUID) -> ElectionState:
    if not (isinstance(epoch, int) and isinstance(leader_id, int) and isinstance(voted_id, int)) or epoch < 0:
        raise ValueError(f"epoch {epoch}, leader {leader_id}, vote {voted_id}")
    voted = None if voted_id < 0 else ReplicaKey(voted_id, directory_id)
    return ElectionState(epoch, leader_id, voted)


def write_election_state(
    disk: Disk, path: str, state: ElectionState, *, voter_ids: Iterable[int], kraft_version: int
) -> None:
    """Durable when this returns."""
    voted = ReplicaKey(-1) if state.voted is None else state.voted
    content: dict[str, Any] = {"leaderId": state.leader_id, "leaderEpoch": state.epoch, "votedId": voted.id}
    if kraft_version == KRAFT_VERSION_STATIC:
        content = {
            "clusterId": "",
            **content,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": each} for each in voter_ids],
            "data_version": 0,
        }
    else:
        content |= {"votedDirectoryId": uuid_to_text(voted.directory_id), "data_version": 1}
    disk.write_atomic(path, json.dumps(content, separators=(",", ":")).encode())
