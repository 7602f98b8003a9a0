"""One record at a time, acks=all: the time from send to acknowledgement, without a client library in between."""

import socket
import struct
import time

from tidelog.wire.codec import encode_frame, read_message
from tidelog.wire.errors import ErrorCode
from tidelog.wire.headers import read_response_header, write_request_header
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records.plain import Record, encode_batch

VERSION = 9


class NotAcknowledged(ConnectionError):
    """The broker answered, and the answer is a refusal: not what is measured."""


def _check_acknowledged(answer: bytes) -> None:
    if not answer:
        raise ConnectionError("the broker closed the connection")
    (size,) = struct.unpack_from(">i", answer, 0)
    assert size + 4 == len(answer)
    frame = memoryview(answer)[4:]
    _, position = read_response_header(0, VERSION, frame)
    response = read_message(ProduceResponse, VERSION, frame, position=position)
    code = response.responses[0].partition_responses[0].error_code
    if code != ErrorCode.NONE:
        raise NotAcknowledged(ErrorCode(code).name)


def round_trips_ms(bootstrap: str, topic: str, count: int) -> list[float]:
    """Milliseconds of each of `count` single-record produces, sorted."""
    host, port = bootstrap.rsplit(":", 1)
    batch = encode_batch([Record(offset=0, timestamp=1_700_000_000_000, key=None, value=b"x" * 100, headers=())])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])],
    )
    frame = b"".join(encode_frame(request, VERSION, write_request_header(0, VERSION, 1, "bench")))
    taken = []
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            started = time.perf_counter()  # noqa: TID251 - measuring is what this is for
            connection.sendall(frame)
            answer = connection.recv(65536)
            taken.append((time.perf_counter() - started) * 1000)  # noqa: TID251
            _check_acknowledged(answer)
    return sorted(taken)
