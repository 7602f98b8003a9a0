"""`groups`: list, describe, reset-offsets, delete."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.options import (
    DEFAULT_BOOTSTRAP,
    MOST_INT64,
    Bootstrap,
    CommandConfig,
    Json,
    Quiet,
    commands,
    example,
    legal_group,
    legal_topics,
)
from tidelog.cli.output import (
    CommandFailed,
    bad_usage,
    counted,
    listed,
    note,
    print_json,
    print_table,
    report_change,
    table,
)
from tidelog.cli.partitions import check_partition, partitions_of
from tidelog.cli.session import with_client
from tidelog.cli.watching import DEFAULT_INTERVAL_S, Interval, View, Watch, show

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.core.ids import TopicPartition

app = commands(
    "Show, move and delete consumer groups.",
    "tidelog groups describe billing",
    "tidelog groups reset-offsets billing --topic orders --to-earliest",
)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Id of the group.", callback=legal_group)]


@app.command("list", epilog=example("tidelog groups list"))
def list_command(
    watch: Watch = False,
    interval: Interval = DEFAULT_INTERVAL_S,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """List consumer groups with their state and type."""

    async def look(client: "Client") -> list[dict[str, Any]]:
        from tidelog.client.groups import list_groups

        return [
            {"group": group.group_id, "state": group.group_state, "protocol_type": group.protocol_type}
            for group in await list_groups(client)
        ]

    def text(found: list[dict[str, Any]]) -> str:
        return table(["GROUP", "STATE", "TYPE"], [list(row.values()) for row in found])

    view = View(to_json=list, to_text=text)
    show(bootstrap, look, view, command_config, as_json=as_json, watch=watch, interval_s=interval)


@app.command(epilog=example("tidelog groups describe billing", "tidelog groups describe billing --watch"))
def describe(
    group: Group,
    watch: Watch = False,
    interval: Interval = DEFAULT_INTERVAL_S,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Show the members, committed offsets and lag of a group."""

    async def look(client: "Client") -> dict[str, Any]:
        return await _describe(client, group)

    def text(found: dict[str, Any]) -> str:
        names = ("topic", "partition", "current_offset", "log_end_offset", "lag", "consumer_id", "host", "client_id")
        rows = [[group, *(row[name] for name in names)] for row in found["partitions"]]
        if not watch:
            note(f"{found['state']}, {counted(len(found['members']), 'member')}")
        return table(["GROUP", *(name.upper().replace("_", "-") for name in names)], rows)

    view = View(to_json=dict, to_text=text)
    show(bootstrap, look, view, command_config, as_json=as_json, watch=watch, interval_s=interval)


@app.command(
    "reset-offsets",
    epilog=example(
        "tidelog groups reset-offsets billing --topic orders --to-earliest --execute",
        "tidelog groups reset-offsets billing --topic orders --shift-by=-10",
    ),
)
def reset_offsets(
    group: Group,
    topic: Annotated[
        str,
        typer.Option("--topic", metavar="NAME", help="The topic whose offsets are reset.", callback=legal_topics),
    ],
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Reset only this partition. [default: all partitions]")
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Reset to the log start.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Reset to the log end.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="Reset to this offset.")] = None,
    to_time: Annotated[
        int | None,
        typer.Option(
            "--to-time",
            metavar="MS",
            min=0,
            max=MOST_INT64,
            help="Reset to the first record at this time, in ms since 1970.",
        ),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Move by N records; negative moves back.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Reset the offsets. [default: only show the new offsets]")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Reset the committed offsets of a group that has no members. Without --execute it changes nothing."""
    ways = [to_earliest, to_latest, to_offset is not None, to_time is not None, shift_by is not None]
    if sum(ways) != 1:
        raise bad_usage("give one of --to-earliest, --to-latest, --to-offset, --to-time, --shift-by")

    async def work(client: "Client") -> list[dict[str, Any]]:
        from tidelog.client.groups import commit_offsets
        from tidelog.client.offsets import EARLIEST, LATEST

        time = EARLIEST if to_earliest else to_time
        if to_latest:
            time = LATEST
        plan = await _plan(client, group, topic, partition, time, to_offset, shift_by)
        if execute:
            await commit_offsets(client, group, plan)
        return [{"group": group, "topic": tp.topic, "partition": tp.partition, "new_offset": plan[tp]} for tp in plan]

    rows = with_client(bootstrap, work, command_config)
    if as_json:
        print_json({"executed": execute, "offsets": rows})
    elif execute:
        moved = [f"{row['topic']}-{row['partition']} to {row['new_offset']}" for row in rows]
        report_change(f"group {group} moved: {listed(moved)}", quiet=quiet, as_json=as_json)
    else:
        print_table(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], [list(row.values()) for row in rows])
        note("nothing changed; add --execute to move the group")


@app.command(epilog=example("tidelog groups delete billing"))
def delete(
    group: Group,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Delete a group that has no members, and its committed offsets."""

    async def work(client: "Client") -> None:
        from tidelog.client.groups import delete_group

        await delete_group(client, group)

    with_client(bootstrap, work, command_config)
    report_change(f"group {group} deleted", quiet=quiet, as_json=as_json, group=group, deleted=True)


async def _describe(client: "Client", group: str) -> dict[str, Any]:
    from tidelog.client.groups import committed_offsets, describe_group
    from tidelog.client.offsets import LATEST, list_offsets

    described = await describe_group(client, group)
    committed = await committed_offsets(client, group)
    if described.state == "Dead" and not committed:
        raise CommandFailed(f"group {group!r} does not exist")
    readers = {tp: member for member in described.members for tp in member.partitions}
    concerned = sorted({*committed, *readers})
    answer = await client.refresh(sorted({tp.topic for tp in concerned}))
    # Offsets outlive the topics they were committed for.
    existing = {topic.name for topic in answer.topics if topic.error_code == 0}
    found = await list_offsets(client, {tp: LATEST for tp in concerned if tp.topic in existing})
    partitions = []
    for tp in concerned:
        current = committed[tp].offset if tp in committed else None
        end = found[tp].offset if tp in found else None
        reader = readers.get(tp)
        partitions.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "current_offset": current,
                "log_end_offset": end,
                "lag": end - current if current is not None and end is not None else None,
                "consumer_id": reader.member_id if reader is not None else None,
                "host": reader.host if reader is not None else None,
                "client_id": reader.client_id if reader is not None else None,
            }
        )
    members = [
        {
            "member_id": member.member_id,
            "client_id": member.client_id,
            "host": member.host,
            "instance_id": member.instance_id,
        }
        for member in described.members
    ]
    return {
        "group": group,
        "state": described.state,
        "protocol": described.protocol,
        "members": members,
        "partitions": partitions,
    }


async def _plan(
    client: "Client",
    group: str,
    topic: str,
    partition: int | None,
    time: int | None,
    to_offset: int | None,
    shift_by: int | None,
) -> "dict[TopicPartition, int]":
    from tidelog.client.groups import committed_offsets
    from tidelog.client.offsets import EARLIEST, LATEST, list_offsets
    from tidelog.core.ids import TopicPartition

    known = await partitions_of(client, topic)
    check_partition(topic, partition, known)
    wanted = [TopicPartition(topic, number) for number in (known if partition is None else [partition])]
    starts = await list_offsets(client, dict.fromkeys(wanted, EARLIEST))
    ends = await list_offsets(client, dict.fromkeys(wanted, LATEST))
    targets: dict[TopicPartition, int] = {}
    if time is not None:
        found = await list_offsets(client, dict.fromkeys(wanted, time))
        # No record is that late: take the log end, the offset of the next record.
        targets = {tp: found[tp].offset if found[tp].offset >= 0 else ends[tp].offset for tp in wanted}
    elif to_offset is not None:
        targets = dict.fromkeys(wanted, to_offset)
    elif shift_by is not None:
        committed = await committed_offsets(client, group)
        missing = [tp for tp in wanted if tp not in committed]
        if missing:
            raise CommandFailed(f"group {group!r} has no committed offset in {missing[0]}: --shift-by needs one")
        targets = {tp: committed[tp].offset + shift_by for tp in wanted}
    # Outside the log a consumer would be reset to one of its ends.
    return {tp: min(max(target, starts[tp].offset), ends[tp].offset) for tp, target in targets.items()}
