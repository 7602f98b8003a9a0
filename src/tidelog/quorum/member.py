"""The state of one member of the quorum, and the only ways its role changes.

What is on disk about elections is `election`; a role is what the process makes of it. Whatever a message or a record
depends on is written before the role changes, so nothing can leave before it is durable (Q1).
"""

import random
from collections import deque
from math import inf
from typing import Final
from uuid import UUID

from tidelog.core.ids import NO_LEADER
from tidelog.quorum.control_records import (
    ControlMessage,
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
    encode_control,
)
from tidelog.quorum.election_messages import LeaderView
from tidelog.quorum.election_state import QUORUM_STATE, ElectionState, write_election_state
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.metadata_log import LogBatch, MetadataLog
from tidelog.quorum.outbox import InFlight, Parked, PendingChange
from tidelog.quorum.raft_config import RaftConfig
from tidelog.quorum.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_transition,
)
from tidelog.quorum.voter_history import VoterHistory
from tidelog.quorum.voters import KRAFT_VERSION_RECONFIGURABLE, ReplicaKey, Voter, VoterSet
from tidelog.storage.ports import Disk

Endpoints = tuple[tuple[str, str, int], ...]

_MAX_NOTES: Final = 100


class Member:
    """Invariant: `role.epoch == election.epoch`; `high_watermark` never goes back, -1 while nothing is known."""

    def __init__(
        self,
        disk: Disk,
        key: ReplicaKey,
        log: MetadataLog,
        history: VoterHistory,
        election: ElectionState,
        config: RaftConfig,
        rng: random.Random,
        *,
        cluster_id: str | None,
        endpoints: Endpoints,
        bootstrap: tuple[int, ...],
        now_ms: int,
        now_s: float,
    ) -> None:
        self.disk = disk
        self.key = key
        self.log = log
        self.history = history
        self.election = election
        self.config = config
        self.rng = rng
        self.cluster_id = cluster_id
        self.endpoints = endpoints
        self.bootstrap = bootstrap
        self.in_flight = InFlight(config)
        # Fetches that wait for records or the high watermark, one per replica; and those that a newer one replaced.
        self.parked: dict[ReplicaKey, Parked] = {}
        self.overtaken: list[Parked] = []
        # At most one change of the voters is under way.
        self.pending_change: PendingChange | None = None
        # What an operator should read: unusual, and nothing that ends this member.
        self.notes: deque[str] = deque(maxlen=_MAX_NOTES)
        self.shutting_down = False
        # Peers that say they belong to another cluster.
        self.other_cluster: set[int] = set()
        # Elections that came to nothing since a leader was last heard of: each makes the next wait longer.
        self.failed_elections = 0
        # Of leaders that the voters say nothing about, or something older.
        self.learned_endpoints: dict[int, tuple[str, int]] = {}
        newest = log.latest_snapshot
        # A snapshot holds committed records only.
        self.high_watermark = newest.end_offset if newest is not None and newest.end_offset else -1
        if self.high_watermark > 0:
            log.log.update_high_watermark(self.high_watermark)
        self.bytes_since_snapshot = 0
        self.recount_bytes()
        self._wall_ms_at_0 = now_ms - round(now_s * 1000)
        self.role: Role = self._first_role(now_s)

    def _first_role(self, now_s: float) -> Role:
        """A voter finds out within moments whether there is a leader (Q5); an observer asks until it knows."""
        soon = now_s + self._first_wait_s() if self.may_stand else inf
        epoch, leader_id = self.election.epoch, self.election.leader_id
        if leader_id == self.key.id:
            # Never leader again in this epoch: bytes that were lost would be written anew under the same offsets.
            others = {each for each in self.voters.ids if each != leader_id}
            return Resigned(epoch, soon if self.may_stand else now_s, unacknowledged=others)
        if leader_id != NO_LEADER:
            return Follower(epoch, leader_id, fetch_deadline_s=min(soon, now_s + self.config.fetch_timeout_s))
        return Unattached(epoch, soon, to_ask=set(self.peers()) if self.is_voter else set())

    def _first_wait_s(self) -> float:
        """Before the first pre-vote: random, so that two voters do not ask at the same time.

        The voters of a new quorum start together, and none knows a leader. There each has its own part of the time, in
        order of their ids, so that the first one asks early and alone.
        """
        longest_ms = self.config.start_wait_ms
        random_ms = self.rng.uniform(0, longest_ms)
        if self.voters.is_only_voter(self.key):
            return 0
        if self.election.epoch == 0 and self.is_voter:
            voters = sorted(self.voters.ids)
            return (longest_ms * voters.index(self.key.id) + random_ms / 2) / len(voters) / 1000
        return random_ms / 1000

    # --- where it stands ---

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def leader_id(self) -> int:
        return self.election.leader_id

    @property
    def voters(self) -> VoterSet:
        """Those in force: the newest the log names, committed or not."""
        return self.history.latest

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.key)

    @property
    def may_stand(self) -> bool:
        """Whether it may seek election: a voter, or one whose removal is not known to be committed.

        A leader may have written its own removal and nobody else have it: then only this log can be elected, by the
        votes of those who stay.
        """
        return self.is_voter or any(each.is_voter(self.key) for each in self.history.since(self.high_watermark))

    @property
    def durable_end_offset(self) -> int:
        return self.log.durable_end_offset

    def peers(self) -> list[int]:
        """Whom to ask for the leader: the voters, or whatever the node was told to start from."""
        return [each for each in self.voters.ids if each != self.key.id] or list(self.bootstrap)

    def view(self) -> LeaderView:
        """What others are told. A former leader that seeks election anew does not pass for the leader any more."""
        leader_id = self.leader_id
        if leader_id == self.key.id and not isinstance(self.role, Leader | Resigned):
            leader_id = NO_LEADER
        return LeaderView(leader_id, self.epoch, self.endpoint(leader_id))

    def endpoint(self, node_id: int) -> tuple[str, int] | None:
        """Where a member is reached under the quorum's listener, as far as is known here."""
        known: Endpoints = ()
        if node_id == self.key.id:
            known = self.endpoints
        elif (voter := self.voters.voters.get(node_id)) is not None:
            known = voter.endpoints
        found = next(((host, port) for name, host, port in known if name == self.config.listener_name), None)
        return found or self.learned_endpoints.get(node_id)

    def wall_ms(self, now_s: float) -> int:
        """The wall clock as it went on since this member was opened; for timestamps that people read."""
        return self._wall_ms_at_0 + round(now_s * 1000)

    def election_deadline_s(self, now_s: float) -> float:
        timeout_ms = self.config.election_timeout_ms
        return now_s + self.rng.uniform(timeout_ms, 2 * timeout_ms) / 1000 if self.may_stand else inf

    def backoff_s(self) -> float:
        """After a lost election: random, so that two do not meet again, and longer each time."""
        longest_ms = min(100 << min(self.failed_elections, 10), self.config.election_backoff_max_ms)
        return self.rng.uniform(0, longest_ms) / 1000

    # --- changes of role ---

    def _become(self, role: Role, election: ElectionState) -> None:
        check_transition(self.role, role)
        assert role.epoch == election.epoch, (role, election)
        self._check_promises(election)
        if election != self.election:
            write_election_state(
                self.disk,
                f"{self.log.path}/{QUORUM_STATE}",
                election,
                voter_ids=self.voters.ids,
                kraft_version=self.voters.kraft_version,
            )
        # Only now: whatever is sent or written in the new role depends on the file.
        if isinstance(self.role, Follower) and self.role.download is not None:
            self.role.download.abandon()
        self.election = election
        self.role = role
        self.in_flight.abandon()

    def _check_promises(self, election: ElectionState) -> None:
        """Within an epoch a vote stands, and so does the leader (Q1)."""
        before = self.election
        if election.epoch == before.epoch:
            assert before.voted in (None, election.voted), (before, election)
            assert before.leader_id in (NO_LEADER, election.leader_id), (before, election)

    def become_unattached(self, epoch: int, now_s: float, *, deadline_s: float | None = None) -> None:
        """A newer epoch without a leader, or (`deadline_s`) back from an election that came to nothing."""
        if deadline_s is None:
            deadline_s = self._kept_deadline_s(now_s)
        election = self.election if epoch == self.epoch else ElectionState(epoch)
        self._become(Unattached(epoch, deadline_s), election)

    def _kept_deadline_s(self, now_s: float) -> float:
        """Somebody else's newer epoch does not make an election wait longer that was about to start."""
        if self.may_stand and isinstance(self.role, Unattached | Prospective | Candidate):
            return self.role.election_deadline_s
        return self.election_deadline_s(now_s)

    def vote_for(self, candidate: ReplicaKey, now_s: float) -> None:
        """Its candidacy has at least as good a chance as one of this member's: the wait begins anew."""
        election = ElectionState(self.epoch, self.leader_id, candidate)
        self._become(Unattached(self.epoch, self.election_deadline_s(now_s)), election)

    def become_prospective(self, now_s: float) -> None:
        assert self.may_stand, f"{self.key} is no voter of {self.voters}"
        deadline_s = self.election_deadline_s(now_s)
        role = Prospective(self.epoch, self.voters, self._own_vote(), election_deadline_s=deadline_s)
        self._become(role, self.election)

    def become_candidate(self, now_s: float) -> None:
        assert isinstance(self.role, Prospective) and self.role.is_won, self.role
        epoch = self.epoch + 1
        role = Candidate(epoch, self.voters, self._own_vote(), election_deadline_s=self.election_deadline_s(now_s))
        self._become(role, ElectionState(epoch, voted=self.key))

    def _own_vote(self) -> set[int]:
        """It counts for a voter only."""
        return {self.key.id} if self.is_voter else set()

    def become_leader(self, now_s: float) -> None:
        """Opens the epoch in the log: with its first record everything older is committed (Q4)."""
        candidate = self.role
        assert isinstance(candidate, Candidate) and candidate.is_won, candidate
        role = Leader(candidate.epoch, self.log.log_end_offset, self.voters, since_s=now_s)
        self._become(role, ElectionState(role.epoch, self.key.id, self.key))
        self.failed_elections = 0
        messages: list[ControlMessage] = [
            # Version 0, whatever kraft.version says: Kafka 4.3's own readers know no other.
            LeaderChangeMessage(
                version=0,
                leader_id=self.key.id,
                voters=self.voters.leader_change_voters(self.voters.ids),
                granting_voters=self.voters.leader_change_voters(sorted(candidate.granted)),
            )
        ]
        if self.history.latest_offset < 0 and self.voters.kraft_version >= KRAFT_VERSION_RECONFIGURABLE:
            # Until now only the formatted snapshot at offset 0 names the voters, and no follower gets that one.
            messages += [KRaftVersionRecord(k_raft_version=self.voters.kraft_version), self.voters.to_record()]
        self.append_control(messages, now_s)

    def become_follower(self, leader_id: int, epoch: int, now_s: float) -> None:
        assert leader_id != self.key.id, (leader_id, epoch)
        voted = self.election.voted if epoch == self.epoch else None
        role = Follower(epoch, leader_id, fetch_deadline_s=now_s + self.config.fetch_timeout_s)
        self._become(role, ElectionState(epoch, leader_id, voted))
        self.in_flight.succeeded(leader_id)

    def become_resigned(self, now_s: float) -> None:
        assert isinstance(self.role, Leader), self.role
        others = [each for each in self.role.voter_progress() if each.key.id != self.key.id]
        best_first = sorted(others, key=lambda each: (-each.end_offset, each.key.id))
        role = Resigned(
            self.epoch,
            now_s + self.rng.uniform(1, 2) * self.config.election_timeout_ms / 1000,
            tuple(each.key for each in best_first),
            {each.key.id for each in others},
        )
        self._become(role, self.election)

    # --- the log ---

    def append_control(self, messages: list[ControlMessage], now_s: float) -> int:
        """The leader's own records; voters among them are in force at once."""
        now_ms = self.wall_ms(now_s)
        first = self.log.log_end_offset
        batch = encode_control(messages, base_offset=first, leader_epoch=self.epoch, timestamp=now_ms)
        last = self.append(batch, now_ms)
        for position, message in enumerate(messages):
            if isinstance(message, VotersRecord):
                self._on_voters(first + position, VoterSet.from_record(message))
        return last

    def append(self, batch: bytes | memoryview, now_ms: int) -> int:
        self.bytes_since_snapshot += len(batch)
        return self.log.append(batch, now_ms)

    def on_replicated(self, batch: LogBatch) -> None:
        """A control batch came from the leader."""
        for position, message in enumerate(batch.control):
            if isinstance(message, VotersRecord):
                self._on_voters(batch.base_offset + position, VoterSet.from_record(message))

    def _on_voters(self, offset: int, voters: VoterSet) -> None:
        self.history.add(offset, voters)
        if isinstance(self.role, Leader):
            self.role.voters = voters

    def recount_bytes(self) -> None:
        """How much log the newest snapshot does not cover."""
        newest = self.log.latest_snapshot
        start = self.log.log_start_offset
        self.bytes_since_snapshot = self.log.bytes_from(start if newest is None else max(start, newest.end_offset))

    def raise_high_watermark(self, offset: int) -> bool:
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.log.log.update_high_watermark(offset)
        return True

    def voter(self, node_id: int) -> Voter:
        """A voter, or a bootstrap peer of whom no more than that is known."""
        return self.voters.voters.get(node_id) or Voter(ReplicaKey(node_id))

    def refused_by_other_cluster(self, peer: int) -> None:
        """One peer may be the stranger; if most are of another cluster, this node is."""
        self.other_cluster.add(peer)
        members = len(self.voters.ids or self.bootstrap)
        if 2 * len(self.other_cluster) > members:
            raise QuorumError(
                f"this node belongs to cluster {self.cluster_id}, but {members} members of its configured "
                "quorum belong to "
                "another cluster: check the addresses, or format the node's directories with the right cluster id"
            )

    def is_same_cluster(self, cluster_id: str | None) -> bool:
        """A request need not say which cluster it is for."""
        return cluster_id is None or self.cluster_id is None or cluster_id == self.cluster_id

    def directory_matches(self, directory_id: UUID) -> bool:
        """Whether a message is meant for the disk this member has; static voters are named without one."""
        return directory_id.int == 0 or directory_id == self.key.directory_id
