"""`produce`: lines of standard input as records."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, example
from tidelog.cli.output import CommandFailed, bad_usage, note, print_json
from tidelog.cli.session import with_client

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.client.producer import Producer
    from tidelog.wire.records.plain import Record

ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_BATCH_BYTES: Final = 512 * 1024
_BATCHES_IN_FLIGHT: Final = 8
# How long a topic that the broker is just creating for us may take to appear.
_AUTO_CREATE_PATIENCE_S: Final = 5.0


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example("seq 1000 | tidelog produce orders", "echo alice:42 | tidelog produce orders --key-separator :")
    )(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    acks: Annotated[str, typer.Option("--acks", metavar="all|1|0", help="Whose word a record needs.")] = "all",
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", metavar="SEP", help="What stands before it is the key.")
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", metavar="|".join(CODECS), help="How batches are compressed.")
    ] = "none",
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Write to this one; else by key, or in turn.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Write each line of standard input as a record.

    With --acks all every line is written exactly once, in order per partition; the command fails when that cannot be
    said.
    """
    if acks not in ACKS:
        raise bad_usage(f"--acks is all, 1 or 0, not {acks!r}")
    if compression not in CODECS:
        raise bad_usage(f"--compression is one of {', '.join(CODECS)}, not {compression!r}")
    if key_separator == "":
        raise bad_usage("--key-separator is empty")

    async def work(client: "Client") -> int:
        from tidelog.cli.stdin import line_chunks
        from tidelog.client.producer import Producer
        from tidelog.wire.records.attributes import Codec

        partitions = await _partitions(client, topic)
        if partition is not None and partition >= partitions:
            raise bad_usage(f"{topic} has {partitions} partitions, numbered from 0")
        producer = Producer(client, acks=ACKS[acks], codec=Codec[compression.upper()])
        if sys.stdin.isatty():
            note("one record a line; ctrl-D ends")
        return await _Sender(producer, topic, partitions, partition, key_separator).run(line_chunks())

    count = with_client(bootstrap, work)
    if as_json:
        print_json({"topic": topic, "records": count})
    else:
        note(f"{count} records" + (" acknowledged" if acks != "0" else " sent"))


async def _partitions(client: "Client", topic: str) -> int:
    from tidelog.wire.errors import ApiError, ErrorCode

    loop = asyncio.get_running_loop()
    deadline = loop.time() + _AUTO_CREATE_PATIENCE_S
    while True:
        try:
            found = await client.topic(topic, allow_auto_create=True)
            if found.partitions:
                return len(found.partitions)
        except ApiError as error:
            waiting = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
            if error.code not in waiting or loop.time() > deadline:
                raise
        await asyncio.sleep(0.1)


class _Sender:
    """Groups lines by partition and keeps a bounded number of batches under way."""

    def __init__(
        self, producer: "Producer", topic: str, partitions: int, partition: int | None, key_separator: str | None
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._partition = partition
        self._separator = key_separator.encode() if key_separator is not None else None
        self._line_number = 0
        self._turn = 0

    async def run(self, chunks: AsyncIterator[list[bytes]]) -> int:
        """Sends everything and returns the number of records acknowledged."""
        sending: set[asyncio.Task[int]] = set()
        total = 0
        failure: CommandFailed | None = None
        async with asyncio.TaskGroup() as group:
            async for lines in chunks:
                try:
                    batches = self._batches(lines)
                except CommandFailed as error:
                    failure = error
                    break
                for partition, records in batches:
                    if len(sending) >= _BATCHES_IN_FLIGHT:
                        done, sending = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
                        total += sum(task.result() for task in done)
                    sending.add(group.create_task(self._send(partition, records)))
        if failure is not None:
            raise failure
        return total + sum(task.result() for task in sending)

    async def _send(self, partition: int, records: "list[Record]") -> int:
        await self._producer.send(self._topic, partition, records)
        return len(records)

    def _batches(self, lines: list[bytes]) -> "list[tuple[int, list[Record]]]":
        from tidelog.broker.clock import SystemWallClock
        from tidelog.client.partitioner import partition_for_key
        from tidelog.wire.records.plain import Record

        now_ms = SystemWallClock().now_ms()
        # Lines without a key go to one partition a chunk, as Kafka's sticky partitioner does: fewer, larger batches.
        keyless = self._turn % self._partitions
        self._turn += 1
        open_batches: dict[int, list[Record]] = {}
        sizes: dict[int, int] = {}
        full: list[tuple[int, list[Record]]] = []
        for line in lines:
            self._line_number += 1
            key, value = self._split(line)
            if self._partition is not None:
                partition = self._partition
            else:
                partition = keyless if key is None else partition_for_key(key, self._partitions)
            batch = open_batches.setdefault(partition, [])
            batch.append(Record(timestamp=now_ms, key=key, value=value))
            sizes[partition] = sizes.get(partition, 0) + len(line)
            if sizes[partition] >= _BATCH_BYTES:
                full.append((partition, open_batches.pop(partition)))
                sizes[partition] = 0
        return full + list(open_batches.items())

    def _split(self, line: bytes) -> tuple[bytes | None, bytes]:
        if self._separator is None:
            return None, line
        key, found, value = line.partition(self._separator)
        if not found:
            raise CommandFailed(f"line {self._line_number} has no {self._separator.decode()!r}: {line[:40]!r}")
        return key, value
