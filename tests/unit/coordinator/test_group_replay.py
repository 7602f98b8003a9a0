"""Random lives of groups: replaying what was written gives what is served, and nothing acknowledged is lost."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from tests.soak import rounds
from tests.unit.coordinator.group_world import GroupWorld

from tidelog.coordinator.append_errors import NOTHING_APPENDED
from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.group import Group, GroupState
from tidelog.wire.errors import ErrorCode as E
from tidelog.wire.messages.leave_group import MemberIdentity

group_ids = st.sampled_from(["g", "h"])
instances = st.sampled_from([None, None, "i", "j"])
protocols = st.sampled_from(
    [(("range", b"1"),), (("range", b"2"), ("sticky", b"2")), (("sticky", b"3"), ("range", b""))]
)


def visible(group: Group) -> dict[str, Any]:
    """What a finished generation is made of."""
    return {
        "generation": group.generation_id,
        "protocol": (group.protocol_type, group.protocol_name),
        "leader": group.leader_id,
        "members": {
            member.member_id: (member.group_instance_id, member.assignment, member.session_timeout_ms)
            for member in group.members.values()
        },
    }


class GroupLife(RuleBasedStateMachine):
    """Every request may come at any time, and any append may fail."""

    joins = Bundle("joins")
    members = Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        config = GroupCoordinatorConfig(group_max_size=4, offsets_retention_minutes=1)
        self.world = GroupWorld(config, auto_commit=False)
        self.commits: dict[int, tuple[tuple[str, int], int]] = {}
        self.deletes: dict[int, tuple[str, int]] = {}
        self.acknowledged: dict[tuple[str, int], int] = {}

    @rule(target=joins, group=group_ids, instance=instances, protocols=protocols, version=st.sampled_from([3, 9]))
    def join_as_new(self, group: str, instance: str | None, protocols: Any, version: int) -> Any:
        token = self.world.join(group=group, instance=instance, protocols=protocols, version=version)
        return (group, instance, token)

    @rule(target=members, join=consumes(joins))
    def hear_of_the_join(self, join: tuple[str, str | None, int]) -> Any:
        group, instance, token = join
        response = self.world.responses.get(token)
        if response is None or not response.member_id:
            return multiple()
        return (group, instance, response.member_id)

    @rule(member=members, protocols=protocols)
    def rejoin(self, member: tuple[str, str | None, str], protocols: Any) -> None:
        group, instance, member_id = member
        self.world.join(member_id, group=group, instance=instance, protocols=protocols)

    @rule(target=members, group_id=group_ids)
    def all_go_through_a_rebalance(self, group_id: str) -> Any:
        """Random steps alone hardly ever finish a generation."""
        world = self.world
        world.advance(6_000)
        group = world.shard.groups.get(group_id)
        if group is None:
            return multiple()
        for member in list(group.members.values()):
            if member.awaiting_join is None:
                world.join(
                    member.member_id, group=group_id, instance=member.group_instance_id, protocols=member.protocols
                )
        known = [(group_id, member.group_instance_id, member.member_id) for member in group.members.values()]
        for member_of_group in known:
            self.sync(member_of_group)
        while world.appends:
            self.append_is_committed()
        return multiple(*known)

    @rule(member=members)
    def sync(self, member: tuple[str, str | None, str]) -> None:
        group_id, instance, member_id = member
        group = self.world.shard.groups.get(group_id)
        generation = 0 if group is None else group.generation_id
        assignments = {m: f"{generation}{m}".encode() for m in ([] if group is None else group.members)}
        self.world.sync(
            member_id,
            generation,
            assignments,
            group=group_id,
            instance=instance,
            version=4,
            protocol_type=None,
            protocol_name=None,
        )

    @rule(member=members)
    def heartbeat(self, member: tuple[str, str | None, str]) -> None:
        group_id, instance, member_id = member
        group = self.world.shard.groups.get(group_id)
        generation = 0 if group is None else group.generation_id
        self.world.heartbeat(member_id, generation, group=group_id, instance=instance)

    @rule(member=members)
    def leave(self, member: tuple[str, str | None, str]) -> None:
        group, instance, member_id = member
        self.world.leave(MemberIdentity(member_id=member_id, group_instance_id=instance), group=group)

    @rule(member=members, offset=st.integers(0, 1_000))
    def commit_as_member(self, member: tuple[str, str | None, str], offset: int) -> None:
        group_id, instance, member_id = member
        group = self.world.shard.groups.get(group_id)
        token = self.world.commit_offset(
            offset,
            member_id=member_id,
            generation=0 if group is None else group.generation_id,
            instance=instance,
            group=group_id,
        )
        self.commits[token] = ((group_id, 0), offset)

    @rule(group=group_ids, partition=st.integers(0, 2), offset=st.integers(0, 1_000))
    def commit_alone(self, group: str, partition: int, offset: int) -> None:
        token = self.world.commit_offset(offset, partition=partition, group=group)
        self.commits[token] = ((group, partition), offset)

    @rule(group=group_ids, partition=st.integers(0, 2))
    def delete_offset(self, group: str, partition: int) -> None:
        token = self.world.delete_offset(partition=partition, group=group)
        self.deletes[token] = (group, partition)

    @rule(group=group_ids)
    def delete_group(self, group: str) -> None:
        self.world.delete_groups(group)

    @rule(delay_ms=st.sampled_from([1, 3_000, 10_000, 60_000]))
    def let_time_pass(self, delay_ms: int) -> None:
        self.world.advance(delay_ms)

    @rule()
    def append_is_committed(self) -> None:
        if self.world.appends:
            self.world.commit()
            self._note_acknowledgements()

    @rule(error=st.sampled_from(sorted(NOTHING_APPENDED)))
    def append_fails(self, error: E) -> None:
        if self.world.appends:
            self.world.fail(error)
            self._note_acknowledgements()

    def _note_acknowledgements(self) -> None:
        """In the order of the tokens, which is that of the appends."""
        for token in sorted((self.commits.keys() | self.deletes.keys()) & self.world.responses.keys()):
            if token in self.commits:
                key, offset = self.commits.pop(token)
                if self.world.commit_error(token) is E.NONE:
                    self.acknowledged[key] = offset
            else:
                key = self.deletes.pop(token)
                if self.world.deleted_offset(token) == (E.NONE, E.NONE):
                    self.acknowledged.pop(key, None)

    @invariant()
    def replay_gives_what_is_served(self) -> None:
        replayed = self.world.reloaded().shard
        for group_id in ("g", "h"):
            live = self.world.shard.groups.get(group_id)
            if live is None or live.state is not GroupState.DEAD:
                assert dict(self.world.shard._state.offsets.topics(group_id)) == dict(
                    replayed._state.offsets.topics(group_id)
                )
            if live is not None and live.state is GroupState.STABLE and not self.world.appends:
                assert visible(live) == visible(replayed.groups[group_id])

    @invariant()
    def what_was_acknowledged_is_served(self) -> None:
        for (group_id, partition), offset in self.acknowledged.items():
            group = self.world.shard.groups.get(group_id)
            if group is None or group.state is GroupState.DEAD:
                continue
            value = self.world.shard._state.offsets.get(group_id, "t", partition)
            # Deleted or expired since, by records of their own; never another offset.
            assert value is None or value.offset == offset

    def teardown(self) -> None:
        """Whoever still waits is answered when the partition moves on."""
        self.world.do(self.world.shard.unload(self.world.now_ms))
        assert not self.world.shard.appends_in_flight
        unanswered = set(range(1, self.world.tokens + 1)) - self.world.responses.keys()
        assert not unanswered


TestGroupLife = pytest.mark.soak(GroupLife.TestCase)
TestGroupLife.settings = settings(
    max_examples=rounds(100, 1500), stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
