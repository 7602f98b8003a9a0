"""The members of a quorum as they are drawn."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tidelog.core.ids import METADATA_TOPIC
from tidelog.quorum.metadata_log import LogBatch
from tidelog.sim.scenario.picture import Copy, Entry, Picture, Replica
from tidelog.sim.scenario.quorum.member import Member
from tidelog.sim.scenario.quorum.observer import Facts, facts_of, role_of

COLUMNS: Final = ("VOTED FOR", "VOTERS", "SNAPSHOT")


def picture(members: Iterable[Member]) -> Picture:
    return Picture(
        name=f"{METADATA_TOPIC}-0",
        title="the log of the quorum",
        columns=COLUMNS,
        replicas=tuple(_replica(member) for member in members),
    )


def _replica(member: Member) -> Replica:
    facts = facts_of(member)
    if facts is None:
        return Replica(node_id=member.id, role="down")
    copy = Copy(
        epoch=facts.epoch,
        log_start_offset=facts.log_start,
        log_end_offset=facts.log_end,
        high_watermark=facts.high_watermark if facts.high_watermark >= 0 else None,
        entries=tuple(_entries(member, facts)),
    )
    voted = facts.stored.voted
    return Replica(
        node_id=member.id,
        role=role_of(facts),
        leads=facts.role == "leader",
        copy=copy,
        more=(
            # What is on stable storage, which is the only vote there is.
            "" if voted is None else f"{voted.id} in {facts.stored.epoch}",
            ",".join(map(str, facts.voters)),
            "" if facts.snapshot is None else f"{facts.snapshot[0]}@{facts.snapshot[1]}",
        ),
    )


def _entries(member: Member, facts: Facts) -> Iterator[Entry]:
    for batch, content in member.batches(facts.log_start, facts.log_end):
        for offset, value in enumerate(words(content), batch.base_offset):
            yield Entry(offset, batch.epoch, value)


def words(content: LogBatch) -> Sequence[str]:
    """The records of a batch: what the quorum's user wrote, or what the quorum says about itself."""
    names = [type(each).__name__.removesuffix("Message").removesuffix("Record") for each in content.control]
    return [*(value.decode() for value in content.values), *names]
