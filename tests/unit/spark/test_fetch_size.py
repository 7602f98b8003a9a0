"""S8: a fetch asks for what its range can need."""

import pytest

from tidelog.spark.fetch_size import FIRST_BYTES, LEAST_BYTES, FetchSize

MOST = 8 * 1024 * 1024


def read(offsets: int, batch_records: int, record_bytes: int, size: FetchSize) -> tuple[int, int]:
    """The bytes that a broker sends for a log of equal batches that goes on past the range, and the fetches."""
    batch = batch_records * record_bytes
    position = sent = fetches = 0
    while position < offsets:
        # At least one batch, and the last one cut off.
        answer = max(size.ask(offsets - position), batch)
        whole = answer // batch
        sent, fetches = sent + answer, fetches + 1
        size.received(whole * batch, whole * batch_records)
        position += whole * batch_records
    return sent, fetches


@pytest.mark.parametrize("record_bytes", [20, 100, 1000, 10_000])
@pytest.mark.parametrize("offsets", [1, 100, 10_000, 1_000_000])
def test_little_is_sent_beyond_the_range(offsets: int, record_bytes: int) -> None:
    batch_records = max(16_000 // record_bytes, 1)
    sent, _ = read(offsets, batch_records, record_bytes, FetchSize(MOST))
    needed = offsets * record_bytes
    assert sent <= 1.15 * needed + 2 * batch_records * record_bytes + FIRST_BYTES


def test_a_large_scan_soon_asks_for_all_it_may() -> None:
    _, fetches = read(10_000_000, 160, 100, FetchSize(MOST))
    assert fetches <= 10_000_000 * 100 // MOST + 8


def test_records_of_a_known_size_take_one_fetch() -> None:
    size = FetchSize(MOST)
    read(100, 10, 5000, size)
    again = FetchSize(MOST, size.bytes_per_offset)
    sent, fetches = read(100, 10, 5000, again)
    assert fetches == 1
    assert sent <= 1.1 * 100 * 5000


def test_a_fetch_has_bounds() -> None:
    assert FetchSize(MOST).ask(1) == LEAST_BYTES
    assert FetchSize(MOST).ask(10**9) == FIRST_BYTES
    assert FetchSize(1000).ask(10**9) == 1000
    assert FetchSize(MOST, 100.0).ask(10**9) == MOST


def test_an_answer_without_records_changes_nothing() -> None:
    size = FetchSize(MOST, 50.0)
    size.received(0, 10)
    assert size.bytes_per_offset == 50.0
