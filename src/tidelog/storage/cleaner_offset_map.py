"""Key -> the newest offset seen with it, for one cleaning; bounded by `log.cleaner.dedupe.buffer.size`."""

from hashlib import blake2b
from typing import Final

# What a key costs: its digest, the offset, their place in the dict, and the dict's room to grow (measured).
BYTES_PER_KEY: Final = 176
_DIGEST_BYTES: Final = 16
NOT_FOUND: Final = -1


class OffsetMap:
    """Keys are kept as digests, so that long ones cost no more. Invariant: it holds the keys of every batch of the
    dirty section up to `latest_offset`, each with its newest offset.
    """

    __slots__ = ("_offsets", "latest_offset", "max_keys")

    def __init__(self, buffer_bytes: int, load_factor: float) -> None:
        self.max_keys = max(1, int(buffer_bytes / BYTES_PER_KEY * load_factor))
        self.latest_offset = NOT_FOUND
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Asked before each batch: one batch may exceed the bound, so that every cleaning gets ahead."""
        return len(self._offsets) >= self.max_keys

    def put(self, key: bytes, offset: int) -> None:
        """Offsets come in ascending order: a later one is newer."""
        self._offsets[_digest(key)] = offset

    def newest(self, key: bytes) -> int:
        """The newest offset with that key, NOT_FOUND if the dirty section has none."""
        return self._offsets.get(_digest(key), NOT_FOUND)


def _digest(key: bytes) -> bytes:
    # Not MD5 as Kafka's: a client that can make two keys collide could delete another's records.
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
