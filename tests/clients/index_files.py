"""Kafka's `.index` and `.timeindex` files, checked entry by entry against the batches of their segment."""

import struct
from dataclasses import dataclass
from pathlib import Path

HEADER = struct.Struct(">qiibIhiqq")
OFFSET_ENTRY = struct.Struct(">II")
TIME_ENTRY = struct.Struct(">qI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    position: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def batches_of(log: Path) -> list[Batch]:
    """Every batch header of a segment; the file must end with a whole batch."""
    data = log.read_bytes()
    batches: list[Batch] = []
    position = 0
    while position < len(data):
        base, length, _, _, _, _, last_delta, _, newest = HEADER.unpack_from(data, position)
        assert length > 0, f"{log.name}: no batch at {position}"
        batches.append(Batch(position=position, base_offset=base, last_offset=base + last_delta, max_timestamp=newest))
        position += 12 + length
    assert position == len(data), f"{log.name} ends inside a batch"
    return batches


def entries_of(path: Path, entry: struct.Struct) -> list[tuple[int, int]]:
    """The entries that are in use: the file of an active segment may be larger than what it holds."""
    found: list[tuple[int, int]] = []
    for first, second in entry.iter_unpack(path.read_bytes()):
        if (first, second) == (0, 0) and found:
            break
        if found and (first, second) < found[-1]:
            raise AssertionError(f"{path.name}: {(first, second)} after {found[-1]}")
        found.append((first, second))
    return [] if found == [(0, 0)] else found


def check_segment(log: Path) -> int:
    """Both indexes of a segment against its batches; how many entries were there to check."""
    base = int(log.stem)
    batches = batches_of(log)
    at = {batch.position: batch for batch in batches}
    offsets = entries_of(log.with_suffix(".index"), OFFSET_ENTRY)
    for relative, position in offsets:
        batch = at.get(position)
        assert batch is not None, f"{log.stem}.index points at {position}, where no batch begins"
        assert batch.base_offset <= base + relative <= batch.last_offset, (relative, position, batch)

    times = entries_of(log.with_suffix(".timeindex"), TIME_ENTRY)
    for timestamp, relative in times:
        offset = base + relative
        reached = [batch.max_timestamp for batch in batches if batch.base_offset <= offset]
        assert reached, f"{log.stem}.timeindex names offset {offset}, which is not in the segment"
        assert max(reached) == timestamp, (timestamp, relative, max(reached))
    return len(offsets) + len(times)


def check_partition(directory: Path) -> int:
    """All segments of a partition, and that each begins where the one before ends."""
    segments = sorted(directory.glob("*.log"))
    assert segments, f"no segment in {directory}"
    expected: int | None = None
    checked = 0
    for log in segments:
        batches = batches_of(log)
        for batch in batches:
            assert expected is None or batch.base_offset == expected, (log.name, batch, expected)
            expected = batch.last_offset + 1
        checked += check_segment(log)
    return checked
