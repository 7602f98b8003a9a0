"""Snapshots of the topic while the demo runs, ten times a second: for the terminal at once, for the report later."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.cli.demo.writing import Score
from tidelog.client.errors import ClientError
from tidelog.client.replicas import PartitionView, ReplicaObserver
from tidelog.wire.errors import ApiError

_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The topic at one moment."""

    at_s: float
    acknowledged: int
    partitions: tuple[PartitionView, ...]

    @property
    def committed(self) -> int:
        """The high watermarks of all partitions, added up."""
        return sum(max((each.high_watermark or 0 for each in view.replicas), default=0) for view in self.partitions)

    @property
    def smallest_isr(self) -> int:
        return min((len(view.isr) for view in self.partitions), default=0)


class Event(NamedTuple):
    """Something that happened, in a sentence."""

    at_s: float
    text: str


@dataclass(slots=True, kw_only=True)
class Outage:
    """A node that was killed: without a process until `started_s`, out of sync until `in_sync_s`."""

    node: int
    killed_s: float
    started_s: float
    in_sync_s: float


@dataclass(slots=True)
class Journal:
    """What was seen, and what happened. Times are seconds after `began_s`, which is in seconds of the event loop."""

    looks: list[Look] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    began_s: float = 0.0

    async def keep(self, observer: ReplicaObserver, score: Score, show: Callable[[Look], None]) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                views = await observer.look()
            except (ApiError, ClientError):
                # No broker answers at this moment: the last snapshot stays on the screen.
                views = None
            if views is not None:
                look = Look(at_s=loop.time() - self.began_s, acknowledged=score.total, partitions=tuple(views))
                self.looks.append(look)
                show(look)
            await asyncio.sleep(_LOOK_S)
