"""Batches that are not what they say, under a CRC that fits, and whether kernel and twin agree on them."""

import pytest
from tests.unit.kernel.twin import guarded, kernel_rows, twin_rows

from tidelog.kernel import CorruptBatch
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, iter_headers, read_header, seal, write_header
from tidelog.wire.records.compression import compress
from tidelog.wire.records.varints import write_varint

END = 2**63 - 1


def varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def resealed(batch: bytes, payload: bytes, **changes: int) -> bytes:
    """Another payload and other header fields: what a broken or hostile producer sends."""
    header = read_header(batch)
    packed = compress(header.codec, payload)
    header = header._replace(batch_length=BATCH_OVERHEAD - LOG_OVERHEAD + len(packed), **changes)
    buffer = bytearray(BATCH_OVERHEAD) + packed
    write_header(buffer, header)
    seal(buffer, header)
    return bytes(buffer)


def refused_or_same(log: bytes) -> str:
    """Both give the same rows, or both refuse, and the kernel names a batch that is there. Says which it was."""
    try:
        expected = twin_rows(log, 0, END)
    except WireError:
        with pytest.raises(CorruptBatch) as refused:
            kernel_rows(guarded(log), 0, END, max_rows=16)
        offsets = [header.base_offset for _, header in iter_headers(log, partial_tail=True)]
        assert refused.value.base_offset in offsets
        assert f"the batch at offset {refused.value.base_offset}:" in str(refused.value)
        return "refused"
    assert kernel_rows(guarded(log), 0, END, max_rows=16) == expected
    return "same"
