"""What an operator is told of elections (rules C6, O2)."""

from collections.abc import Iterable

from tidelog.controller.partition_drafts import Change
from tidelog.core.events import Event, LeaderElected, UncleanLeaderElected
from tidelog.metadata.image import PartitionRegistration
from tidelog.metadata.records import LEADER_UNCHANGED


def election_events(changes: Iterable[Change], reason: str) -> list[Event]:
    """One line for every partition whose leader changes."""
    events: list[Event] = []
    for each in changes:
        before = each.before
        if each.record.leader in (LEADER_UNCHANGED, before.leader):
            continue
        after = each.after
        kind = UncleanLeaderElected if each.unclean else LeaderElected
        events.append(
            kind(
                topic=each.topic.name,
                partition=each.index,
                old_leader=before.leader,
                leader=after.leader,
                leader_epoch=after.leader_epoch,
                old_isr=before.isr,
                isr=after.isr,
                elr=after.elr,
                unclean=each.unclean,
                reason=f"{reason}; {_lost(before)}" if each.unclean else reason,
            )
        )
    return events


def _lost(before: PartitionRegistration) -> str:
    """Which replicas may have had more records, by the metadata; the new leader logs the offsets."""
    complete = ",".join(map(str, (*before.isr, *before.elr))) or "none"
    last = ",".join(map(str, before.last_known_elr)) or "unknown"
    return (
        "unclean: acknowledged records that the new leader lacks are lost; "
        f"complete before: {complete}, last known leader: {last}, leader epoch {before.leader_epoch}"
    )
