"""`health`: replication health over time, from the events that brokers record, on Spark."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.files import check_writable
from tidelog.cli.jobs import Html, Master, fail_with, on_spark, write_page
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Internal, Json, example
from tidelog.cli.output import CommandFailed, note, print_json, print_table
from tidelog.cli.recording import records, switch_on
from tidelog.cli.session import security_properties, with_client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.client.client import Client
    from tidelog.jobs.health.model import Health


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog health --minutes 60 --html health.html",
            "tidelog configs alter --broker default --set tidelog.replication.events.enable=true",
        )
    )(health)


def health(
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0.01, help="Report the last so many minutes. [default: everything recorded]"),
    ] = None,
    window: Annotated[float, typer.Option("--window", min=1.0, help="Length of a window, in seconds.")] = 60.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    internal: Internal = False,
    master: Master = None,
    html: Html = None,
    as_json: Json = False,
) -> None:
    """Report replication health over time: ISR shrinks, leader moves, time under-replicated, stalls, lag percentiles.

    Brokers record events on the topic __replication_events while tidelog.replication.events.enable=true.
    `tidelog up` starts with recording on. The example switches it on in a cluster that runs without.

    Partitions of internal topics are one row, and `internal` in --json, unless --internal is given.
    """
    security = security_properties(command_config)
    # Before Spark has started: that takes seconds.
    check_writable(html)
    command = switch_on(bootstrap, command_config)
    is_recording = with_client(bootstrap, lambda client: _check_recorded(client, command), command_config)
    since_ms = None if minutes is None else _now_ms() - round(minutes * 60_000)

    def work(spark: "SparkSession") -> "Health":
        from tidelog.jobs.health.job import health as run
        from tidelog.jobs.health.job import read_events

        return run(read_events(spark, bootstrap, since_ms, security), window, since_ms)

    found = on_spark("tidelog health", master, work, "reading the replication events")
    if not found.events:
        raise CommandFailed(_nothing(minutes, "" if is_recording else command))
    from tidelog.jobs.health.report import HEADINGS, overview, page_of, rows_of

    if not is_recording:
        note(f"recording is off, the report ends where it was switched off; to switch it on: {command}")
    if not internal:
        found.fold_internal()
    if as_json:
        print_json(found.as_dict())
    else:
        print(overview(found))
        print_table([each.upper() for each in HEADINGS], rows_of(found))
    fail_with("" if html is None else write_page(html, page_of(found)))


async def _check_recorded(client: "Client", command: str) -> bool:
    """Whether brokers record now. CommandFailed if there is nothing to report."""
    from tidelog.jobs.health.model import TOPIC

    answer = await client.retrying(lambda: client.refresh(None))
    is_recording = await records(client)
    if TOPIC not in {topic.name for topic in answer.topics}:
        raise CommandFailed(_nothing(None, "" if is_recording else command))
    return is_recording


def _nothing(minutes: float | None, command: str) -> str:
    """Why there is no report; `command` switches recording on where it is off."""
    when = "yet" if minutes is None else f"in the last {minutes:g} minutes"
    if command:
        return f"no replication events {when}: recording is off; to switch it on: {command}"
    return f"no replication events {when}: recording is on, try again in a few seconds"


def _now_ms() -> int:
    from tidelog.broker.clock import SystemWallClock

    return SystemWallClock().now_ms()
