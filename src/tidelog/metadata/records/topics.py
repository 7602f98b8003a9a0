"""Records about topics and their partitions."""

from typing import Final
from uuid import UUID as PyUuid

from tidelog.wire.schema import INT8, INT32, STRING, UUID, Array, f, message, struct

# In PartitionChangeRecord: fields that need a value of their own for "as before".
LEADER_UNCHANGED: Final = -2
RECOVERY_STATE_UNCHANGED: Final = -1


@message(api_key=2, versions="0-0", flexible="0+")
@struct
class TopicRecord:
    name: str = f(STRING)
    topic_id: PyUuid = f(UUID)


@message(api_key=3, versions="0-2", flexible="0+")
@struct
class PartitionRecord:
    """A partition as a whole; `directories` stands in the order of `replicas`."""

    partition_id: int = f(INT32, default=-1)
    topic_id: PyUuid = f(UUID)
    replicas: list[int] = f(Array(INT32))
    isr: list[int] = f(Array(INT32))
    removing_replicas: list[int] = f(Array(INT32))
    adding_replicas: list[int] = f(Array(INT32))
    leader: int = f(INT32, default=-1)
    leader_recovery_state: int = f(INT8, tag=0)
    leader_epoch: int = f(INT32, default=-1)
    partition_epoch: int = f(INT32, default=-1)
    directories: list[PyUuid] = f(Array(UUID), "1+")
    eligible_leader_replicas: list[int] | None = f(Array(INT32), "2+", nullable="2+", tag=1, default=None)
    last_known_elr: list[int] | None = f(Array(INT32), "2+", nullable="2+", tag=2, default=None)


@message(api_key=5, versions="0-2", flexible="0+")
@struct
class PartitionChangeRecord:
    """What of a partition changed; null (or the values named above) means as before."""

    partition_id: int = f(INT32, default=-1)
    topic_id: PyUuid = f(UUID)
    isr: list[int] | None = f(Array(INT32), nullable="0+", tag=0, default=None)
    leader: int = f(INT32, tag=1, default=LEADER_UNCHANGED)
    replicas: list[int] | None = f(Array(INT32), nullable="0+", tag=2, default=None)
    removing_replicas: list[int] | None = f(Array(INT32), nullable="0+", tag=3, default=None)
    adding_replicas: list[int] | None = f(Array(INT32), nullable="0+", tag=4, default=None)
    leader_recovery_state: int = f(INT8, tag=5, default=RECOVERY_STATE_UNCHANGED)
    directories: list[PyUuid] | None = f(Array(UUID), "1+", nullable="1+", tag=8, default=None)
    eligible_leader_replicas: list[int] | None = f(Array(INT32), "2+", nullable="2+", tag=6, default=None)
    last_known_elr: list[int] | None = f(Array(INT32), "2+", nullable="2+", tag=7, default=None)


@message(api_key=9, versions="0-0", flexible="0+")
@struct
class RemoveTopicRecord:
    """The topic goes, and with it its partitions and its configs."""

    topic_id: PyUuid = f(UUID)


@message(api_key=28, versions="0-0", flexible="0+")
@struct
class ClearElrRecord:
    """An empty name clears the ELR of every topic."""

    topic_name: str = f(STRING)
