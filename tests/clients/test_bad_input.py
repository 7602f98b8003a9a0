"""Bad input against a running node: each is answered as it should, the node lives, and others do not notice."""

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.wire_client import WireClient

from tidelog.core.ids import ZERO_UUID
from tidelog.testing import Cluster
from tidelog.wire.codec import write_message
from tidelog.wire.errors import ErrorCode
from tidelog.wire.headers import write_request_header
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records.plain import Record, encode_batch
from tidelog.wire.registry import APIS
from tidelog.wire.varint import write_uvarint

PAGE = 4096
# What a node may grow by while a test throws things at it (buffers, compiled codecs), whatever they declare.
MAX_GROWTH_MB = 64
# Their answers are gigabytes.
MANY_REQUESTS = 500_000


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        running.create_topic("bystander")
        yield running


class Bystander(threading.Thread):
    """Another client that produces all the while, and counts what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="bystander")
        self._address = bootstrap
        self._stop_asked = threading.Event()
        self.acknowledged = 0
        self.first = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with WireClient(self._address) as client:
                while not self._stop_asked.is_set():
                    response = client.call(produce("bystander", batch(b"x")), 9)
                    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
                    self.acknowledged += 1
                    self.first.set()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self.error = error
            self.first.set()

    def finish(self) -> None:
        self._stop_asked.set()
        self.join(30)
        if self.error is not None:
            raise self.error


@pytest.fixture(autouse=True)
def others_keep_working(cluster: Cluster) -> Iterator[None]:
    pid = cluster.pid(1)
    assert pid is not None
    bystander = Bystander(cluster.bootstrap)
    bystander.start()
    assert bystander.first.wait(30)
    before, count = resident_mb(pid), bystander.acknowledged
    yield
    grown = resident_mb(pid) - before
    bystander.finish()
    assert bystander.acknowledged > count
    assert grown < MAX_GROWTH_MB, f"the node grew by {grown:.0f} MB"
    assert cluster.pid(1) == pid


def produce(topic: str, records: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, topic_id=ZERO_UUID, partition_data=[data])],
    )


def batch(*values: bytes) -> bytes:
    return encode_batch([Record(timestamp=1_700_000_000_000, key=None, value=value) for value in values])


def uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(struct.pack(">i", -1), id="negative length"),
        pytest.param(struct.pack(">i", -(2**31)), id="most negative length"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="length beyond every limit"),
        pytest.param(struct.pack(">i", 104857601), id="one more than socket.request.max.bytes"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="a TLS hello"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="an HTTP request"),
        pytest.param(struct.pack(">i", 0), id="an empty frame"),
        pytest.param(framed(b"\0"), id="a frame without room for a header"),
        pytest.param(framed(struct.pack(">hhih", 9999, 0, 1, -1)), id="an unknown API key"),
        pytest.param(framed(struct.pack(">hhih", -1, 0, 1, -1)), id="a negative API key"),
        pytest.param(framed(struct.pack(">hhih", 3, 0, 1, 500)), id="a client id longer than the request"),
        pytest.param(framed(struct.pack(">hhih", 3, 0, 1, -7)), id="a client id of negative length"),
        pytest.param(framed(struct.pack(">hhih", 3, 99, 1, -1)), id="Metadata at a version nobody has"),
        pytest.param(framed(struct.pack(">hhih", 3, -1, 1, -1)), id="Metadata at version -1"),
        pytest.param(framed(struct.pack(">hhih", 24, 0, 1, -1)), id="an API that is not served"),
        pytest.param(framed(write_request_header(3, 9, 1, "c") + b"\xff\xff\xff\xff\xff\xff"), id="an overlong varint"),
        pytest.param(
            framed(write_request_header(3, 9, 1, "c") + uvarint(2**32 - 1)), id="a count of 2^32-1 in 25 bytes"
        ),
        pytest.param(framed(write_request_header(3, 8, 1, "c") + struct.pack(">i", 2**31 - 1)), id="a count of 2^31-1"),
        pytest.param(
            framed(write_request_header(3, 8, 1, "c") + struct.pack(">ih", 1, 30000) + b"x"), id="a bad string length"
        ),
    ],
)
def test_closed(cluster: Cluster, raw: bytes) -> None:
    with WireClient(cluster.bootstrap) as client:
        client.socket.sendall(raw)
        client.assert_closed()


@pytest.mark.parametrize("key", sorted(APIS))
def test_huge_counts_in_every_api(cluster: Cluster, key: int) -> None:
    api = APIS[key]
    for version in {api.min_version, api.max_version}:
        header = write_request_header(key, version, 1, "c")
        for count in (2**20, 2**31 - 1, 2**32 - 1):
            length = uvarint(count) if api.flexible(version) else struct.pack(">I", count)
            for filler in (0, 1, 2, 6):
                with WireClient(cluster.bootstrap) as client:
                    client.socket.sendall(framed(header + b"\0" * filler + length + b"\0" * 16))
                    # Closed, or answered when the count happened to land in a number: never hung, never grown.
                    client.socket.shutdown(socket.SHUT_WR)
                    while client.socket.recv(65536):
                        continue


@pytest.mark.parametrize("version", [9, 12])
def test_a_million_entries_and_a_million_tags(cluster: Cluster, version: int) -> None:
    header = write_request_header(3, version, 1, "c")
    entry = (b"\0" * 16 if version >= 10 else b"") + uvarint(1) + b"\0"
    with WireClient(cluster.bootstrap) as client:
        client.socket.sendall(framed(header + uvarint(1_000_001) + entry * 1_000_000 + b"\0\0\0"))
        client.assert_closed()
    body = write_message(MetadataRequest(topics=None), version)[:-1]
    with WireClient(cluster.bootstrap) as client:
        client.socket.sendall(framed(header + body + uvarint(1_000_000) + (uvarint(99) + b"\0") * 1_000_000))
        client.assert_closed()


def test_newer_api_versions_are_answered_in_v0_and_the_connection_is_kept(cluster: Cluster) -> None:
    with WireClient(cluster.bootstrap) as client:
        client.socket.sendall(framed(struct.pack(">hhih", 18, 99, 7, 1) + b"c" + b"\0future"))
        frame = client.receive_frame()
        assert struct.unpack_from(">i", frame)[0] == 7
        error, count = struct.unpack_from(">hi", frame, 4)
        assert error == ErrorCode.UNSUPPORTED_VERSION
        assert count >= 1
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        again: ApiVersionsResponse = client.call(request, 4)
        assert again.error_code == ErrorCode.NONE


def test_trailing_bytes_and_odd_client_ids_are_accepted(cluster: Cluster) -> None:
    header = struct.pack(">hhih", 3, 9, 1, 4) + b"\xff\xfe\xfa!" + b"\0"
    body = write_message(MetadataRequest(topics=[]), 9)
    with WireClient(cluster.bootstrap) as client:
        client.socket.sendall(framed(header + body + b"trailing"))
        assert struct.unpack_from(">i", client.receive_frame())[0] == 1


def rejected(cluster: Cluster, records: bytes) -> int:
    with WireClient(cluster.bootstrap) as client:
        answer = client.call(produce("bystander", records), 9).responses[0].partition_responses[0]
        return int(answer.error_code)


@pytest.mark.rule("P5")
def test_records_no_client_may_send(cluster: Cluster) -> None:
    control = bytearray(batch(b"x"))
    assert rejected(cluster, batch(b"x") + batch(b"y")) == ErrorCode.INVALID_RECORD
    struct.pack_into(">h", control, 21, 0x20)
    assert rejected(cluster, _sealed(control)) == ErrorCode.INVALID_RECORD
    counted = bytearray(batch(b"x", b"y"))
    struct.pack_into(">i", counted, 57, 5)
    assert rejected(cluster, _sealed(counted)) == ErrorCode.INVALID_RECORD
    assert rejected(cluster, batch(b"x" * 2_000_000)) == ErrorCode.MESSAGE_TOO_LARGE


def _sealed(records: bytearray) -> bytes:
    """With the CRC made right again."""
    from crc32c import crc32c

    struct.pack_into(">I", records, 17, crc32c(bytes(records[21:])))
    return bytes(records)


def test_a_client_that_sends_one_byte_and_waits_holds_nobody_up(cluster: Cluster) -> None:
    idle = [WireClient(cluster.bootstrap) for _ in range(50)]
    try:
        for client in idle:
            client.socket.sendall(b"\0")
        with WireClient(cluster.bootstrap) as client:
            assert client.call(MetadataRequest(topics=[]), 9).cluster_id
    finally:
        for client in idle:
            client.socket.close()


def test_a_client_that_never_reads_is_not_buffered_for(cluster: Cluster) -> None:
    """The kernel's buffers take some megabytes and the node a bounded number; then it stops reading."""
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    body = write_message(DescribeConfigsRequest(resources=[resource], include_documentation=True), 4)
    frame = framed(write_request_header(32, 4, 1, "c") + body)
    with WireClient(cluster.bootstrap) as client:
        client.socket.settimeout(2.0)
        with pytest.raises(TimeoutError):
            for _ in range(MANY_REQUESTS // 1000):
                client.socket.sendall(frame * 1000)
