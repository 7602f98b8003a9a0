"""Names for the numbers that a log and a cluster are made of."""

import base64
import random
from functools import lru_cache
from typing import Final, NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
ProducerId = NewType("ProducerId", int)

NO_OFFSET: Final = Offset(-1)
NO_EPOCH: Final = LeaderEpoch(-1)
NO_LEADER: Final = BrokerId(-1)
NO_PRODUCER_ID: Final = ProducerId(-1)

ZERO_UUID: Final = UUID(int=0)
# Reserved by KIP-853: the topic id of __cluster_metadata.
METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_TOPIC: Final = "__cluster_metadata"

# Directory ids with a meaning of their own (KIP-858).
DIR_UNASSIGNED: Final = UUID(int=0)
DIR_LOST: Final = UUID(int=1)
DIR_MIGRATING: Final = UUID(int=2)
RESERVED_UUIDS: Final = frozenset(UUID(int=n) for n in range(100))


class TopicPartition(NamedTuple):
    """A partition by name; prints as Kafka does, ``orders-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by topic id: a topic made again under the same name is another topic."""

    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{uuid_to_text(self.topic_id)}:{self.partition}"


def uuid_to_text(value: UUID) -> str:
    """Kafka's form: URL-safe base64 of the 16 bytes, without padding (22 characters)."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


@lru_cache(maxsize=4096)
def uuid_from_bytes(raw: bytes) -> UUID:
    """The same object for the same id: ids of topics come in every request, and Python's UUID is slow to make and to
    compare.
    """
    return UUID(bytes=raw)


def uuid_from_text(text: str) -> UUID:
    """The inverse of `uuid_to_text`; ValueError names what is wrong."""
    if len(text) > 24:
        raise ValueError(f"{text!r} is too long for a Kafka uuid (22 base64 characters)")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise ValueError(f"{text!r} is not base64") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} holds {len(raw)} bytes, a uuid has 16")
    return uuid_from_bytes(raw)


def random_uuid(rng: random.Random) -> UUID:
    """A random version-4 id that is neither reserved nor starts with a dash in Kafka's text form."""
    while True:
        value = UUID(int=rng.getrandbits(128), version=4)
        # A leading '-' would read as an option on a command line (Kafka skips those too).
        if value not in RESERVED_UUIDS and not uuid_to_text(value).startswith("-"):
            return value
