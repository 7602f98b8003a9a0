"""`consume`: records to standard output."""

import base64
import json
import select
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Json,
    Topic,
    example,
    legal_group,
    whole_number,
)
from tidelog.cli.output import bad_usage, counted, note, note_if_slow
from tidelog.cli.partitions import check_partition, partitions_of
from tidelog.cli.session import with_client

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.client.consumer import Consumed, Consumer
    from tidelog.core.ids import TopicPartition

ISOLATIONS: Final = ("read_uncommitted", "read_committed")


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog consume orders --from-beginning --max 10",
            "tidelog consume orders --group billing --json",
            "tidelog consume orders --partition 0 --offset 42",
        )
    )(consume)


def consume(
    topic: Topic,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the earliest record. [default: only new records]")
    ] = False,
    maximum: Annotated[int | None, typer.Option("--max", metavar="N", min=1, help="Stop after N records.")] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="G",
            help="Read as a member of this consumer group, and commit offsets.",
            callback=legal_group,
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Read only this partition. [default: all partitions]")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset", metavar="O", help="First offset to read: a number, earliest or latest; needs --partition."
        ),
    ] = None,
    isolation: Annotated[
        str,
        typer.Option(
            "--isolation",
            metavar="|".join(ISOLATIONS),
            help="Whether records of open and aborted transactions are read too.",
        ),
    ] = "read_uncommitted",
    timeout_ms: Annotated[
        int | None, typer.Option("--timeout-ms", min=1, help="Stop after this many milliseconds without a record.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", metavar="SEP", help="Print each key, followed by SEP, before its value."),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Print the records of a topic, one value per line; with --json one object per line.

    An object has the key, value, offset, timestamp and headers.
    """
    from tidelog.client.offsets import EARLIEST, LATEST

    if isolation not in ISOLATIONS:
        raise bad_usage(f"--isolation is {' or '.join(ISOLATIONS)}, not {isolation!r}")
    if offset is not None and partition is None:
        raise bad_usage("--offset needs --partition")
    if offset is not None and from_beginning:
        raise bad_usage("--from-beginning and --offset contradict each other")
    if as_json and key_separator is not None:
        raise bad_usage("--json prints keys already: leave out --key-separator")
    if group is not None and (partition is not None or offset is not None):
        raise bad_usage("a group assigns partitions itself: leave out --partition and --offset, or --group")
    start = _start(offset, EARLIEST if from_beginning else LATEST)
    printer = _Printer(maximum, as_json, key_separator)

    async def work(client: "Client") -> None:
        from tidelog.client.consumer import Consumer
        from tidelog.client.offsets import IsolationLevel

        await client.topic(topic)
        consumer = Consumer(client, isolation=IsolationLevel[isolation.upper()])
        if group is not None:
            await _as_member(client, consumer, group, topic, start, printer, timeout_ms)
        else:
            consumer.assign(await _positions(client, topic, partition, start))
            await _read(consumer, printer, timeout_ms)

    with_client(bootstrap, work, command_config)
    note(counted(printer.count, "record"))


def _start(offset: str | None, default: int) -> int:
    """An offset, or the negative number that ListOffsets knows an end of the log by."""
    from tidelog.client.offsets import EARLIEST, LATEST

    if offset is None:
        return default
    if offset in ("earliest", "latest"):
        return EARLIEST if offset == "earliest" else LATEST
    number = whole_number(offset)
    if number is None:
        raise bad_usage(f"--offset is a number, earliest or latest, not {offset!r}")
    return number


async def _positions(client: "Client", topic: str, partition: int | None, start: int) -> "dict[TopicPartition, int]":
    from tidelog.client.offsets import list_offsets
    from tidelog.core.ids import TopicPartition

    known = await partitions_of(client, topic)
    check_partition(topic, partition, known)
    wanted = [TopicPartition(topic, number) for number in (known if partition is None else [partition])]
    if start >= 0:
        return dict.fromkeys(wanted, start)
    found = await list_offsets(client, dict.fromkeys(wanted, start))
    return {tp: found[tp].offset for tp in wanted}


async def _read(consumer: "Consumer", printer: "_Printer", timeout_ms: int | None) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    last = loop.time()
    while not printer.full:
        if printer.print(await consumer.poll()):
            last = loop.time()
        elif timeout_ms is not None and (loop.time() - last) * 1000 >= timeout_ms:
            return


async def _as_member(
    client: "Client",
    consumer: "Consumer",
    group: str,
    topic: str,
    start: int,
    printer: "_Printer",
    timeout_ms: int | None,
) -> None:
    import asyncio

    from tidelog.client.group_member import GroupMember

    member = GroupMember(client, group, [topic])
    loop = asyncio.get_running_loop()
    last = loop.time()
    try:
        # This note says more than the one about a slow answer: a new group waits for further members.
        client.on_slow = None
        with note_if_slow(f"waiting for group {group} to assign partitions"):
            await _take_over(client, consumer, member, start)
        while not printer.full:
            if member.rejoin_needed.is_set():
                await _take_over(client, consumer, member, start)
            if not consumer.positions:
                # More members than partitions: nothing to read until another member leaves.
                await asyncio.sleep(0.2)
                records: list[Consumed] = []
            else:
                records = await consumer.poll()
            # Commit after printing: a command that ends between the two skips no record.
            printed = printer.print(records)
            if printed:
                last = loop.time()
                await member.commit(_after(printed))
            elif timeout_ms is not None and (loop.time() - last) * 1000 >= timeout_ms:
                return
    finally:
        await member.leave()


async def _take_over(client: "Client", consumer: "Consumer", member: Any, start: int) -> None:
    """Joins, and continues at the committed offsets; partitions without one are read from `start`."""
    from tidelog.client.groups import committed_offsets
    from tidelog.client.offsets import list_offsets

    assigned = await member.join()
    committed = await committed_offsets(client, member.group)
    new = [tp for tp in assigned if tp not in committed]
    found = await list_offsets(client, dict.fromkeys(new, start)) if new else {}
    if new:
        # As Kafka's consumers do: the group has an offset, even if it reads no record before we leave.
        await member.commit({tp: found[tp].offset for tp in new})
    consumer.assign({tp: committed[tp].offset if tp in committed else found[tp].offset for tp in assigned})


def _after(printed: "list[Consumed]") -> "dict[TopicPartition, int]":
    return {consumed.tp: consumed.record.offset + 1 for consumed in printed}


class _Printer:
    """Writes records as bytes, at most as many as asked for."""

    def __init__(self, maximum: int | None, as_json: bool, key_separator: str | None) -> None:
        self.count = 0
        self._maximum = maximum
        self._as_json = as_json
        self._separator = key_separator.encode() if key_separator is not None else None

    @property
    def full(self) -> bool:
        return self._maximum is not None and self.count >= self._maximum

    def print(self, records: "list[Consumed]") -> "list[Consumed]":
        """Prints what still fits and returns it."""
        if self._maximum is not None:
            records = records[: self._maximum - self.count]
        if records:
            out = b"".join(self._line(consumed) for consumed in records)
            sys.stdout.buffer.write(out)
            sys.stdout.buffer.flush()
            self.count += len(records)
        elif self._reader_is_gone():
            raise BrokenPipeError
        return records

    @staticmethod
    def _reader_is_gone() -> bool:
        """Whether the reader of our output (`head`) has exited: without new records no write reports it."""
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))

    def _line(self, consumed: "Consumed") -> bytes:
        record = consumed.record
        if self._as_json:
            return json.dumps(_as_json(consumed)).encode() + b"\n"
        value = b"null" if record.value is None else record.value
        if self._separator is None:
            return value + b"\n"
        return (b"null" if record.key is None else record.key) + self._separator + value + b"\n"


def _as_json(consumed: "Consumed") -> dict[str, Any]:
    record = consumed.record
    return {
        "topic": consumed.tp.topic,
        "partition": consumed.tp.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }


def _text(data: bytes | None) -> str | dict[str, str] | None:
    """Text where it is text; other bytes as base64, marked so."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}
