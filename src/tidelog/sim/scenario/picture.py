"""The replicas of one log at one moment, the same for every world: whoever draws a story needs nothing else."""

from dataclasses import dataclass
from typing import NamedTuple


class Entry(NamedTuple):
    """One record."""

    offset: int
    epoch: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The log as one replica has it. `high_watermark` is None while the replica knows of none."""

    epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """`copy` is None where there is nothing to look into: the process is down. `more` goes with `Picture.columns`."""

    node_id: int
    role: str
    leads: bool = False
    copy: Copy | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """`columns` are the names of what a world adds; `more` of every replica that is there is as long."""

    name: str
    title: str
    columns: tuple[str, ...]
    replicas: tuple[Replica, ...]
