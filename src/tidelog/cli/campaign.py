"""`campaign`: the odds of losing records under several configurations, simulated on Spark."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.files import check_writable
from tidelog.cli.jobs import Html, Master, fail_with, on_spark, write_page
from tidelog.cli.options import Json, example
from tidelog.cli.output import bad_usage, print_json, print_table
from tidelog.cli.sim import seed_range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.jobs.campaign.odds import Tally

_EXAMPLES = 3


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog campaign --seeds 0..199 --html campaign.html",
            "tidelog campaign --durability rf=3,min=2,acks=all --durability rf=3,min=1,acks=1",
        )
    )(campaign)


def campaign(
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="A..B", help="The first and the last seed, or a single one.")
    ] = "0..99",
    durability: Annotated[
        list[str] | None,
        typer.Option(
            "--durability",
            metavar="rf=N,min=N,acks=all|1[,unclean][,fsync]",
            help="A configuration; may be repeated. [default: six configurations]",
        ),
    ] = None,
    master: Master = None,
    html: Html = None,
    as_json: Json = False,
) -> None:
    """Simulate broker failures under several configurations and count lost acknowledged records and refused writes.

    A configuration is a replication factor, min.insync.replicas, acks, unclean elections and fsync. Each seed is one
    incident in which one, two or three brokers fail. All configurations meet the same incidents. Each loss is printed
    with the command that replays it.
    """
    from tidelog.sim.durability import CONFIGURATIONS, BadConfiguration, Durability

    chosen = seed_range(seeds)
    try:
        configurations = [Durability.parse(each) for each in durability or ()] or list(CONFIGURATIONS)
    except BadConfiguration as error:
        raise bad_usage(f"--durability: {error}") from error
    check_writable(html)

    def work(spark: "SparkSession") -> "list[Tally]":
        from tidelog.jobs.campaign.job import campaign as run

        return run(spark, chosen, list(dict.fromkeys(configurations)))

    found = on_spark("tidelog campaign", master, work, "simulating incidents")
    if as_json:
        print_json({"seeds": [chosen[0], chosen[-1]], "configurations": [each.as_dict() for each in found]})
    else:
        _print(found)
    broken = sum(len(each.broken) for each in found)
    from tidelog.jobs.campaign.report import page_of

    fail_with(
        f"{broken} runs did not finish" if broken else "",
        "" if html is None else write_page(html, page_of(found)),
    )


def _print(found: "list[Tally]") -> None:
    from tidelog.jobs.campaign.odds import replay
    from tidelog.jobs.campaign.report import HEADINGS, row_of

    print_table([each.upper() for each in HEADINGS], [row_of(each) for each in found])
    for each in found:
        examples = each.counter_examples
        if examples:
            print(f"\n{each.configuration}: {len(examples)} of {len(each.runs)} runs lost records, for example:")
        for run in examples[:_EXAMPLES]:
            print(f"  {replay(run)}   # {run.lost} of {run.acknowledged} records: {run.incident}")
    for each in found:
        for run in each.broken:
            print(f"\n{replay(run)}   # did not finish: {run.broken}")
