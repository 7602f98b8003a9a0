"""What was seen while the demo ran, a few times a second: for the terminal at once, for the report in the end."""

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
    """Something that happened, in a word for pictures and in a sentence."""

    at_s: float
    word: str
    text: str


@dataclass(slots=True)
class Journal:
    """Looks, and what happened between them."""

    looks: list[Look] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    async def keep(self, observer: ReplicaObserver, score: Score, since_s: float, show: Callable[[Look], None]) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                views = await observer.look()
            except (ApiError, ClientError):
                # Nobody could be asked at this moment: the last look stays on the screen.
                views = None
            if views is not None:
                look = Look(at_s=loop.time() - since_s, acknowledged=score.total, partitions=tuple(views))
                self.looks.append(look)
                show(look)
            await asyncio.sleep(_LOOK_S)
