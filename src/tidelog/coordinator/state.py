"""What one shard holds: the groups and offsets of one partition of `__consumer_offsets`."""

import random
from dataclasses import dataclass, field

from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.group import Group, GroupState
from tidelog.coordinator.offset_store import OffsetStore


@dataclass(slots=True)
class CoordinatorState:
    """Mutated by the deciding functions beside it, and only inside a `GroupShard`."""

    config: GroupCoordinatorConfig
    rng: random.Random
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: OffsetStore = field(default_factory=OffsetStore)

    def drop_if_forgotten(self, group: Group) -> None:
        """Forgets a group the log does not know either (a client took a member id and never came back)."""
        if (
            group.state is GroupState.EMPTY
            and not group.pending_join
            and group.generation_id == 0
            and not self.offsets.has_group(group.group_id)
        ):
            del self.groups[group.group_id]
