"""The attributes field of a batch header: two bytes of flags and a codec."""

from enum import IntEnum
from typing import Final


class Codec(IntEnum):
    """How the records of a batch are compressed (bits 0 to 2)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Whose clock a batch's timestamps come from (bit 3)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
# Set by the log cleaner: base_timestamp then holds the time at which tombstones may go (KIP-534).
DELETE_HORIZON_MASK: Final = 0x40
UNUSED_MASK: Final = 0xFF80

CODECS: Final = tuple(Codec)
