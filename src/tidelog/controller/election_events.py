"""What an operator is told of elections (rules C6, O2)."""

from collections.abc import Iterable

from tidelog.controller.elections import Change
from tidelog.core.events import Event, LeaderElected
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.metadata.records import LEADER_UNCHANGED


def election_events(changes: Iterable[Change], reason: str) -> list[Event]:
    """One line for every partition whose leader changes."""
    events: list[Event] = []
    for each in changes:
        if each.record.leader == LEADER_UNCHANGED:
            continue
        isr = each.record.isr
        events.append(
            LeaderElected(
                topic=each.topic.name,
                partition=each.index,
                leader=each.record.leader,
                leader_epoch=each.before.leader_epoch + 1,
                isr=each.before.isr if isr is None else tuple(isr),
                unclean=each.record.leader_recovery_state == LeaderRecoveryState.RECOVERING,
                reason=reason,
            )
        )
    return events
