"""A server that only reads frames and acknowledges: the limit that a client can reach against any broker.

Speaks just enough for a producer (ApiVersions, Metadata, InitProducerId, Produce) and stores nothing.

    python -m benchmarks.null_server PORT
"""

import asyncio
import struct
import sys
from typing import Any, cast
from uuid import UUID

import uvloop

from tidelog.wire.codec import encode_frame, read_message
from tidelog.wire.headers import read_request_header, write_response_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

SERVED = {0: (0, 11), 3: (0, 12), 18: (0, 3), 22: (0, 4)}
READ_SIZE = 1 << 20


class NullConnection(asyncio.BufferedProtocol):
    """Frames in, acknowledgements out."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._buffer = bytearray(READ_SIZE)
        self._filled = 0
        self._offsets: dict[int, int] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._filled == len(self._buffer):
            self._buffer += bytes(len(self._buffer))
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        view = memoryview(self._buffer)
        start = 0
        while self._filled - start >= 4:
            (size,) = struct.unpack_from(">i", view, start)
            if self._filled - start - 4 < size:
                break
            self._serve(view[start + 4 : start + 4 + size])
            start += 4 + size
        left = self._filled - start
        view.release()
        if start:
            self._buffer[:left] = self._buffer[start : self._filled]
            self._filled = left

    def _serve(self, frame: memoryview) -> None:
        header = read_request_header(frame)
        response = self._answer(header.api_key, header.api_version, frame, header.body_position)
        pieces = encode_frame(
            response,
            header.api_version,
            write_response_header(header.api_key, header.api_version, header.correlation_id),
        )
        self._transport.writelines(pieces)

    def _answer(self, key: int, version: int, frame: memoryview, position: int) -> Any:
        if key == 18:
            return ApiVersionsResponse(
                api_keys=[ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in SERVED.items()]
            )
        if key == 22:
            return InitProducerIdResponse(producer_id=1, producer_epoch=0)
        if key == 3:
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self._port)],
                cluster_id="null",
                controller_id=1,
                topics=[
                    MetadataResponseTopic(
                        name="bench",
                        topic_id=UUID(int=12345),
                        partitions=[
                            MetadataResponsePartition(
                                partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
                            )
                        ],
                    )
                ],
            )
        request = read_message(ProduceRequest, version, frame, position=position)
        answers = []
        for data in request.topic_data[0].partition_data:
            records = data.records
            assert records is not None
            (last_delta,) = struct.unpack_from(">i", records, 23)
            offset = self._offsets.get(data.index, 0)
            self._offsets[data.index] = offset + last_delta + 1
            answers.append(PartitionProduceResponse(index=data.index, base_offset=offset))
        return ProduceResponse(responses=[TopicProduceResponse(name="bench", partition_responses=answers)])


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: NullConnection(port), "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
