"""`audit`: checks every batch of every replica and compares replicas, on Spark."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.files import check_writable
from tidelog.cli.jobs import Html, Master, fail_with, on_spark, write_page
from tidelog.cli.options import DEFAULT_BOOTSTRAP, CommandConfig, Internal, Json, example, legal_topics
from tidelog.cli.output import CommandFailed, bad_usage, note, print_json, print_table
from tidelog.cli.session import security_properties, with_client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.client.client import Client
    from tidelog.jobs.audit.compare import Audit


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog audit --data tidelog-data",
            "tidelog audit --data node-1/data node-2/data node-3/data --html audit.html",
            "tidelog audit --bootstrap localhost:9092 --topic orders --json",
        )
    )(audit)


def audit(
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="DIR...", help="Directory of a cluster, or log directories of its nodes."),
    ] = None,
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR", show_default=False, help="Further directories, after --data.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            metavar="HOST:PORT[,…]",
            help=f"Ask running brokers instead. [env var: TIDELOG_BOOTSTRAP; default: {DEFAULT_BOOTSTRAP}]",
        ),
    ] = None,
    command_config: CommandConfig = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="Audit only this topic; may be repeated.", callback=legal_topics),
    ] = None,
    records: Annotated[
        bool, typer.Option("--records/--no-records", help="Read the records of each batch, or only the batch headers.")
    ] = True,
    internal: Internal = False,
    master: Master = None,
    html: Html = None,
    as_json: Json = False,
) -> None:
    """Check every batch of every replica and compare replicas below the high watermark.

    --data reads the disks of a running or stopped cluster: CRCs, offsets, epochs, records and indexes.
    --bootstrap reads every replica, leader or follower, from its broker.

    Clean partitions of internal topics are one row, and not listed in --json, unless --internal or --topic is given.

    The status is 1 if replicas differ or data is damaged; the first difference of each partition is printed. It is also
    1 if a replica could not be read, because the audit is incomplete.
    """
    directories = [*(data or ()), *(more or ())]
    if more and not data:
        raise bad_usage("directories need --data before them")
    if directories and bootstrap is not None:
        raise bad_usage("give --data or --bootstrap, not both")
    if directories and command_config is not None and not _from_environment(command_config):
        raise bad_usage("--command-config needs --bootstrap: --data connects to no broker")
    security = security_properties(None if directories else command_config)
    brokers = bootstrap or os.environ.get("TIDELOG_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    # Before Spark has started: that takes seconds.
    check_writable(html)
    if directories:
        _check(directories)
    else:
        _check_topics(brokers, topic or (), command_config)

    def work(spark: "SparkSession") -> "Audit":
        from tidelog.jobs.audit.job import audit_cluster, audit_directories
        from tidelog.jobs.audit.layout import NoLogs

        if directories:
            try:
                return audit_directories(spark, directories, topics=topic or (), reads_records=records)
            except NoLogs as error:
                raise CommandFailed(str(error)) from error
        return audit_cluster(spark, brokers, topics=topic or (), reads_records=records, security=security)

    found = on_spark("tidelog audit", master, work, "auditing the replicas")
    if not (internal or topic):
        found.fold_internal()
    from tidelog.jobs.audit.report import page_of, summary

    if as_json:
        print_json(found.as_dict())
    else:
        _print(found)
    fail_with(summary(found), "" if html is None else write_page(html, page_of(found)))


def _from_environment(command_config: Path) -> bool:
    """Whether the path comes from the variable, which is for all commands and may not suit this one."""
    return str(command_config) == os.environ.get("TIDELOG_COMMAND_CONFIG")


def _check(directories: list[Path]) -> None:
    from tidelog.jobs.audit.layout import NoLogs, log_directories

    try:
        log_directories(directories)
    except NoLogs as error:
        raise CommandFailed(str(error)) from error


def _check_topics(brokers: str, topics: Sequence[str], command_config: Path | None) -> None:
    async def ask(client: "Client") -> None:
        await client.refresh([])
        for name in topics:
            await client.topic(name)

    with_client(brokers, ask, command_config)


def _print(found: "Audit") -> None:
    from tidelog.jobs.audit.report import not_read, offsets, rows_of, where

    print_table(
        ["PARTITION", "NODES", "FROM", "TO", "BATCHES", "RECORDS", "BYTES", "VERDICT"],
        rows_of(found),
    )
    for each in found.partitions:
        if each.first is not None:
            first = each.first
            print(f"\n{each.topic}-{each.partition} offsets {offsets(first)}: {first.what}\n  {where(first)}")
    for replica in found.unread:
        print(f"\n{not_read(replica)}")
    for line in found.notes:
        note(f"note: {line}")
