"""The snapshot file: Kafka's bytes, our extension behind them, and damage of every kind."""

import random
import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage.producer_entry import BatchMetadata, ProducerEntry
from tidelog.storage.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot

int32 = st.integers(-1, 2**31 - 1)
int64 = st.integers(-1, 2**63 - 1)
offsets = st.integers(0, 2**63 - 1)
batches = st.lists(st.builds(BatchMetadata, int32, offsets, int32, int64), max_size=5)


@st.composite
def entries(draw: st.DrawFn) -> ProducerEntry:
    remembered = draw(batches)
    return ProducerEntry(
        draw(st.integers(0, 2**63 - 1)),
        draw(st.integers(0, 2**15 - 1)),
        coordinator_epoch=draw(int32),
        last_timestamp=draw(int64),
        last_seen_ms=draw(int64),
        current_txn_first_offset=draw(st.none() | offsets),
        batches=tuple(remembered),
    )


def fields(entry: ProducerEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, name) for name in ProducerEntry.__slots__)


def sealed(body: bytes, version: int = 1) -> bytes:
    return struct.pack(">hI", version, crc32c(body)) + body


@given(known=st.lists(entries(), max_size=6))
def test_everything_comes_back(known: list[ProducerEntry]) -> None:
    assert [fields(entry) for entry in decode_snapshot(encode_snapshot(known))] == [fields(e) for e in known]


def test_the_layout_is_kafkas() -> None:
    entry = ProducerEntry(
        77,
        3,
        coordinator_epoch=9,
        last_timestamp=1234,
        last_seen_ms=5678,
        current_txn_first_offset=40,
        batches=(BatchMetadata(10, 100, 2, 1000), BatchMetadata(14, 104, 3, 1234)),
    )
    data = encode_snapshot([entry])
    assert struct.unpack_from(">h", data) == (1,)
    assert struct.unpack_from(">I", data, 2) == (crc32c(data[6:]),)
    assert struct.unpack_from(">i", data, 6) == (1,)
    assert struct.unpack_from(">qhiqiqiq", data, 10) == (77, 3, 14, 104, 3, 1234, 9, 40)


def test_a_snapshot_of_kafkas_own_is_read() -> None:
    body = struct.pack(">i", 2)
    body += struct.pack(">qhiqiqiq", 5, 1, 9, 99, 4, 777, 2, -1)
    body += struct.pack(">qhiqiqiq", 6, 0, -1, -1, 0, 888, 0, 50)
    first, second = decode_snapshot(sealed(body))
    assert (first.producer_id, first.producer_epoch, first.coordinator_epoch) == (5, 1, 2)
    assert first.batches == [BatchMetadata(9, 99, 4, 777)]
    assert first.batches[0].first_sequence == 5
    assert first.current_txn_first_offset is None
    assert first.last_seen_ms == 777
    assert second.batches == []
    assert second.current_txn_first_offset == 50


GOOD = encode_snapshot(
    [ProducerEntry(1, 0, batches=(BatchMetadata(0, 0, 0, 0), BatchMetadata(1, 1, 0, 0)))],
)
BODY = GOOD[6:]
DAMAGED = {
    "empty": b"",
    "short": GOOD[:9],
    "version 0": sealed(BODY, 0),
    "version 2": sealed(BODY, 2),
    "cut": GOOD[:-1],
    "flipped": GOOD[:20] + bytes([GOOD[20] ^ 1]) + GOOD[21:],
    "zeros": bytes(len(GOOD)),
    "more producers than bytes": sealed(struct.pack(">i", 2**31 - 1) + BODY[4:]),
    "negative count": sealed(struct.pack(">i", -1) + BODY[4:]),
    "unknown extension": sealed(BODY[:50] + b"????" + BODY[54:]),
    "extension cut": sealed(BODY[:-1]),
    "extension cut in an entry": sealed(BODY[:56]),
    "too many batches": sealed(BODY[:62] + b"\x06" + BODY[63:]),
    "negative batches": sealed(BODY[:62] + b"\xff" + BODY[63:]),
    "bytes at the end": sealed(BODY + b"?"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_found(name: str) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(DAMAGED[name])


@given(seed=st.integers(0, 2**32))
def test_fuzz_only_corrupt_snapshot_leaves(seed: int) -> None:
    rng = random.Random(seed)
    body = bytearray(BODY)
    for _ in range(rng.randint(1, 4)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    try:
        decode_snapshot(sealed(bytes(body[: rng.randint(0, len(body))])))
    except CorruptSnapshot:
        return
