"""Where a query begins or ends, as the user said it: to be looked up when the partitions are known."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidelog.core.ids import TopicPartition
from tidelog.spark.offsets import StreamOffsets

# In place of an offset.
LATEST: Final = -1
EARLIEST: Final = -2


class NoMatch(Enum):
    """What to do about a beginning that is later than every record of a partition."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Earliest:
    """Where each log begins."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Where each log ends."""


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset for every partition that is read; -1 is latest, -2 earliest."""

    offsets: StreamOffsets


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
    """The first record at or after a time, for every partition that is read."""

    timestamps: Mapping[TopicPartition, int]
    no_match: NoMatch


@dataclass(frozen=True, slots=True)
class Timestamp:
    """The same time for all."""

    timestamp: int
    no_match: NoMatch


Point = Earliest | Latest | SpecificOffsets | SpecificTimestamps | Timestamp
