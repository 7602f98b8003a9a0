"""`elect`: ElectLeaders."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.options import (
    DEFAULT_BOOTSTRAP,
    MOST_INT32,
    Bootstrap,
    CommandConfig,
    Json,
    Quiet,
    example,
    legal_topics,
)
from tidelog.cli.output import CommandFailed, bad_usage, counted, listed, print_json, report_change
from tidelog.cli.session import with_client

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.client.elections import ElectionResult


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example("tidelog elect --preferred", "tidelog elect --unclean --topic orders --partition 0"),
    )(elect)


def elect(
    preferred: Annotated[
        bool, typer.Option("--preferred", help="Make the first replica of each partition its leader.")
    ] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="Elect a leader that is not in sync if no replica is. Acknowledged records may be lost."
        ),
    ] = False,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="T", help="Elect only in this topic. [default: all topics]", callback=legal_topics
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", metavar="P", min=0, max=MOST_INT32, help="Elect only in this partition of --topic."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Elect leaders of partitions: --preferred moves leadership, --unclean ends an outage at the price of records."""
    if preferred == unclean:
        raise bad_usage("give either --preferred or --unclean")
    if partition is not None and topic is None:
        raise bad_usage("--partition needs --topic")

    async def work(client: "Client") -> "list[ElectionResult]":
        from tidelog.client.elections import ElectionType, elect_leaders
        from tidelog.client.topics import describe_topic

        asked: dict[str, list[int]] | None = None
        if topic is not None and partition is not None:
            asked = {topic: [partition]}
        elif topic is not None:
            asked = {topic: [found.partition for found in (await describe_topic(client, topic)).partitions]}
        return await elect_leaders(client, ElectionType.PREFERRED if preferred else ElectionType.UNCLEAN, asked)

    results = with_client(bootstrap, work, command_config)
    failed = [result for result in results if result.error is not None and not result.not_needed]
    if as_json:
        print_json([_as_json(result) for result in results])
    elif len(failed) < len(results) or not results:
        report_change(_words(results, "preferred" if preferred else "unclean"), quiet=quiet, as_json=as_json)
    if failed:
        from tidelog.client.client import one_line

        first = failed[0]
        assert first.error is not None
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise CommandFailed(f"no leader elected for {_names(failed[:1])}: {one_line(first.error)}{more}")


def _words(results: "list[ElectionResult]", kind: str) -> str:
    elected = [result for result in results if result.error is None]
    settled = [result for result in results if result.not_needed]
    words = [f"{kind} leaders elected for {_names(elected)}"] if elected else []
    if settled:
        words.append(f"no election needed for {_names(settled)}")
    return "; ".join(words) or "no partition needs an election"


def _names(results: "list[ElectionResult]") -> str:
    """The first few partitions. Those of internal topics are only counted, unless there are no others."""
    from tidelog.metadata.names import is_internal

    tps = [result.tp for result in results]
    shown = [tp for tp in tps if not is_internal(tp.topic)] or tps
    names = listed([f"{tp.topic}-{tp.partition}" for tp in shown])
    hidden = len(tps) - len(shown)
    return f"{names} and {counted(hidden, 'partition')} of internal topics" if hidden else names


def _as_json(result: "ElectionResult") -> dict[str, Any]:
    outcome = "elected" if result.error is None else "not-needed" if result.not_needed else "failed"
    return {
        "topic": result.tp.topic,
        "partition": result.tp.partition,
        "result": outcome,
        "error": None if result.error is None or result.not_needed else result.error.code.name,
    }
