"""`quorum`: describe the metadata quorum, add and remove voters."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.options import DEFAULT_BOOTSTRAP, MOST_INT32, Bootstrap, CommandConfig, Json, Quiet, commands, example
from tidelog.cli.output import CommandFailed, bad_usage, report_change, table
from tidelog.cli.session import with_client
from tidelog.cli.watching import DEFAULT_INTERVAL_S, Interval, View, Watch, show

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.client.client import Client
    from tidelog.client.quorum import QuorumDescription, QuorumEndpoint, QuorumReplica

app = commands(
    "Show the metadata quorum, add and remove voters.",
    "tidelog quorum describe --replication",
    "tidelog quorum remove --id 3",
)

Id = Annotated[int, typer.Option("--id", min=0, max=MOST_INT32, metavar="NODE", help="Node id of the controller.")]
DirectoryId = Annotated[
    str | None,
    typer.Option(
        "--directory-id",
        metavar="ID",
        help="directory.id in meta.properties of its metadata directory. [default: as the quorum knows it]",
    ),
]


@app.command(epilog=example("tidelog quorum describe", "tidelog quorum describe --replication --json"))
def describe(
    replication: Annotated[
        bool, typer.Option("--replication", help="Show the log end and lag of each voter and observer.")
    ] = False,
    watch: Watch = False,
    interval: Interval = DEFAULT_INTERVAL_S,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Show the leader, the voters and the observers of the metadata quorum."""

    async def look(client: "Client") -> "tuple[str | None, QuorumDescription]":
        from tidelog.client.quorum import describe_quorum

        await client.refresh([])
        return client.metadata.cluster_id, await describe_quorum(client)

    def as_data(found: "tuple[str | None, QuorumDescription]") -> Any:
        return _replication(found[1]) if replication else _status(*found)

    def text(found: "tuple[str | None, QuorumDescription]") -> str:
        if replication:
            return table(
                list(_REPLICATION), [[row[key] for key in _REPLICATION.values()] for row in _replication(found[1])]
            )
        status = _status(*found)
        lines = []
        for word, key in _STATUS.items():
            value = status[key]
            lines.append(f"{word + ':':<24}{json.dumps(value) if isinstance(value, list) else value}")
        return "\n".join(lines)

    view = View(to_json=as_data, to_text=text)
    show(bootstrap, look, view, command_config, as_json=as_json, watch=watch, interval_s=interval)


@app.command(epilog=example("tidelog quorum add --id 4 --endpoint CONTROLLER://127.0.0.1:9096"))
def add(
    node: Id,
    endpoints: Annotated[
        list[str] | None,
        typer.Option(
            "--endpoint", metavar="NAME://HOST:PORT", help="Controller listener of the node; may be repeated."
        ),
    ] = None,
    directory_id: DirectoryId = None,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Make a running controller a voter, once it has caught up with the metadata log."""
    if not endpoints:
        raise bad_usage("--endpoint NAME://HOST:PORT is missing: the listener of the controller")
    listeners = [_endpoint(text) for text in endpoints]
    directory = _directory_id(directory_id)

    async def work(client: "Client") -> "UUID":
        from tidelog.client.quorum import add_voter

        added = directory or await _known_directory(client, node, voters_only=False)
        await add_voter(client, node, added, listeners)
        return added

    added = with_client(bootstrap, work, command_config)
    _report(node, added, "added to", votes=True, quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog quorum remove --id 3"))
def remove(
    node: Id,
    directory_id: DirectoryId = None,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Remove a voter from the quorum. For a node that lost its disk, give its old directory id."""
    directory = _directory_id(directory_id)

    async def work(client: "Client") -> "UUID":
        from tidelog.client.quorum import remove_voter

        removed = directory or await _known_directory(client, node, voters_only=True)
        await remove_voter(client, node, removed)
        return removed

    removed = with_client(bootstrap, work, command_config)
    _report(node, removed, "removed from", votes=False, quiet=quiet, as_json=as_json)


def _report(node: int, directory: "UUID", verb: str, *, votes: bool, quiet: bool, as_json: bool) -> None:
    from tidelog.core.ids import uuid_to_text

    report_change(
        f"node {node} {verb} the voters of the metadata quorum",
        quiet=quiet,
        as_json=as_json,
        node_id=node,
        directory_id=uuid_to_text(directory),
        voter=votes,
    )


_STATUS = {
    "ClusterId": "cluster_id",
    "LeaderId": "leader_id",
    "LeaderEpoch": "leader_epoch",
    "HighWatermark": "high_watermark",
    "MaxFollowerLag": "max_follower_lag",
    "MaxFollowerLagTimeMs": "max_follower_lag_time_ms",
    "CurrentVoters": "current_voters",
    "CurrentObservers": "current_observers",
}
_REPLICATION = {
    "NodeId": "node_id",
    "DirectoryId": "directory_id",
    "LogEndOffset": "log_end_offset",
    "Lag": "lag",
    "LastFetchTimestamp": "last_fetch_timestamp",
    "LastCaughtUpTimestamp": "last_caught_up_timestamp",
    "Status": "status",
}


def _status(cluster_id: str | None, found: "QuorumDescription") -> dict[str, Any]:
    return {
        "cluster_id": cluster_id,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "max_follower_lag": found.max_follower_lag,
        "max_follower_lag_time_ms": found.max_follower_lag_time_ms,
        "current_voters": [_member(each) for each in found.voters],
        "current_observers": [_member(each) for each in found.observers],
    }


def _member(replica: "QuorumReplica") -> dict[str, Any]:
    """As Kafka's own tool prints it."""
    from tidelog.core.ids import uuid_to_text

    member: dict[str, Any] = {"id": replica.id, "directoryId": uuid_to_text(replica.directory_id)}
    if replica.endpoints:
        member["endpoints"] = [str(endpoint) for endpoint in replica.endpoints]
    return member


def _replication(found: "QuorumDescription") -> list[dict[str, Any]]:
    from tidelog.core.ids import uuid_to_text

    followers = [voter for voter in found.voters if voter.id != found.leader_id]
    leader = [] if found.leader is None else [(found.leader, "Leader")]
    replicas = [
        *leader,
        *((voter, "Follower") for voter in followers),
        *((observer, "Observer") for observer in found.observers),
    ]
    return [
        {
            "node_id": replica.id,
            "directory_id": uuid_to_text(replica.directory_id),
            "log_end_offset": replica.log_end_offset,
            "lag": found.lag_of(replica),
            "last_fetch_timestamp": replica.last_fetch_timestamp,
            "last_caught_up_timestamp": replica.last_caught_up_timestamp,
            "status": status,
        }
        for replica, status in replicas
    ]


async def _known_directory(client: "Client", node: int, *, voters_only: bool) -> "UUID":
    from tidelog.client.quorum import describe_quorum

    found = await describe_quorum(client)
    replica = found.replica(node)
    if replica is None or (voters_only and replica not in found.voters):
        role = "voter" if voters_only else "voter or observer"
        raise CommandFailed(f"node {node} is no {role} of the quorum; give its directory with --directory-id")
    return replica.directory_id


def _directory_id(text: str | None) -> "UUID | None":
    from tidelog.core.ids import uuid_from_text

    if text is None:
        return None
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise bad_usage(f"--directory-id: {error}") from error


def _endpoint(text: str) -> "QuorumEndpoint":
    from tidelog.client.addresses import parse_bootstrap
    from tidelog.client.errors import ClientError
    from tidelog.client.quorum import QuorumEndpoint

    name, separator, address = text.partition("://")
    try:
        if not separator or not name:
            raise ClientError("no listener name")
        (at,) = parse_bootstrap(address)
    except (ClientError, ValueError) as error:
        raise bad_usage(f"--endpoint needs NAME://HOST:PORT, not {text!r}") from error
    return QuorumEndpoint(name=name, host=at.host, port=at.port)
