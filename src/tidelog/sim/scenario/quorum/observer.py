"""Tells what changed at each member, and what a member is, in one line each."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.core.ids import NO_LEADER
from tidelog.quorum.election_state import ElectionState
from tidelog.sim.scenario.quorum.member import Member


class Facts(NamedTuple):
    """A running member from outside."""

    incarnation: int
    role: str
    is_voter: bool
    epoch: int
    leader_id: int
    log_start: int
    log_end: int
    high_watermark: int
    snapshot: tuple[int, int] | None
    voters: tuple[int, ...]
    stored: ElectionState


def facts_of(member: Member) -> Facts | None:
    raft = member.raft
    if raft is None:
        return None
    return Facts(
        member.incarnation,
        type(raft.role).__name__.lower(),
        raft.is_voter,
        raft.epoch,
        raft.leader_id,
        raft.log.log_start_offset,
        raft.log.log_end_offset,
        raft.high_watermark,
        raft.log.latest_snapshot,
        raft.voters.ids,
        member.durable_election_state(),
    )


def described(member: Member) -> str:
    facts = facts_of(member)
    if facts is None:
        return f"{member.id}: down"
    snapshot = "" if facts.snapshot is None else f" snapshot={facts.snapshot[0]}@{facts.snapshot[1]}"
    voters = ",".join(map(str, facts.voters))
    return (
        f"{member.id}: {_standing(facts)} log={facts.log_start}..{facts.log_end} hw={_mark(facts)}{snapshot}"
        f" voters={voters} state={{{' '.join(f'{key}={value}' for key, value in sorted(member.state.items()))}}}"
    )


class Observer:
    """Remembers what was last told."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._last: dict[int, Facts] = {}

    def look(self, members: Iterable[Member]) -> None:
        for member in members:
            now = facts_of(member)
            if now is None:
                if self._last.pop(member.id, None) is not None:
                    self._tell(f"{member.id}: down")
                continue
            before = self._last.get(member.id)
            if before == now:
                continue
            self._last[member.id] = now
            self._tell(f"{member.id}: {'; '.join(_changes(before, now))}")


def _changes(before: Facts | None, now: Facts) -> list[str]:
    if before is None or before.incarnation != now.incarnation:
        mark = [f"high watermark {_mark(now)}"] if now.high_watermark >= 0 else []
        return [f"starts as {_standing(now)}", f"log {now.log_start}..{now.log_end}", *mark]
    told: list[str] = []
    if now.stored != before.stored:
        told.append(f"stores {_stored(now.stored)}")
    if _standing(before) != _standing(now):
        told.append(_standing(now))
    if now.snapshot != before.snapshot and now.snapshot is not None:
        told.append(f"snapshot {now.snapshot[0]}@{now.snapshot[1]}")
    if now.log_start != before.log_start:
        told.append(f"log starts at {now.log_start}")
    if now.log_end != before.log_end:
        told.append(f"log {'cut' if now.log_end < before.log_end else 'grows'} to {now.log_end}")
    if now.high_watermark != before.high_watermark:
        told.append(f"high watermark {_mark(now)}")
    if now.voters != before.voters:
        told.append(f"voters {','.join(map(str, now.voters))}")
    return told


def role_of(facts: Facts) -> str:
    leader = f" of {facts.leader_id}" if facts.role == "follower" else ""
    # Only a leader that removes itself is anything else without a vote.
    role = facts.role if facts.is_voter or facts.role not in ("follower", "unattached") else "observer"
    return f"{role}{leader}"


def _standing(facts: Facts) -> str:
    return f"{role_of(facts)} in epoch {facts.epoch}"


def _stored(state: ElectionState) -> str:
    """`quorum-state`, as far as it says anything."""
    vote = "" if state.voted is None else f" vote={state.voted.id}"
    leader = "" if state.leader_id == NO_LEADER else f" leader={state.leader_id}"
    return f"epoch={state.epoch}{vote}{leader}"


def _mark(facts: Facts) -> str:
    return "unknown" if facts.high_watermark < 0 else str(facts.high_watermark)
