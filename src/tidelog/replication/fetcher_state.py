"""One partition that is followed, and what an answer led to."""

from dataclasses import dataclass, field
from typing import Final

from tidelog.core.event import Event
from tidelog.core.ids import LeaderEpoch, TopicIdPartition
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Follower
from tidelog.wire.messages.fetch import FetchPartition

# The timestamps of ListOffsets that ask for the end and the start of a log.
LATEST: Final = -1
EARLIEST: Final = -2


@dataclass(slots=True)
class Followed:
    """The fetch offset is not kept here: it **is** the log's end offset (F2)."""

    partition: Partition
    leader_epoch: LeaderEpoch
    # Not asked for before then, after `failures` in a row.
    ready_at_s: float = 0.0
    failures: int = 0
    # What to ask ListOffsets for, after an offset that was out of range; nothing is fetched meanwhile.
    asks_for: int | None = None
    # The leader's high watermark, unclamped, as last heard.
    leader_high_watermark: int | None = None
    key: TopicIdPartition = field(init=False)

    def __post_init__(self) -> None:
        self.key = TopicIdPartition(self.partition.topic_id, self.partition.topic_partition.partition)

    def is_current(self) -> bool:
        """Whether the partition still has the role it is followed for, and a log to write to."""
        role, log = self.partition.role, self.partition.log
        return (
            isinstance(role, Follower)
            and role.epoch == self.leader_epoch
            and not log.abandoned
            and log.directory.online
        )

    def still_asks(self, asked: FetchPartition) -> bool:
        """Whether an answer to `asked` is about the log as it is now."""
        log = self.partition.log
        return (
            self.is_current()
            and self.asks_for is None
            and asked.current_leader_epoch == self.leader_epoch
            and asked.fetch_offset == log.log_end_offset
            and asked.last_fetched_epoch == log.latest_epoch
        )

    def cut_below(self, old_log_start: int) -> None:
        """After a cut: if it went below where the log began, nothing is left, and the leader tells where to begin."""
        if self.partition.log.log_start_offset < old_log_start:
            self.asks_for = EARLIEST

    def heard(self, leader_high_watermark: int) -> None:
        self.leader_high_watermark = leader_high_watermark

    @property
    def lag(self) -> int:
        return max(0, (self.leader_high_watermark or 0) - self.partition.log.log_end_offset)

    @property
    def is_caught_up(self) -> bool:
        return self.leader_high_watermark is not None and self.lag == 0


@dataclass(slots=True)
class Outcome:
    """For the shell: what to tell and whom to wake."""

    events: list[Event] = field(default_factory=list)
    # One line each, of answers that could not be used.
    problems: list[str] = field(default_factory=list)
    high_watermark_moved: list[Partition] = field(default_factory=list)
    # Those that got about as much as one answer holds for a partition, and lack more.
    filled: list[Followed] = field(default_factory=list)
    bytes_appended: int = 0

    def add(self, event: Event | None) -> None:
        if event is not None:
            self.events.append(event)
