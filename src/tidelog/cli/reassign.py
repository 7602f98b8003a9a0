"""`reassign`: move the replicas of a partition, list and cancel reassignments."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Json,
    Quiet,
    broker_ids,
    example,
    legal_topics,
)
from tidelog.cli.output import CommandFailed, bad_usage, counted, listed, print_json, progress, report_change, table
from tidelog.cli.partitions import check_partition, partitions_of
from tidelog.cli.session import with_client
from tidelog.cli.watching import DEFAULT_INTERVAL_S, Interval, View, Watch, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.client.client import Client
    from tidelog.client.reassignments import Reassignment
    from tidelog.core.ids import TopicPartition


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog reassign orders --partition 0 --replicas 1,2,4 --throttle 10000000 --wait",
            "tidelog reassign --list --watch",
            "tidelog reassign orders --partition 0 --cancel",
        )
    )(reassign)


def reassign(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="Name of the topic.", callback=legal_topics)
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="P", min=0, help="Number of the partition.")
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            "--replicas", metavar="1,2,3", help="Ids of the new replicas' brokers; the first is the preferred leader."
        ),
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle",
            metavar="BYTES",
            min=1,
            help="Limit the copying, in bytes per second and broker. --wait and --cancel remove the limit.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the reassignment is complete, also for one that began earlier.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List reassignments in progress.")] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel reassignments: return to the previous replicas.")
    ] = False,
    watch: Watch = False,
    interval: Interval = DEFAULT_INTERVAL_S,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Move the replicas of a partition to other brokers, while clients read and write it.

    --list and --cancel apply to all reassignments in progress, to those of TOPIC, or to one --partition.
    """
    if listing + cancel + (replicas is not None) > 1:
        raise bad_usage("give one of --replicas, --list and --cancel")
    if not (listing or cancel or wait or replicas is not None):
        raise bad_usage("give --replicas, --wait, --list or --cancel")
    if partition is not None and topic is None:
        raise bad_usage("--partition needs a TOPIC")
    if throttle is not None and replicas is None:
        raise bad_usage("--throttle needs --replicas")
    if replicas is not None or (wait and not listing and not cancel):
        if topic is None or partition is None:
            raise bad_usage("one partition is needed: TOPIC --partition P")
        if watch:
            raise bad_usage("--watch needs --list; --wait shows the progress of one reassignment")
        target = None if replicas is None else _brokers(replicas)
        _move(bootstrap, command_config, topic, partition, target, throttle, wait=wait, quiet=quiet, as_json=as_json)
        return
    if cancel:
        found = with_client(bootstrap, lambda client: _cancel(client, topic, partition), command_config)
        if not found:
            raise CommandFailed("no reassignment is in progress" + ("" if topic is None else f" for {topic}"))
        if as_json:
            print_json([_as_json(each) for each in found])
        else:
            names = listed([f"{each.tp.topic}-{each.tp.partition}" for each in found])
            report_change(f"{counted(len(found), 'reassignment')} cancelled: {names}", quiet=quiet, as_json=as_json)
        return
    view = View(to_json=lambda ongoing: [_as_json(each) for each in ongoing], to_text=_table)
    look = partial(_ongoing, topic=topic, partition=partition)
    show(bootstrap, look, view, command_config, as_json=as_json, watch=watch, interval_s=interval)


def _table(found: "list[Reassignment]") -> str:
    rows = [
        [each.tp.topic, each.tp.partition, _text(each.replicas), _text(each.adding), _text(each.removing)]
        for each in found
    ]
    return table(["TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"], rows)


def _move(
    bootstrap: str,
    command_config: Path | None,
    topic: str,
    partition: int,
    target: list[int] | None,
    throttle: int | None,
    *,
    wait: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    async def work(client: "Client") -> "Reassignment":
        from tidelog.client.reassignments import Reassignment, alter_reassignments, list_reassignments
        from tidelog.client.throttles import read_throttle, remove_throttle, restore_throttle, set_throttle
        from tidelog.client.topics import describe_topic
        from tidelog.core.ids import TopicPartition
        from tidelog.wire.errors import ApiError

        tp = TopicPartition(topic, partition)
        described = {each.partition: each for each in (await describe_topic(client, topic)).partitions}
        check_partition(topic, partition, described)
        if target is not None and throttle is not None:
            old = described[partition].replicas
            before = await read_throttle(client, topic, {*old, *target})
            try:
                # Before anything is copied, so that nothing is copied at full speed first.
                await set_throttle(client, topic, partition, old=old, new=target, bytes_per_second=throttle)
                await alter_reassignments(client, {tp: target})
            except ApiError:
                await restore_throttle(client, before)
                raise
        elif target is not None:
            await alter_reassignments(client, {tp: target})
        if wait:
            await _wait(client, tp, show=not (as_json or quiet))
            await _end_rates(client, await remove_throttle(client, topic, partition))
        if ongoing := await list_reassignments(client, [tp]):
            return ongoing[0]
        # A complete reassignment is no longer listed.
        after = {each.partition: each.replicas for each in (await describe_topic(client, topic)).partitions}
        replicas = tuple(target) if target is not None else after[partition]
        return Reassignment(tp=tp, replicas=replicas, adding=(), removing=())

    found = with_client(bootstrap, work, command_config)
    if as_json:
        print_json([_as_json(found)])
        return
    state = "is moving to" if found.adding or found.removing else "is on"
    report_change(f"{topic}-{partition} {state} brokers {_text(found.target)}", quiet=quiet, as_json=as_json)


async def _wait(client: "Client", tp: "TopicPartition", *, show: bool) -> None:
    """Waits until it is complete, and shows the lag of the new replicas on a terminal."""
    from tidelog.client.reassignments import wait_reassigned
    from tidelog.client.replicas import ReplicaObserver

    observer = ReplicaObserver(client, tp.topic)

    async def on_look(found: "list[Reassignment]") -> None:
        adding = {broker for each in found for broker in each.adding}
        replicas = [each for view in await observer.look() if view.partition == tp.partition for each in view.replicas]
        lags = [f"{each.broker} lacks {each.lag} records" for each in replicas if each.broker in adding and each.lag]
        progress(f"{tp} is moving: {', '.join(lags)}" if lags else f"{tp} is moving")

    showing = show and sys.stdout.isatty()
    await wait_reassigned(client, [tp], on_look=on_look if showing else None)
    if showing:
        progress("")


async def _ongoing(client: "Client", topic: str | None, partition: int | None) -> "list[Reassignment]":
    from tidelog.client.reassignments import list_reassignments

    if topic is not None:
        check_partition(topic, partition, await partitions_of(client, topic))
    return [
        each
        for each in await list_reassignments(client)
        if topic in (None, each.tp.topic) and partition in (None, each.tp.partition)
    ]


async def _cancel(client: "Client", topic: str | None, partition: int | None) -> "list[Reassignment]":
    from tidelog.client.reassignments import alter_reassignments
    from tidelog.client.throttles import remove_throttle

    found = await _ongoing(client, topic, partition)
    if found:
        await alter_reassignments(client, {each.tp: None for each in found})
        throttled: set[int] = set()
        for each in found:
            throttled |= await remove_throttle(client, each.tp.topic, each.tp.partition)
        await _end_rates(client, throttled)
    return found


async def _end_rates(client: "Client", brokers: set[int]) -> None:
    """All reassignments share a broker's rate: it is removed after the last one."""
    from tidelog.client.reassignments import list_reassignments
    from tidelog.client.throttles import remove_rates

    if brokers and not await list_reassignments(client):
        await remove_rates(client, brokers)


def _brokers(text: str) -> list[int]:
    try:
        return broker_ids(text, ",")
    except ValueError as error:
        raise bad_usage(f"--replicas needs broker ids as in 1,2,3, not {text!r}") from error


def _text(brokers: "Sequence[int]") -> str:
    return ",".join(str(broker) for broker in brokers)


def _as_json(found: "Reassignment") -> dict[str, Any]:
    return {
        "topic": found.tp.topic,
        "partition": found.tp.partition,
        "replicas": list(found.replicas),
        "adding": list(found.adding),
        "removing": list(found.removing),
    }
