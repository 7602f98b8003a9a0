"""A consumer group of the classic protocol: its members, its generation, its state.

What the log holds of a group is its last finished generation. Everything between two generations (who has joined, who
has synced, ids given out) is memory only: a new coordinator starts from the last generation and lets members rejoin.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tidelog.coordinator.effects import TimerKey, TimerKind
from tidelog.coordinator.member import Member, Protocols
from tidelog.coordinator.offsets_records import GroupMetadataValue, KeyValue, group_record
from tidelog.coordinator.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupResponseMember


class GroupState(Enum):
    EMPTY = "Empty"  # no members, maybe offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # waits for members to join
    COMPLETING_REBALANCE = "CompletingRebalance"  # waits for the leader's assignment
    STABLE = "Stable"
    DEAD = "Dead"  # being deleted, or no longer ours


# from -> to; every legal move. Unloading and deletion lead to Dead, from where nothing leads.
TRANSITIONS: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}


@dataclass(slots=True)
class InitialJoin:
    """The first join phase of a group that was Empty: it waits for more members as long as new ones come.

    Invariant: the delays of one phase add up to the first member's rebalance timeout at most, if that is the longer.
    """

    delay_ms: int
    remaining_ms: int
    member_added: bool = False


@dataclass(slots=True)
class Group:
    """Invariants: see `check_invariants`."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_since_ms: int | None = None
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    # group.instance.id -> member id
    static_members: dict[str, str] = field(default_factory=dict)
    # ids given out by MEMBER_ID_REQUIRED whose owners have not come back; dicts for their order
    pending_join: dict[str, None] = field(default_factory=dict)
    # members of the generation that have not sent SyncGroup yet
    pending_sync: dict[str, None] = field(default_factory=dict)
    initial_join: InitialJoin | None = None
    # What the join phase that runs, or ran last, began with: for people.
    rebalance_reason: str = ""
    # The generation whose assignment is being written: a second SyncGroup of the leader must not write another.
    storing_generation: int | None = None
    # Static members' new ids on their way into the log, each with all that was so when its record was made.
    storing_members: int = 0
    # None: the coordinator cannot know (not a consumer group, no generation yet, metadata it cannot read).
    subscribed: frozenset[str] | None = None
    _supporters: Counter[str] = field(default_factory=Counter)
    _awaiting_joins: int = 0

    # -- state

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        assert state in TRANSITIONS[self.state], (
            f"group {self.group_id} generation {self.generation_id}: {self.state} -> {state}"
        )
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return GroupState.PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # -- members

    def add(self, member: Member) -> None:
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = member.protocol_type
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(name for name, _ in member.protocols)
        self._awaiting_joins += member.awaiting_join is not None
        self.pending_join.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Forgets a member or a pending one; the first of the others leads if it was the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supporters.subtract(name for name, _ in member.protocols)
            self._awaiting_joins -= member.awaiting_join is not None
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def rename(self, old_member_id: str, new_member_id: str) -> Member:
        """Gives a static member its new id; everything else of it stays."""
        member = self.members.pop(old_member_id)
        assert member.group_instance_id is not None
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[member.group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync:
            del self.pending_sync[old_member_id]
            self.pending_sync[new_member_id] = None
        return member

    def update_protocols(self, member: Member, protocols: Protocols) -> None:
        self._supporters.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self._supporters.update(name for name, _ in protocols)

    def set_awaiting_join(self, member: Member, token: int | None) -> int | None:
        """Returns the token that waited before."""
        before = member.awaiting_join
        self._awaiting_joins += (token is not None) - (before is not None)
        member.awaiting_join = token
        return before

    @property
    def awaiting_joins(self) -> int:
        return self._awaiting_joins

    @property
    def has_all_joined(self) -> bool:
        return len(self.members) == self._awaiting_joins and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The slowest member sets the pace."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it has joined, else takes the first that has; False when nobody has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # -- protocols and generations

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these could be part of the group: something it offers is supported by everybody."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Each member votes for its favourite of those all support; the first voted for wins a tie."""
        candidates = frozenset(name for name, count in self._supporters.items() if count == len(self.members))
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def next_generation(self, now_ms: int) -> None:
        """Ends the join phase: with members it waits for their leader, without it is Empty."""
        self.generation_id += 1
        self.initial_join = None
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscription()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    def refresh_subscription(self) -> None:
        self.subscribed = None
        if not self.is_consumer_group:
            return
        if not self.members:
            self.subscribed = frozenset()
        elif self.protocol_name is not None:
            topics: set[str] = set()
            for member in self.members.values():
                of_member = subscribed_topics(member.metadata(self.protocol_name))
                if of_member is None:
                    return
                topics |= of_member
            self.subscribed = frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """A consumer group whose subscription is unknown counts as subscribed to everything: its offsets are safe."""
        if self.subscribed is None:
            return self.is_consumer_group
        return topic in self.subscribed

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """What only the leader is told, to assign from."""
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # -- the log

    def stored(self, assignments: dict[str, bytes] | None = None) -> KeyValue:
        """The record of this generation; `assignments` in place of those the members have now."""
        protocol = self.protocol_name or ""
        return group_record(
            self.group_id,
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation_id,
                protocol=self.protocol_name,
                leader=self.leader_id,
                current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
                members=[
                    member.stored(
                        protocol,
                        member.assignment if assignments is None else assignments[member.member_id],
                    )
                    for member in self.members.values()
                ],
            ),
        )

    @classmethod
    def from_stored(cls, group_id: str, value: GroupMetadataValue) -> "Group":
        group = cls(
            group_id,
            generation_id=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            state_since_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
            state=GroupState.STABLE if value.members else GroupState.EMPTY,
        )
        for stored in value.members:
            group.add(Member.from_stored(stored, value.protocol_type, value.protocol or ""))
        if value.leader in group.members:
            group.leader_id = value.leader
        group.refresh_subscription()
        return group

    def revived(self, empty_since_ms: int | None) -> "Group":
        """The Empty group this Dead one was: its deletion did not reach the log. Ids given out stay given out."""
        assert self.state is GroupState.DEAD
        assert not self.members
        group = Group(
            self.group_id,
            state_since_ms=empty_since_ms,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            pending_join=self.pending_join,
        )
        group.refresh_subscription()
        return group

    def heartbeat_key(self, member_id: str) -> TimerKey:
        return TimerKey(TimerKind.HEARTBEAT, self.group_id, member_id)

    @property
    def join_key(self) -> TimerKey:
        return TimerKey(TimerKind.JOIN, self.group_id)

    @property
    def sync_key(self) -> TimerKey:
        return TimerKey(TimerKind.SYNC, self.group_id)

    def check_invariants(self) -> None:
        """For tests and simulation."""
        members = self.members.values()
        assert self._awaiting_joins == sum(m.awaiting_join is not None for m in members)
        assert +self._supporters == Counter(name for m in members for name, _ in m.protocols)
        assert self.static_members == {
            m.group_instance_id: m.member_id for m in members if m.group_instance_id is not None
        }
        assert all(member_id == m.member_id for member_id, m in self.members.items())
        assert (self.leader_id is None) == (not self.members) or self.state is GroupState.EMPTY
        assert self.leader_id is None or self.leader_id in self.members
        assert not self.pending_join.keys() & self.members.keys()
        assert self.pending_sync.keys() <= self.members.keys()
        if self.state is GroupState.EMPTY:
            assert not self.members
        if self.state is GroupState.STABLE:
            assert self.members
            assert self.protocol_name is not None
        if self.initial_join is not None:
            assert self.state is GroupState.PREPARING_REBALANCE
        for member in members:
            assert member.awaiting_join is None or member.awaiting_sync is None
