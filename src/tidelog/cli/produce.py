"""`produce`: lines of standard input as records."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Quiet, Topic, example
from tidelog.cli.output import bad_usage, counted, note, progress, report_change
from tidelog.cli.partitions import check_creatable, check_partition, created_partitions, partitions_if_exists
from tidelog.cli.session import with_client

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.wire.records.plain import Record

ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example("seq 1000 | tidelog produce orders", "echo alice:42 | tidelog produce orders --key-separator :")
    )(produce)


def produce(
    topic: Topic,
    acks: Annotated[
        str,
        typer.Option(
            "--acks",
            metavar="all|1|0",
            help="Acknowledgements that a record needs: of all in-sync replicas, of the leader, or none.",
        ),
    ] = "all",
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", metavar="SEP", help="Text between key and value of a line. [default: lines have no key]"
        ),
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", metavar="|".join(CODECS), help="Compression of batches.")
    ] = "none",
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Partition to write to. [default: by key, or in turn]")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Retry a batch for this long, in seconds.")
    ] = 120.0,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Write each line of standard input as a record.

    With --acks all, each line is written exactly once, and in order within a partition. If that is not certain, the
    command fails. Lines that were acknowledged before a failure stay in the topic.
    """
    if acks not in ACKS:
        raise bad_usage(f"--acks is all, 1 or 0, not {acks!r}")
    if compression not in CODECS:
        raise bad_usage(f"--compression is one of {', '.join(CODECS)}, not {compression!r}")
    if key_separator == "":
        raise bad_usage("--key-separator is empty")

    async def work(client: "Client") -> int:
        from tidelog.cli.line_sender import LineSender, check_sizes
        from tidelog.cli.stdin import line_chunks
        from tidelog.client.producer import Producer
        from tidelog.wire.records.attributes import Codec

        known = await partitions_if_exists(client, topic)
        limit: int | None = None
        if known is None:
            limit = await check_creatable(client, topic, partition)
        else:
            check_partition(topic, partition, known)

        codec = Codec[compression.upper()]

        async def count_partitions(first: "list[Record]") -> int:
            if known is not None:
                return len(known)
            # Without a line, and for lines that the new topic would refuse, no topic is created.
            check_sizes(first, codec, limit)
            return len(await created_partitions(client, topic))

        producer = Producer(client, acks=ACKS[acks], codec=codec, delivery_timeout_s=timeout)
        by_hand = sys.stdin.isatty()
        if by_hand:
            note("type one record per line; ctrl-D ends")

        def on_acknowledged(so_far: int) -> None:
            if not (by_hand or as_json or quiet):
                progress(counted(so_far, "record"))

        sender = LineSender(
            producer,
            topic,
            partition,
            key_separator,
            count_partitions=count_partitions,
            on_acknowledged=on_acknowledged,
        )
        return await sender.run(line_chunks())

    try:
        count = with_client(bootstrap, work, command_config)
    finally:
        if not (as_json or quiet):
            progress("")
    # Without acks a broker confirms nothing.
    words = f"{counted(count, 'record')} {'sent' if acks == '0' else 'written'} to {topic}"
    report_change(words, quiet=quiet, as_json=as_json, topic=topic, records=count)
