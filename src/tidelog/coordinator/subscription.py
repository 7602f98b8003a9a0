"""The topics inside a consumer's JoinGroup metadata: all the coordinator reads of what members tell each other.

The embedded protocol "consumer" starts, in every version, with an int16 version and an array of topic names.
"""

import struct
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics, or None when these bytes are not a consumer's (the group may be anything that calls itself so)."""
    try:
        (count,) = struct.unpack_from(">i", metadata, 2)
        position = 6
        topics: list[str] = []
        # A topic takes at least its length field, so a count the bytes cannot hold is refused before the loop.
        if count < 0 or count * 2 > len(metadata) - position:
            return None
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, position)
            position += 2
            name = metadata[position : position + length]
            if length < 0 or len(name) != length:
                return None
            topics.append(name.decode("utf-8"))
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
