"""A TCP proxy in front of one broker that cuts connections at the worst moments, from a seed.

The broker's address in its answers is replaced by the proxy's, so that a client never gets around it.
"""

import asyncio
import random
import struct
from types import TracebackType
from typing import Self

from tests.clients.loop_thread import LoopThread

HOST = "127.0.0.1"
CHUNK = 64 * 1024
MAX_FRAME = 100 * 1024 * 1024
# Per answer: how often it is lost after the broker has done the work (which is what makes producers send twice),
# and how often it arrives in half. Per piece of a request: how often only half of it gets through.
LOSE_ANSWER = 0.06
HALF_ANSWER = 0.02
HALF_REQUEST = 0.02


class CuttingProxy:
    def __init__(self, bootstrap: str, seed: int) -> None:
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self._broker = (host, int(port))
        self._rng = random.Random(seed)
        self._cutting = True
        self._thread = LoopThread()
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.cuts = 0
        self.connections = 0
        self.answered_bytes = 0
        self._server = self._thread.run(asyncio.start_server(self._serve, HOST, 0))
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.bootstrap = f"{HOST}:{self.port}"

    def stop_cutting(self) -> None:
        """From here on everything passes: a producer may finish what it has."""
        self._cutting = False

    def _happens(self, probability: float) -> bool:
        if self._cutting and self._rng.random() < probability:
            self.cuts += 1
            return True
        return False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._broker)
        except OSError:  # the broker is down: so is the proxy's connection
            writer.transport.abort()
            del self._open[task]
            return
        pumps = {
            asyncio.create_task(self._requests(reader, up_writer)),
            asyncio.create_task(self._answers(up_reader, writer)),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            writer.transport.abort()
            up_writer.transport.abort()
            del self._open[task]

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            cut = self._happens(HALF_REQUEST)
            writer.write(data[: len(data) // 2] if cut else data)
            await writer.drain()
            if cut:
                return

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        real = self._broker[0].encode() + struct.pack(">i", self._broker[1])
        ours = self._broker[0].encode() + struct.pack(">i", self.port)
        while True:
            size = await reader.readexactly(4)
            assert struct.unpack(">i", size)[0] <= MAX_FRAME
            frame = size + (await reader.readexactly(struct.unpack(">i", size)[0])).replace(real, ours)
            if self._happens(LOSE_ANSWER):
                return
            cut = self._happens(HALF_ANSWER)
            self.answered_bytes += len(frame)
            writer.write(frame[: len(frame) // 2] if cut else frame)
            await writer.drain()
            if cut:
                return

    def close(self) -> None:
        async def shut() -> None:
            self._server.close()
            for writer in self._open.values():
                writer.transport.abort()
            await asyncio.gather(*self._open, return_exceptions=True)

        self._thread.run(shut())
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
