"""`health`: how replication has been doing, from what brokers publish, on Spark."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.jobs import Html, Master, check_page, fail_with, on_spark, write_page
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, example
from tidelog.cli.output import CommandFailed, print_json, print_table
from tidelog.cli.session import security_properties, with_client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.client.client import Client
    from tidelog.jobs.health.model import Health

_NOTHING: Final = "no events yet: brokers publish them with tidelog.replication.events.enable=true"


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog up --set tidelog.replication.events.enable=true",
            "tidelog health --minutes 60 --html health.html",
        )
    )(health)


def health(
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.01, help="Only so far back. [default: all there is]")
    ] = None,
    window: Annotated[float, typer.Option("--window", min=1.0, help="Seconds of a window.")] = 60.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = None,
    html: Html = None,
    as_json: Json = False,
) -> None:
    """Tell how replication has been doing: ISR shrinks, leader moves, time under-replicated, stalls, lag percentiles.

    Brokers publish what happens on __replication_events if tidelog.replication.events.enable is on.
    """
    security = security_properties(command_config)
    # Before Spark has started: that takes seconds.
    check_page(html)
    with_client(bootstrap, _check_published, command_config)
    since_ms = None if minutes is None else _now_ms() - round(minutes * 60_000)

    def work(spark: "SparkSession") -> "Health":
        from tidelog.jobs.health.job import health as run
        from tidelog.jobs.health.job import read_events

        return run(read_events(spark, bootstrap, since_ms, security), window, since_ms)

    found = on_spark("tidelog health", master, work)
    if not found.events:
        raise CommandFailed(_NOTHING)
    from tidelog.jobs.health.report import HEADINGS, overview, page_of, rows_of

    if as_json:
        print_json(found.as_dict())
    else:
        print(overview(found))
        print_table([each.upper() for each in HEADINGS], rows_of(found))
    fail_with("" if html is None else write_page(html, page_of(found)))


async def _check_published(client: "Client") -> None:
    from tidelog.jobs.health.model import TOPIC

    answer = await client.retrying(lambda: client.refresh(None))
    if TOPIC not in {topic.name for topic in answer.topics}:
        raise CommandFailed(_NOTHING)


def _now_ms() -> int:
    from tidelog.broker.clock import SystemWallClock

    return SystemWallClock().now_ms()
