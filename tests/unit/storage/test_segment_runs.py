"""A run of batches is accounted for as each of them alone would be."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage.memory import MemoryDisk
from tidelog.storage.segment import Segment
from tidelog.wire.records.batch import LOG_OVERHEAD, BatchHeader

# Size, offsets it spans, hole before it, timestamp.
batches = st.tuples(st.integers(61, 6000), st.integers(1, 20), st.integers(0, 3), st.integers(-1, 50))


def headers(found: list[tuple[int, int, int, int]], first: int) -> list[tuple[int, BatchHeader]]:
    made, position, offset = [], 0, first
    for size, span, hole, timestamp in found:
        offset += hole
        header = BatchHeader(offset, size - LOG_OVERHEAD, 0, 2, 0, 0, span - 1, timestamp, timestamp, -1, -1, -1, span)
        made.append((position, header))
        position += size
        offset += span
    return made


def state(segment: Segment) -> tuple[object, ...]:
    indexes = (segment.offset_index, segment.time_index)
    return (
        segment.size,
        segment.bytes_since_index_entry,
        segment.max_timestamp,
        segment.offset_of_max_timestamp,
        segment.first_timestamp(),
        [[index.entry(number) for number in range(index.entries)] for index in indexes],
        [index.last for index in indexes],
    )


@given(st.lists(st.lists(batches, min_size=1, max_size=40), max_size=6), st.integers(0, 9000))
def test_a_run_is_as_its_batches(runs: list[list[tuple[int, int, int, int]]], interval: int) -> None:
    disk = MemoryDisk()
    segments = []
    for name in ("/each", "/runs"):
        disk.make_dirs(name)
        segments.append(Segment.create(disk, name, 100, 0))
    one_by_one, at_once = segments
    end = 100
    for run in runs:
        made = headers(run, end)
        end = made[-1][1].next_offset
        for _, header in made:
            one_by_one.note_batch(
                header.base_offset, header.last_offset, header.size_in_bytes, header.max_timestamp, interval
            )
        at_once.note_batches(made, interval)
        assert state(at_once) == state(one_by_one)
        # What is known of the end is where the last batches stand.
        last = made[-1][1]
        assert at_once.position_of(last.base_offset) == one_by_one.position_of(last.base_offset)
    for segment in segments:
        segment.offset_index.flush()
        segment.time_index.flush()
    written = [
        [segment.disk.read_bytes(index.path) for index in (segment.offset_index, segment.time_index) if index.entries]
        for segment in segments
    ]
    assert written[0] == written[1]
