"""The records of the workload: each is unique, and says where it belongs.

`3.7.1042|....`: producer 3's record 1042 for partition 7, filled up to its size. A history keeps one integer for it.
"""

from typing import Final

_SEQUENCE_BITS: Final = 40
_SEQUENCE_MASK: Final = (1 << _SEQUENCE_BITS) - 1
_END: Final = b"|"
_FILL: Final = b"."
# What stands for a record that no producer of this run wrote to that partition, or that is damaged.
FOREIGN: Final = -1
MAX_PRODUCERS: Final = 1 << 16
MIN_RECORD_BYTES: Final = 40


def code_of(producer: int, sequence: int) -> int:
    """The integer that stands for a value; with its partition it is unique in a history."""
    return producer << _SEQUENCE_BITS | sequence


def producer_of(code: int) -> int:
    return code >> _SEQUENCE_BITS


def sequence_of(code: int) -> int:
    return code & _SEQUENCE_MASK


def words(code: int) -> str:
    """A value as people and history files read it."""
    return "foreign" if code == FOREIGN else f"{producer_of(code)}:{sequence_of(code)}"


def from_words(text: str) -> int:
    if text == "foreign":
        return FOREIGN
    producer, _, sequence = text.partition(":")
    return code_of(int(producer), int(sequence))


def encode(producer: int, partition: int, sequence: int, size: int) -> bytes:
    """The bytes of a record's value."""
    return (b"%d.%d.%d|" % (producer, partition, sequence)).ljust(size, _FILL)


def decode(value: bytes | None, partition: int) -> int:
    """The code of a value read from `partition`; FOREIGN when it cannot be one of that partition's, whole."""
    if value is None:
        return FOREIGN
    head, end, fill = value.partition(_END)
    numbers = head.split(b".")
    if not end or len(numbers) != 3 or fill.count(_FILL) != len(fill):
        return FOREIGN
    if not all(number.isdigit() for number in numbers):
        return FOREIGN
    producer, home, sequence = map(int, numbers)
    if home != partition or producer >= MAX_PRODUCERS or sequence > _SEQUENCE_MASK:
        return FOREIGN
    return code_of(producer, sequence)
