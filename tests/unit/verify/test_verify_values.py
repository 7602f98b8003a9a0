"""The records of the workload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.verify.values import (
    FOREIGN,
    MAX_PRODUCERS,
    MIN_RECORD_BYTES,
    code_of,
    decode,
    encode,
    from_words,
    producer_of,
    sequence_of,
    words,
)


@given(st.integers(0, MAX_PRODUCERS - 1), st.integers(0, 999), st.integers(0, 2**40 - 1), st.integers(0, 500))
def test_a_value_comes_back(producer: int, partition: int, sequence: int, size: int) -> None:
    value = encode(producer, partition, sequence, size)
    code = decode(value, partition)
    assert (producer_of(code), sequence_of(code)) == (producer, sequence)
    assert code == code_of(producer, sequence) == from_words(words(code))
    assert len(value) == size or size < MIN_RECORD_BYTES


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"hello",
        b"1.2|",
        b"1.2.3",
        b"1.3.4|....",
        b"1.2.-3|....",
        b"1.2.3|..x.",
        b"1.2.3|....\x00",
        b"99999.2.3|",
        b"1.2.%d|" % 2**40,
    ],
)
def test_what_is_not_a_whole_value_of_that_partition_is_foreign(value: bytes | None) -> None:
    assert decode(value, 2) == FOREIGN
    assert from_words(words(FOREIGN)) == FOREIGN
