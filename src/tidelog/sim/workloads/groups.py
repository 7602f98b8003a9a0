"""A consumer group while faults strike: what it committed, whoever goes on reads again."""

import asyncio
from collections.abc import Mapping
from typing import Final

from tidelog.client.client import Client
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError
from tidelog.client.group_member import GroupMember
from tidelog.client.groups import committed_offsets
from tidelog.coordinator.partitioning import partition_for
from tidelog.core.ids import TopicPartition
from tidelog.metadata.names import GROUP_OFFSETS_TOPIC
from tidelog.sim.checks.liveness import Unsettled
from tidelog.sim.trace import CLIENT
from tidelog.sim.workloads.office import TOPIC, Office, dismiss
from tidelog.wire.errors import ApiError, ErrorCode, WireError

GROUP: Final = "watchers"
MEMBERS: Final = 2
BACKOFF_S: Final = 0.2
COMMIT_S: Final = 1.0
LATE_S: Final = 60.0
"""How long a group may take to come about once faults are over."""
LATE_NAMES: Final = 20


class Group:
    """Members come and go; a commit that was acknowledged is never taken back."""

    def __init__(self, office: Office) -> None:
        self.commits = 0
        self._office = office
        self._tasks: list[asyncio.Task[None]] = []
        self._committed: dict[TopicPartition, int] = {}
        self._era = 0

    def begin(self) -> None:
        loop = self._office.cluster.loop
        self._tasks = [loop.create_task(self._belong(number), name=f"member {number}") for number in range(MEMBERS)]

    async def stop(self) -> None:
        await dismiss(self._tasks)

    async def check(self) -> None:
        """Once all is quiet: what was committed is still there, and every coordinator lets a new group join and commit.

        A group of its own for each: in the old one members that a fault took away are waited for.
        """
        async with self._office.client("group checker", retry_s=LATE_S) as client:
            era, before = self._offsets_era(), dict(self._committed)
            self._compare(before, await _offsets(client, GROUP), era)
            await asyncio.gather(*(self._join_late(client, group) for group in self._late_groups()))

    async def _join_late(self, client: Client, group: str) -> None:
        member = GroupMember(client, group, [TOPIC])
        what = "join"
        try:
            async with asyncio.timeout(LATE_S):
                assigned = dict.fromkeys(await member.join(), 1)
                what = "commit"
                while not await member.commit(assigned):
                    await member.join()
                what = "leave"
                await member.leave()
        except TimeoutError as error:
            raise Unsettled(f"no client could {what} the group {group} within {LATE_S:g} s") from error
        if len(assigned) != self._office.partitions:
            raise Unsettled(f"the only member of the group {group} was given {list(map(str, assigned))}")
        for tp, offset in (await _offsets(client, group)).items():
            if offset != assigned.pop(tp):
                self._office.watch.on_commit_lost(self._stored(group), tp, 1, offset)
        for tp in assigned:
            self._office.watch.on_commit_lost(self._stored(group), tp, 1, 0)
        self._office.trace.record(CLIENT, "joined_late", group=group)

    def _late_groups(self) -> list[str]:
        """Names of groups, one for each partition of commits, and so for each coordinator there may be."""
        names = {self._stored(name): name for name in (f"late-{number}" for number in reversed(range(LATE_NAMES)))}
        return sorted(names.values())

    async def _belong(self, number: int) -> None:
        rng = self._office.rng(f"member {number}")
        while True:
            async with self._office.client(f"member {number}") as client:
                member = GroupMember(client, GROUP, [TOPIC])
                try:
                    async with asyncio.timeout(rng.uniform(5.0, 30.0)):
                        await self._work(client, member)
                except TimeoutError:
                    await member.leave()
                except (ApiError, ClientError, WireError) as error:
                    if isinstance(error, WireError) and not self._office.damaged():
                        raise
                    self._office.trace.record(CLIENT, "no_member", member=number, error=str(error)[:80])
                    await member.leave()
                await asyncio.sleep(rng.expovariate(1 / BACKOFF_S))

    async def _work(self, client: Client, member: GroupMember) -> None:
        while True:
            assigned = await member.join()
            era, before = self._offsets_era(), dict(self._committed)
            found = await _offsets(client, GROUP)
            self._compare(before, found, era)
            consumer = Consumer(client)
            consumer.assign({tp: found.get(tp, 0) for tp in assigned})
            while not member.rejoin_needed.is_set():
                try:
                    await consumer.poll()
                except ApiError as error:
                    if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                        raise
                    # Read before an unclean election, or from a leader that was not one any more.
                    consumer.assign(dict.fromkeys(assigned, 0))
                await self._commit(member, dict(consumer.positions))
                await asyncio.sleep(COMMIT_S)

    async def _commit(self, member: GroupMember, positions: Mapping[TopicPartition, int]) -> None:
        ahead = {tp: offset for tp, offset in positions.items() if offset > self._committed.get(tp, 0)}
        era = self._offsets_era()
        if ahead and await member.commit(ahead) and self._offsets_era() == era:
            self.commits += 1
            for tp, offset in ahead.items():
                self._office.trace.record(
                    CLIENT, "committed", group=GROUP, topic=tp.topic, partition=tp.partition, offset=offset
                )
                self._committed[tp] = max(offset, self._committed.get(tp, 0))

    def _compare(self, before: Mapping[TopicPartition, int], found: Mapping[TopicPartition, int], era: int) -> None:
        if self._offsets_era() != era:
            return
        for tp, offset in before.items():
            if found.get(tp, 0) < offset:
                self._office.watch.on_commit_lost(self._stored(GROUP), tp, offset, found.get(tp, 0))

    def _stored(self, group: str) -> TopicPartition:
        """Where the commits of a group stand."""
        topic = self._office.watch.image.topic(GROUP_OFFSETS_TOPIC)
        count = 1 if topic is None else len(topic.partitions)
        return TopicPartition(GROUP_OFFSETS_TOPIC, partition_for(group, count))

    def _offsets_era(self) -> int:
        """Changes when an unclean election may have lost commits; those remembered are then forgotten."""
        era = self._office.watch.era_of(self._stored(GROUP))
        if era != self._era:
            self._era = era
            self._committed.clear()
        return era


async def _offsets(client: Client, group: str) -> dict[TopicPartition, int]:
    return {tp: committed.offset for tp, committed in (await committed_offsets(client, group)).items()}
