"""`replicas`: each replica of a topic as it is now, live with `--watch`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Topic, example
from tidelog.cli.output import table
from tidelog.cli.partitions import check_partition
from tidelog.cli.session import with_client
from tidelog.cli.watching import DEFAULT_INTERVAL_S, Interval, View, Watch, show_looks

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.client.replicas import PartitionView, ReplicaView

HEADINGS: Final = (
    "PARTITION",
    "REPLICA",
    "STATE",
    "IN-ISR",
    "EPOCH",
    "LOG-START",
    "HIGH-WATERMARK",
    "LOG-END",
    "LAG",
    "LAST-CAUGHT-UP",
)
_SECOND_MS: Final = 1000
_MINUTE_MS: Final = 60 * _SECOND_MS


def register(app: typer.Typer) -> None:
    app.command(epilog=example("tidelog replicas orders", "tidelog replicas orders --partition 0 --watch"))(replicas)


def replicas(
    topic: Topic,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Show only this partition.")] = None,
    watch: Watch = False,
    interval: Interval = DEFAULT_INTERVAL_S,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Show each replica of a topic: role, ISR membership, leader epoch, offsets and lag.

    Each replica reports its own offsets. The leader reports ISR, lag, and when a replica last caught up.
    """
    view = View(
        to_json=lambda found: [as_dict(each) for each in found],
        to_text=lambda found: table(HEADINGS, rows(found)),
        to_screen=_coloured,
        to_news=lambda found: [story(each, replica) for each in found for replica in each.replicas],
    )

    async def work(client: "Client") -> None:
        from tidelog.client.replicas import ReplicaObserver

        observer = ReplicaObserver(client, topic)

        async def look() -> "list[PartitionView]":
            return _chosen(await observer.look(), topic, partition)

        await show_looks(look, view, as_json=as_json, watch=watch, interval_s=interval)

    with_client(bootstrap, work, command_config, reports_retries=not watch)


def _chosen(views: "list[PartitionView]", topic: str, partition: int | None) -> "list[PartitionView]":
    check_partition(topic, partition, [view.partition for view in views])
    return [view for view in views if partition in (None, view.partition)]


_COLOURS: Final = {"leader": "bold", "offline": "red", "silent": "yellow", "deposed": "magenta"}


def _coloured(views: "Sequence[PartitionView]") -> Any:
    from rich.table import Table

    # Headings of two lines and narrow gaps: a terminal of 80 columns shows every heading and every value.
    drawn = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for heading in HEADINGS:
        drawn.add_column(
            heading.replace("-", "-\n", 1), justify="left" if heading in ("STATE", "IN-ISR") else "right", no_wrap=True
        )
    for row in rows(views):
        drawn.add_row(*("-" if cell is None else str(cell) for cell in row), style=_COLOURS.get(str(row[2]), ""))
    return drawn


def story(view: "PartitionView", replica: "ReplicaView") -> str:
    """One replica in one line of `key=value`. Ages alone are no news."""
    values = {
        "state": replica.status.value,
        "isr": replica.membership.value,
        "epoch": replica.leader_epoch,
        "hw": replica.high_watermark,
        "leo": replica.log_end_offset,
        "lag": replica.lag,
    }
    figures = " ".join(f"{key}={'-' if value is None else value}" for key, value in values.items())
    return f"{view.topic}-{view.partition} replica={replica.broker} {figures}"


def rows(views: "Sequence[PartitionView]") -> list[list[Any]]:
    return [
        [
            view.partition,
            replica.broker,
            replica.status.value,
            replica.membership.value,
            replica.leader_epoch,
            replica.log_start_offset,
            replica.high_watermark,
            replica.log_end_offset,
            replica.lag,
            _caught_up(view, replica),
        ]
        for view in views
        for replica in view.replicas
    ]


def _caught_up(view: "PartitionView", replica: "ReplicaView") -> str | None:
    """As the leader reports it; None if the leader does not answer."""
    if replica.is_leader or not any(each.is_leader and each.log_end_offset is not None for each in view.replicas):
        return None
    return "never" if replica.last_caught_up_ms is None else f"{age(replica.last_caught_up_ms)} ago"


def age(age_ms: int) -> str:
    if age_ms < _SECOND_MS:
        return f"{age_ms} ms"
    if age_ms < _MINUTE_MS:
        return f"{age_ms / _SECOND_MS:.1f} s"
    return f"{age_ms // _MINUTE_MS} min"


def as_dict(view: "PartitionView") -> dict[str, Any]:
    return {
        "topic": view.topic,
        "partition": view.partition,
        "leader": view.leader if view.leader >= 0 else None,
        "leader_epoch": view.leader_epoch,
        "isr": list(view.isr),
        "maximal_isr": list(view.maximal_isr),
        "replicas": [
            {
                "broker": replica.broker,
                "state": replica.status.value,
                "in_isr": replica.in_isr,
                "isr_change": replica.membership.value if replica.membership.value in ("joining", "leaving") else None,
                "leader_epoch": replica.leader_epoch,
                "log_start_offset": replica.log_start_offset,
                "high_watermark": replica.high_watermark,
                "log_end_offset": replica.log_end_offset,
                "fetched_to": replica.fetched_to,
                "lag": replica.lag,
                "last_caught_up_ms": replica.last_caught_up_ms,
                "last_fetch_ms": replica.last_fetch_ms,
            }
            for replica in view.replicas
        ],
    }
