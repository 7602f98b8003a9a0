"""`offsets`: the first and the last offsets of a topic's partitions."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Topic, example, whole_number
from tidelog.cli.output import bad_usage, table
from tidelog.cli.watching import DEFAULT_INTERVAL_S, Interval, View, Watch, show

if TYPE_CHECKING:
    from tidelog.client.client import Client


_ENDS: Final = {
    "PARTITION": "partition",
    "LEADER": "leader",
    "LOG-START": "log_start_offset",
    "HIGH-WATERMARK": "high_watermark",
    "LOG-END": "log_end_offset",
}
_MOMENTS: Final = {"PARTITION": "partition", "OFFSET": "offset", "TIMESTAMP": "timestamp"}


def register(app: typer.Typer) -> None:
    app.command(epilog=example("tidelog offsets orders", "tidelog offsets orders --time 1735689600000"))(offsets)


def offsets(
    topic: Topic,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="earliest|latest|MS",
            help="Show the offset at a time instead: earliest, latest, or ms since 1970.",
        ),
    ] = None,
    watch: Watch = False,
    interval: Interval = DEFAULT_INTERVAL_S,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Show log start offset, high watermark and log end offset of each partition, or the offset at a time."""
    timestamp = parse_time(time) if time is not None else None

    async def look(client: "Client") -> list[dict[str, Any]]:
        return await (_ends(client, topic) if timestamp is None else _at(client, topic, timestamp))

    def text(rows: list[dict[str, Any]]) -> str:
        columns = _ENDS if timestamp is None else _MOMENTS
        return table(list(columns), [[row[name] for name in columns.values()] for row in rows])

    view = View(to_json=list, to_text=text)
    show(bootstrap, look, view, command_config, as_json=as_json, watch=watch, interval_s=interval)


def parse_time(text: str) -> int:
    from tidelog.client.offsets import EARLIEST, LATEST

    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    number = whole_number(text)
    if number is None:
        raise bad_usage(f"--time is earliest, latest or milliseconds since 1970, not {text!r}")
    return number


async def _ends(client: "Client", topic: str) -> list[dict[str, Any]]:
    from tidelog.client.offsets import DEBUGGING_REPLICA_ID, EARLIEST, LATEST, list_offsets
    from tidelog.core.ids import TopicPartition

    partitions = sorted(partition.partition_index for partition in (await client.topic(topic)).partitions)
    asked = [TopicPartition(topic, partition) for partition in partitions]
    starts = await list_offsets(client, dict.fromkeys(asked, EARLIEST))
    high_watermarks = await list_offsets(client, dict.fromkeys(asked, LATEST))
    ends = await list_offsets(client, dict.fromkeys(asked, LATEST), replica_id=DEBUGGING_REPLICA_ID)
    return [
        {
            "partition": tp.partition,
            "leader": await client.leader_of(topic, tp.partition),
            "log_start_offset": starts[tp].offset,
            "high_watermark": high_watermarks[tp].offset,
            "log_end_offset": ends[tp].offset,
        }
        for tp in asked
    ]


async def _at(client: "Client", topic: str, timestamp: int) -> list[dict[str, Any]]:
    from tidelog.client.offsets import list_offsets
    from tidelog.core.ids import TopicPartition

    partitions = sorted(partition.partition_index for partition in (await client.topic(topic)).partitions)
    asked = {TopicPartition(topic, partition): timestamp for partition in partitions}
    found = await list_offsets(client, asked)
    return [
        {
            "partition": tp.partition,
            # No record is that late.
            "offset": found[tp].offset if found[tp].offset >= 0 else None,
            "timestamp": found[tp].timestamp if found[tp].timestamp >= 0 else None,
        }
        for tp in asked
    ]
