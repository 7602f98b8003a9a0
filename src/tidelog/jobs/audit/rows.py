"""One row per batch of a replica, and one for everything that is wrong with it: what the tasks of an audit give."""

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """What a row is about."""

    BATCH = "batch"
    # Wrong below the high watermark.
    PROBLEM = "problem"
    # The same above it, where a log may end in anything: recovery cuts it.
    TAIL = "tail"
    # Retention was faster than we: nothing can be said about these offsets.
    GONE = "gone"
    # The broker could not be asked any more: nothing can be said of this replica from here on.
    UNREAD = "unread"


class AuditRow(NamedTuple):
    """Field for field a column of the table."""

    topic: str
    partition: int
    node: int
    kind: str
    # A file, or the address of a broker.
    place: str
    # In the file; -1 over the wire.
    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    size: int
    records: int
    what: str


TYPES: Final = {
    "topic": "string",
    "partition": "int",
    "node": "int",
    "kind": "string",
    "place": "string",
    "position": "long",
    "base_offset": "long",
    "last_offset": "long",
    "leader_epoch": "int",
    "crc": "long",
    "size": "int",
    "records": "int",
    "what": "string",
}
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
# In replication none of them ever changes; a CRC stands for all bytes behind it.
COMPARED: Final = ("last_offset", "leader_epoch", "crc", "size", "records")
