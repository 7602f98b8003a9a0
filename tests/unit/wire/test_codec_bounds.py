"""What a peer declares costs nothing: counts, lengths and tagged fields are measured before they are believed."""

import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.wire.codec import Limits, encode_frame, read_message, read_prefix, write_message
from tidelog.wire.errors import WireError
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.registry import APIS
from tidelog.wire.varint import read_uvarint, write_uvarint

HUGE_COUNTS = [2**20, 2**31 - 1, 2**31, 2**32 - 1]


def uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


@pytest.mark.parametrize("count", HUGE_COUNTS)
@pytest.mark.parametrize("key", sorted(APIS))
@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\1"])
def test_no_allocation_from_a_declared_count(key: int, count: int, filler: bytes) -> None:
    api = APIS[key]
    tracemalloc.start()
    try:
        for version in range(api.min_version, api.max_version + 1):
            for length in (struct.pack(">I", count), uvarint(count)):
                for prefix in range(12):
                    frame = filler * prefix + length + b"\0" * 8
                    _read_or_refuse(api.request, version, frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000  # compiled code of all versions, and nothing near a count


def _read_or_refuse(cls: type, version: int, frame: bytes) -> None:
    try:
        read_message(cls, version, frame)
    except WireError as error:
        assert cls.__name__ in str(error)


@pytest.mark.parametrize("version", [9, 12, 13])
def test_a_million_empty_entries_are_refused(version: int) -> None:
    entry = uvarint(1) + b"\0" if version < 10 else b"\0" * 16 + uvarint(1) + b"\0"
    frame = uvarint(1_000_001) + entry * 1_000_000 + b"\0\0\0"
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="too many array entries"):
            read_message(MetadataRequest, version, frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_entries_are_counted_over_the_whole_message() -> None:
    topics = [CreatableTopic(name="t", num_partitions=1) for _ in range(60)]
    for topic in topics:
        topic.assignments = []
    frame = write_message(CreateTopicsRequest(topics=topics), 7)
    assert len(read_message(CreateTopicsRequest, 7, frame, limits=Limits(max_elements=60)).topics) == 60
    with pytest.raises(WireError, match="too many array entries"):
        read_message(CreateTopicsRequest, 7, frame, limits=Limits(max_elements=59))


def test_a_million_tagged_fields_are_refused() -> None:
    body = write_message(MetadataRequest(topics=None), 12)[:-1]
    frame = body + uvarint(1_000_000) + (uvarint(99) + b"\0") * 1_000_000
    with pytest.raises(WireError, match="too many tagged fields"):
        read_message(MetadataRequest, 12, frame)


def test_unknown_tagged_fields_are_skipped() -> None:
    body = write_message(MetadataRequest(topics=[MetadataRequestTopic(name="a")]), 12)[:-1]
    frame = body + uvarint(1) + uvarint(77) + uvarint(3) + b"abc"
    request, end = read_prefix(MetadataRequest, 12, frame)
    assert request.topics is not None
    assert request.topics[0].name == "a"
    assert end == len(frame)


def test_trailing_bytes_are_ignored() -> None:
    frame = write_message(MetadataRequest(topics=None), 12) + b"more"
    assert read_message(MetadataRequest, 12, frame).topics is None


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x80\x00"])
def test_an_overlong_varint_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError, match="longer than five bytes"):
        read_uvarint(raw, 0)


@given(value=st.integers(0, 2**32 - 1))
def test_varints_round_trip(value: int) -> None:
    raw = uvarint(value)
    assert read_uvarint(raw, 0) == (value, len(raw))


@settings(max_examples=300)
@given(key=st.sampled_from(sorted(APIS)), data=st.data())
def test_any_bytes_are_read_or_refused(key: int, data: Any) -> None:
    api = APIS[key]
    version = data.draw(st.integers(api.min_version, api.max_version))
    _read_or_refuse(api.request, version, data.draw(st.binary(max_size=200)))


def test_records_are_not_copied_either_way() -> None:
    records = bytearray(b"r" * 5000)
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    pieces = encode_frame(request, 9, b"head")
    assert any(piece is records for piece in pieces)
    frame = bytearray(b"".join(pieces))
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    again = read_message(ProduceRequest, 9, memoryview(frame), position=8)
    view = again.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    frame[frame.index(b"rrr")] = ord("X")
    assert bytes(view[:3]) == b"Xrr"


def test_a_null_where_none_may_be_is_refused_on_write() -> None:
    response = FetchResponse()
    response.responses = None  # type: ignore[assignment]
    with pytest.raises(ValueError, match="responses may not be null"):
        write_message(response, 12)
