"""`topics`: create, list, describe, alter, delete."""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli.options import (
    DEFAULT_BOOTSTRAP,
    MOST_INT16,
    MOST_INT32,
    Bootstrap,
    CommandConfig,
    Internal,
    Json,
    Quiet,
    broker_ids,
    commands,
    example,
    key_values,
    legal_topics,
)
from tidelog.cli.output import bad_usage, counted, folded, note, print_json, report_change
from tidelog.cli.session import with_client
from tidelog.cli.watching import DEFAULT_INTERVAL_S, Interval, View, Watch, show

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.client.configs import ConfigEntry
    from tidelog.client.reassignments import Reassignment
    from tidelog.client.topics import CreatedTopic, PartitionDescription, TopicDescription

app = commands(
    "Create, list, describe, alter and delete topics.",
    "tidelog topics create orders --partitions 3 --replication-factor 3",
    "tidelog topics describe orders",
)

_REASSIGNMENTS_TIMEOUT_MS: Final = 1000

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the topic.", callback=legal_topics)]


@app.command(epilog=example("tidelog topics create orders --partitions 3 --config retention.ms=86400000"))
def create(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", min=1, max=MOST_INT32, help="Number of partitions. [default: num.partitions of the cluster]"
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            min=1,
            max=MOST_INT16,
            help="Replicas of each partition. [default: default.replication.factor of the cluster]",
        ),
    ] = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option(
            "--replica-assignment",
            metavar="0:1:2,…",
            help="Broker ids of each partition's replicas; the first is the preferred leader.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="Set a topic config; may be repeated.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed and change nothing if the topic exists.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Create a topic. Without options its size is the default of the cluster."""
    assignment = _parse_assignment(replica_assignment) if replica_assignment is not None else None
    if assignment and (partitions is not None or replication_factor is not None):
        raise bad_usage("--replica-assignment sets the number of partitions and replicas: leave out the other options")
    configs = key_values(config, "--config")

    async def work(client: "Client") -> "CreatedTopic | None":
        from tidelog.client.topics import BROKER_DEFAULT, create_topic
        from tidelog.wire.errors import ApiError, ErrorCode

        try:
            return await create_topic(
                client,
                name,
                partitions=partitions or BROKER_DEFAULT,
                replication_factor=replication_factor or BROKER_DEFAULT,
                assignment=assignment,
                config=configs,
            )
        except ApiError as error:
            if if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return None
            raise

    created = with_client(bootstrap, work, command_config)
    if created is None:
        report_change(f"topic {name} exists, nothing changed", quiet=quiet, as_json=as_json, topic=name, created=False)
        return
    size = {} if created.partitions < 0 else asdict(created)
    words = f"{counted(created.partitions, 'partition')}, replication factor {created.replication_factor}"
    report_change(
        f"topic {name} created" + (f" ({words})" if size else ""),
        quiet=quiet,
        as_json=as_json,
        topic=name,
        created=True,
        **size,
    )


@app.command("list", epilog=example("tidelog topics list", "tidelog topics list --internal --json"))
def list_command(
    internal: Internal = False,
    exclude_internal: Annotated[bool, typer.Option("--exclude-internal", hidden=True)] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """List topics by name, one per line.

    Without --internal, internal topics are not listed, in --json too; one line on stderr names them.
    """
    if internal and exclude_internal:
        raise bad_usage("--internal and --exclude-internal contradict each other")

    async def work(client: "Client") -> list[dict[str, Any]]:
        from tidelog.client.topics import list_topics
        from tidelog.core.ids import uuid_to_text

        return [
            {
                "name": topic.name,
                "topic_id": uuid_to_text(topic.topic_id),
                "internal": topic.is_internal,
                "partitions": len(topic.partitions),
            }
            for topic in await list_topics(client)
        ]

    found = with_client(bootstrap, work, command_config)
    shown = [topic for topic in found if internal or not topic["internal"]]
    if as_json:
        print_json(shown)
        return
    for topic in shown:
        print(topic["name"])
    if len(shown) < len(found) and not exclude_internal:
        # Not on stdout: scripts read a name from each line.
        print(folded([topic["name"] for topic in found if topic["internal"]]), file=sys.stderr)


@app.command(epilog=example("tidelog topics describe orders", "tidelog topics describe --under-replicated-partitions"))
def describe(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the topic. [default: all topics]", callback=legal_topics),
    ] = None,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated-partitions", help="Show only partitions with replicas that are not in sync."),
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Show only partitions without a leader.")
    ] = False,
    under_min_isr: Annotated[
        bool,
        typer.Option(
            "--under-min-isr-partitions",
            help="Show only partitions with fewer in-sync replicas than min.insync.replicas.",
        ),
    ] = False,
    at_min_isr: Annotated[
        bool,
        typer.Option("--at-min-isr-partitions", help="Show only partitions with exactly min.insync.replicas in sync."),
    ] = False,
    internal: Internal = False,
    watch: Watch = False,
    interval: Interval = DEFAULT_INTERVAL_S,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Describe topics and their partitions, in the format of Kafka's own tool.

    Without NAME, internal topics are folded into the last line, and --json leaves them out. --internal shows them. With
    several filters, a partition is shown if one of them matches.
    """
    filters: list[Callable[[_Row], bool]] = []
    if under_replicated:
        filters.append(lambda row: len(row.partition.isr) < row.replication_factor)
    if unavailable:
        filters.append(lambda row: row.partition.leader < 0)
    if under_min_isr:
        filters.append(lambda row: len(row.partition.isr) < row.effective_min_isr)
    if at_min_isr:
        filters.append(lambda row: len(row.partition.isr) == row.effective_min_isr)

    async def look(client: "Client") -> "list[tuple[TopicDescription, list[ConfigEntry], list[_Row]]]":
        shown = []
        for topic, configs, moving in await _described(client, name):
            rows = [
                _Row(topic.name, partition, _min_isr(configs), moving.get(partition.partition))
                for partition in topic.partitions
            ]
            kept = [row for row in rows if not filters or any(matches(row) for matches in filters)]
            if kept or not filters:
                shown.append((topic, configs, kept))
        return shown

    def is_shown(topic: "TopicDescription") -> bool:
        return internal or name is not None or not topic.is_internal

    def text(found: "list[tuple[TopicDescription, list[ConfigEntry], list[_Row]]]") -> str:
        lines = []
        for topic, configs, rows in found:
            if not is_shown(topic):
                continue
            if not filters:
                lines.append(_topic_line(topic, configs, rows))
            lines += map(_partition_line, rows)
        # With filters too: an internal topic in trouble must stay visible.
        hidden = [topic.name for topic, _, _ in found if not is_shown(topic)]
        return "\n".join([*lines, folded(hidden)] if hidden else lines)

    view = View(to_json=lambda found: [_as_json(*each) for each in found if is_shown(each[0])], to_text=text)
    show(bootstrap, look, view, command_config, as_json=as_json, watch=watch, interval_s=interval)


@app.command(epilog=example("tidelog topics alter orders --partitions 6"))
def alter(
    name: Name,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", min=1, max=MOST_INT32, help="New number of partitions, larger than the present one."
        ),
    ],
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Add partitions to a topic. Afterwards the same key may go to another partition."""

    async def work(client: "Client") -> None:
        from tidelog.client.topics import create_partitions

        await create_partitions(client, name, partitions)

    with_client(bootstrap, work, command_config)
    words = f"topic {name} now has {counted(partitions, 'partition')}"
    report_change(words, quiet=quiet, as_json=as_json, topic=name, partitions=partitions)


@app.command(epilog=example("tidelog topics delete orders"))
def delete(
    name: Name,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Delete a topic and its records."""

    async def work(client: "Client") -> None:
        from tidelog.client.topics import delete_topic

        await delete_topic(client, name)

    with_client(bootstrap, work, command_config)
    report_change(f"topic {name} deleted", quiet=quiet, as_json=as_json, topic=name, deleted=True)


@dataclass(frozen=True, slots=True)
class _Row:
    """A partition, and the values that filters compare it with."""

    topic: str
    partition: "PartitionDescription"
    min_isr: int
    moving: "Reassignment | None"

    @property
    def replication_factor(self) -> int:
        """The number of replicas without those that a reassignment adds: they cannot be in sync yet."""
        return len(self.partition.replicas) - (len(self.moving.adding) if self.moving is not None else 0)

    @property
    def effective_min_isr(self) -> int:
        """What a leader uses: a partition with one replica accepts writes with any `min.insync.replicas`."""
        return min(self.min_isr, len(self.partition.replicas))


async def _described(
    client: "Client", name: str | None
) -> "list[tuple[TopicDescription, list[ConfigEntry], dict[int, Reassignment]]]":
    """Topics, their configs, and their partitions that are being reassigned."""
    from tidelog.client.client import one_line
    from tidelog.client.configs import ResourceType, describe_configs
    from tidelog.client.errors import ClientError
    from tidelog.client.reassignments import list_reassignments
    from tidelog.client.topics import describe_topics
    from tidelog.wire.errors import ApiError

    found = await describe_topics(client, [name] if name is not None else [])
    try:
        moving = await list_reassignments(client, timeout_ms=_REASSIGNMENTS_TIMEOUT_MS)
    except (ApiError, ClientError) as error:
        # Every broker describes partitions; without a controller the description is needed most.
        note(f"cannot show reassignments: {one_line(error)}")
        moving = []
    return [
        (
            topic,
            await describe_configs(client, ResourceType.TOPIC, topic.name),
            {each.tp.partition: each for each in moving if each.tp.topic == topic.name},
        )
        for topic in found
    ]


def _parse_assignment(text: str) -> dict[int, list[int]]:
    try:
        replicas = [broker_ids(part, ":") for part in text.split(",")]
    except ValueError as error:
        raise bad_usage(f"--replica-assignment needs broker ids as in 0:1:2,1:2:0, not {text!r}") from error
    return dict(enumerate(replicas))


def _min_isr(configs: "list[ConfigEntry]") -> int:
    for entry in configs:
        if entry.name == "min.insync.replicas" and entry.value is not None:
            return int(entry.value)
    return 1


def _changed(configs: "list[ConfigEntry]") -> "list[ConfigEntry]":
    return [entry for entry in configs if entry.source != "DEFAULT_CONFIG"]


def _topic_line(topic: "TopicDescription", configs: "list[ConfigEntry]", rows: list[_Row]) -> str:
    from tidelog.core.ids import uuid_to_text

    factor = rows[0].replication_factor if rows else 0
    changed = ",".join(f"{entry.name}={entry.value}" for entry in _changed(configs))
    return (
        f"Topic: {topic.name}\tTopicId: {uuid_to_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {factor}\tConfigs: {changed}"
    )


def _partition_line(row: _Row) -> str:
    def ids(values: tuple[int, ...]) -> str:
        return ",".join(str(value) for value in values)

    partition = row.partition
    leader = str(partition.leader) if partition.leader >= 0 else "none"
    moving = ""
    if row.moving is not None:
        moving = f"Adding Replicas: {ids(row.moving.adding)}\tRemoving Replicas: {ids(row.moving.removing)}\t"
    return (
        f"\tTopic: {row.topic}\tPartition: {partition.partition}\tLeader: {leader}\t"
        f"Replicas: {ids(partition.replicas)}\tIsr: {ids(partition.isr)}\t{moving}"
        f"Elr: {ids(partition.elr)}\tLastKnownElr: {ids(partition.last_known_elr)}"
    )


def _as_json(topic: "TopicDescription", configs: "list[ConfigEntry]", rows: list[_Row]) -> dict[str, Any]:
    from tidelog.core.ids import uuid_to_text

    return {
        "name": topic.name,
        "topic_id": uuid_to_text(topic.topic_id),
        "internal": topic.is_internal,
        "configs": {entry.name: entry.value for entry in _changed(configs)},
        "partitions": [
            {
                **asdict(row.partition),
                "adding": list(row.moving.adding) if row.moving is not None else [],
                "removing": list(row.moving.removing) if row.moving is not None else [],
            }
            for row in rows
        ],
    }
