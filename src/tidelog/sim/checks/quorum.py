"""The invariant of the metadata quorum (12), and what of its liveness has to hold while faults last."""

import json
from collections.abc import Callable, Container
from typing import NamedTuple

from tidelog.metadata.compare import compare
from tidelog.metadata.image import ClusterImage
from tidelog.quorum.election_state import QUORUM_STATE
from tidelog.quorum.raft import Raft
from tidelog.sim.checks.invariant import Invariant
from tidelog.sim.checks.mirror import Batch, LogMirror
from tidelog.sim.disk import SimDisk

KEPT_IMAGES = 500
SLACK_S = 2.0
"""How much longer than its own patience a leader may go on: a fetch sent before the others gave it up may come late."""


class Member(NamedTuple):
    """A running member of the quorum. `disk` is its machine's, also after the process is gone."""

    node_id: int
    process: int
    raft: Raft
    disk: Callable[[], SimDisk]

    def describe(self) -> str:
        raft = self.raft
        log = raft.log.log
        stored = " ".join(self.disk().peek(f"{raft.log.path}/{QUORUM_STATE}", 0, 1 << 20).decode().split())
        return (
            f"node {self.node_id} (start {self.process}): {type(raft.role).__name__} in epoch {raft.epoch}, "
            f"log {log.log_start_offset} to {log.log_end_offset}, HW {raft.high_watermark}, "
            f"voters {list(raft.voters.ids)}; stored: {stored}"
        )


def _state_of(member: Member) -> tuple[object, ...]:
    """Whatever is judged changes with these."""
    raft = member.raft
    log, role = raft.log.log, raft.role
    return (member.process, log, role.epoch, type(role), raft.high_watermark, log.log_end_offset, log.truncations)


def _beside(image: ClusterImage) -> tuple[object, ...]:
    """What a difference does not tell of."""
    return image.next_producer_id, image.controllers, image.client_quotas


class Quorum(Invariant):
    """One leader per epoch; one persisted vote per epoch; HW monotonic and held by a majority of the voters in force;
    no truncation below HW; snapshot at X = replay of 0..X.
    """

    number = 12

    def __init__(self) -> None:
        self._leaders: dict[int, tuple[int, int]] = {}
        self._votes: dict[tuple[int, int], object] = {}
        self._high_watermarks: dict[tuple[int, int], int] = {}
        self._mirrors: dict[int, LogMirror] = {}
        self._disks: dict[int, Callable[[], SimDisk]] = {}
        self._committed: dict[int, Batch] = {}
        self._committed_end = 0
        self._compared: dict[int, tuple[LogMirror, int, int]] = {}
        self._images: dict[int, ClusterImage] = {}
        self._seen: dict[int, tuple[object, ...]] = {}

    # --- what is told ---

    def on_members(self, members: list[Member]) -> None:
        """A look at all members that run."""
        seen = {member.node_id: _state_of(member) for member in members}
        if seen == self._seen:
            return
        self._seen = seen
        for member in members:
            known = self._mirrors.get(member.node_id)
            if known is None or known.log is not member.raft.log.log:
                known = self._mirrors[member.node_id] = LogMirror(member.raft.log.log, member.disk)
            self._disks[member.node_id] = member.disk
            known.refresh()
            for problem in known.problems:
                raise self.broken(f"node {member.node_id}: {problem.what}")
            if (wrong := known.wrong_end()) is not None:
                raise self.broken(f"node {member.node_id}: {wrong}")
        for member in members:
            self._check(member)

    def _check(self, member: Member) -> None:
        raft, node_id, me = member.raft, member.node_id, (member.node_id, member.process)
        if raft.is_leader:
            first = self._leaders.setdefault(raft.epoch, me)
            if first != me:
                raise self.broken(f"nodes {first[0]} and {node_id} both lead in epoch {raft.epoch}")
        shown, high_watermark = self._high_watermarks.get(me, -1), raft.high_watermark
        if high_watermark < shown:
            raise self.broken(f"the high watermark of node {node_id} went back from {shown} to {high_watermark}")
        self._high_watermarks[me] = high_watermark
        if raft.log.log_end_offset < high_watermark:
            raise self.broken(f"the log of node {node_id} ends below its high watermark {high_watermark}")
        mirror = self._mirrors[node_id]
        if high_watermark > self._committed_end:
            self._commit(mirror, high_watermark)
            self._check_majority(raft, high_watermark)
        self._compare(node_id, mirror, high_watermark)

    def on_vote_stored(self, node_id: int, content: bytes) -> None:
        state = json.loads(content)
        vote, key = state["votedId"], (node_id, state["leaderEpoch"])
        before = self._votes.get(key, -1)
        if before not in (-1, vote):
            raise self.broken(f"node {node_id} voted for {before} and then for {vote} in epoch {key[1]}")
        self._votes[key] = vote

    def log_of(self, node_id: int) -> LogMirror | None:
        """The metadata log of a member, as of the last look at it."""
        return self._mirrors.get(node_id)

    def on_image(self, node_id: int, image: ClusterImage) -> None:
        offset = image.provenance.offset
        known = self._images.setdefault(offset, image)
        if known is not image:
            difference = compare(known, image)
            if not difference.is_empty or _beside(known) != _beside(image):
                raise self.broken(
                    f"node {node_id} has metadata at {offset} that differs from an earlier observation: {difference}"
                )
        if len(self._images) > 2 * KEPT_IMAGES:
            self._images = dict(list(self._images.items())[KEPT_IMAGES:])

    # --- what is judged ---

    def _commit(self, mirror: LogMirror, high_watermark: int) -> None:
        for batch in mirror.batches[mirror.number_of(self._committed_end) :]:
            if batch.next_offset > high_watermark:
                break
            self._committed[batch.base_offset] = batch
        self._committed_end = high_watermark

    def _check_majority(self, raft: Raft, high_watermark: int) -> None:
        voters = raft.voters.ids
        holding = [
            node_id for node_id in voters if node_id in self._mirrors and self._durable_end(node_id) >= high_watermark
        ]
        if 2 * len(holding) <= len(voters):
            ends = {node_id: self._durable_end(node_id) for node_id in voters if node_id in self._mirrors}
            raise self.broken(
                f"{high_watermark} is committed, but the durable ends of the voters {list(voters)} are {ends}"
            )

    def _durable_end(self, node_id: int) -> int:
        mirror, disk = self._mirrors[node_id], self._disks[node_id]()
        mirror.refresh()
        for batch in reversed(mirror.batches):
            if disk.durable_bytes(batch.path) >= batch.position + batch.size:
                return batch.next_offset
        return mirror.log.log_start_offset

    def _compare(self, node_id: int, mirror: LogMirror, high_watermark: int) -> None:
        seen, version, checked = self._compared.get(node_id, (mirror, mirror.version, 0))
        if seen is not mirror or version != mirror.version:
            checked = 0
        batches = mirror.batches
        while checked < len(batches) and batches[checked].next_offset <= high_watermark:
            batch = batches[checked]
            expected = self._committed.get(batch.base_offset)
            if expected is not None and not batch.same(expected):
                raise self.broken(
                    f"node {node_id} has {batch} in the metadata log, but the committed batch is {expected}"
                )
            checked += 1
        self._compared[node_id] = (mirror, mirror.version, checked)


class CutOffLeader(Invariant):
    """A leader of the quorum whose majority has gone on to a later epoch resigns when its patience is over, also if it
    never hears of that epoch. Once faults stop it would: this part of liveness is asked for before.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since_s: dict[tuple[int, int, int], float] = {}

    def on_members(self, members: list[Member], paused: Container[int], now_s: float) -> None:
        epochs = {member.node_id: member.raft.epoch for member in members}
        newest = max(epochs.values(), default=-1)
        cut_off: dict[tuple[int, int, int], float] = {}
        for member in members:
            raft = member.raft
            if epochs[member.node_id] == newest or not raft.is_leader or member.node_id in paused:
                continue
            voters = raft.voters.ids
            if 2 * sum(epochs.get(voter, -1) > raft.epoch for voter in voters) <= len(voters):
                continue
            key = (member.node_id, member.process, raft.epoch)
            cut_off[key] = since_s = self._since_s.get(key, now_s)
            if now_s - since_s > self._patience_s + SLACK_S:
                raise self.broken(
                    f"node {member.node_id} still leads in epoch {raft.epoch}, "
                    f"{now_s - since_s:.1f} s after a majority of the voters went on: {epochs}"
                )
        self._since_s = cut_off
