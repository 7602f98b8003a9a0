"""`bench`: how fast a cluster writes and reads records."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, example
from tidelog.cli.output import CommandFailed, bad_usage, note, print_json, print_table
from tidelog.cli.session import client_security, cluster_errors, with_client

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.verify.speed import Speed


def register(app: typer.Typer) -> None:
    app.command(epilog=example("tidelog bench", "tidelog bench --brokers 3 --records 1000000 --size 1000"))(bench)


def bench(
    records: Annotated[int, typer.Option("--records", min=1, help="Number of records to write and read.")] = 200_000,
    size: Annotated[
        int, typer.Option("--size", metavar="BYTES", min=1, max=1_000_000, help="Size of each record, in bytes.")
    ] = 100,
    acks: Annotated[
        str,
        typer.Option(
            "--acks",
            metavar="all|1|0",
            help="Acknowledgements that a record needs: of all in-sync replicas, of the leader, or none.",
        ),
    ] = "all",
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers",
            min=1,
            max=99,
            help="Measure a temporary cluster with this many brokers. [default: the cluster of --bootstrap]",
        ),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Measure a cluster with librdkafka: latency of single records, and throughput of writing and reading.

    The records go to a new topic with one partition, which is deleted at the end. `make bench` in a checkout measures
    more, beside the limits of the machine.
    """
    if acks not in ("all", "1", "0"):
        raise bad_usage(f"--acks is all, 1 or 0, not {acks!r}")
    if brokers is None:
        speed = _measure(bootstrap, command_config, records, size, acks)
    else:
        from tidelog.testing import Cluster

        def on_its_own() -> "Speed":
            with Cluster(brokers) as cluster:
                return _measure(cluster.bootstrap, None, records, size, acks)

        speed = cluster_errors(on_its_own)
    if as_json:
        print_json(asdict(speed))
        return
    print_table(
        ["MEASURE", "VALUE", "UNIT"],
        [
            ["acknowledgement of one record, median", f"{speed.ack_p50_ms:.2f}", "ms"],
            ["acknowledgement of one record, 99 %", f"{speed.ack_p99_ms:.2f}", "ms"],
            ["written", f"{speed.produce_records_per_second:,.0f}", "records/s"],
            ["written", f"{speed.produce_mb_per_second:.1f}", "MB/s"],
            ["read", f"{speed.consume_records_per_second:,.0f}", "records/s"],
            ["read", f"{speed.consume_mb_per_second:.1f}", "MB/s"],
        ],
    )


def _measure(bootstrap: str, command_config: Path | None, records: int, size: int, acks: str) -> "Speed":
    import random

    from tidelog.client.topics import create_topic, delete_topic
    from tidelog.core.ids import random_uuid, uuid_to_text
    from tidelog.verify.speed import measure
    from tidelog.verify.workload import VerifyError

    topic = f"bench-{uuid_to_text(random_uuid(random.SystemRandom()))}"

    async def create(client: "Client") -> None:
        await create_topic(client, topic, partitions=1)

    async def delete(client: "Client") -> None:
        await delete_topic(client, topic)

    security = client_security(command_config)
    with_client(bootstrap, create, command_config)
    try:
        return measure(bootstrap, topic, records=records, record_bytes=size, acks=acks, on_step=note, security=security)
    except VerifyError as error:
        raise CommandFailed(str(error)) from error
    finally:
        with_client(bootstrap, delete, command_config)
