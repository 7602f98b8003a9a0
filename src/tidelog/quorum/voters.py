"""Who votes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.core.ids import ZERO_UUID
from tidelog.quorum.control_records import (
    KRaftVersionFeature,
    LeaderChangeVoter,
    VoterEndpoint,
    VotersRecord,
    VotersRecordVoter,
)

# kraft.version 0: voters stand in every node's config. 1: voters stand in the log, with directory ids (KIP-853).
KRAFT_VERSION_STATIC: Final = 0
KRAFT_VERSION_RECONFIGURABLE: Final = 1


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """A voter: the node and the directory its vote stands in. A node that lost its disk is another voter."""

    id: int
    directory_id: UUID = ZERO_UUID

    def matches(self, other: "ReplicaKey") -> bool:
        """Directory ids count only when both sides have one: static voters have none."""
        return self.id == other.id and (ZERO_UUID in (self.directory_id, other.directory_id) or self == other)


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter and where it is reached, by listener name."""

    key: ReplicaKey
    endpoints: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters in force, by id."""

    voters: Mapping[int, Voter]
    kraft_version: int = KRAFT_VERSION_STATIC

    @classmethod
    def of(cls, voters: Iterable[Voter], kraft_version: int = KRAFT_VERSION_STATIC) -> "VoterSet":
        return cls({voter.key.id: voter for voter in sorted(voters, key=lambda each: each.key.id)}, kraft_version)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self.voters)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.is_voter(key)

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self.voters.get(key.id)
        return voter is not None and voter.key.matches(key)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """Added, or in the place of the one with its id."""
        others = (each for each in self.voters.values() if each.key.id != voter.key.id)
        return VoterSet.of([*others, voter], self.kraft_version)

    def without(self, node_id: int) -> "VoterSet":
        return VoterSet.of((each for each in self.voters.values() if each.key.id != node_id), self.kraft_version)

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            voters=[
                VotersRecordVoter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[VoterEndpoint(name=name, host=host, port=port) for name, host, port in voter.endpoints],
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=KRAFT_VERSION_STATIC, max_supported_version=KRAFT_VERSION_RECONFIGURABLE
                    ),
                )
                for voter in self.voters.values()
            ]
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> "VoterSet":
        return cls.of(
            (
                Voter(
                    ReplicaKey(each.voter_id, each.voter_directory_id),
                    tuple((endpoint.name, endpoint.host, endpoint.port) for endpoint in each.endpoints),
                )
                for each in record.voters
            ),
            KRAFT_VERSION_RECONFIGURABLE,
        )

    def leader_change_voters(self, ids: Iterable[int]) -> list[LeaderChangeVoter]:
        return [LeaderChangeVoter(voter_id=each, voter_directory_id=self.voters[each].key.directory_id) for each in ids]
