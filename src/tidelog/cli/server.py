"""`node`, `format`, `random-uuid`: one node from a Kafka-style `server.properties`, for several hosts."""

import os
import random
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tidelog.cli.options import Json, Quiet, Settings, example, key_values

Config = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="Configuration of the node, a Kafka-style server.properties.")
]


def register(app: typer.Typer) -> None:
    app.command(epilog=example("tidelog node --config server.properties --set log.retention.hours=24"))(node)
    app.command(
        "format",
        epilog=example(
            "tidelog format --config server.properties",
            "tidelog format --config server.properties --cluster-id WZEKwK-bS62oT3ZOSU0dgw",
        ),
    )(format_directories)
    app.command("random-uuid", epilog=example("tidelog random-uuid"))(print_random_uuid)


def node(config: Config, settings: Settings = None) -> None:
    """Run one node until SIGTERM. Its directories must be formatted; see `tidelog format`."""
    arguments = ["--config", str(config)]
    for key, value in key_values(settings, "--set").items():
        arguments += ["--set", f"{key}={value}"]
    _become_broker(arguments)


def format_directories(
    config: Config,
    cluster_id: Annotated[
        str | None,
        typer.Option(
            "--cluster-id",
            metavar="ID",
            help="Id of the cluster, the same on every node. [default: a new id, if this is the only controller]",
        ),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="This controller is the only voter; others may join later.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            metavar="ID@HOST:PORT:DIRECTORYID,…",
            help="The first voters, the same on every node; `tidelog random-uuid` prints a DIRECTORYID.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", help="This controller joins an existing quorum.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Prepare the directories of a node: write cluster and node ids, and on a controller the first voters.

    The voters come from --standalone, --initial-controllers or --no-initial-controllers. If the file has
    controller.quorum.voters, none of them is needed.
    """
    from tidelog.cli.output import bad_usage

    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise bad_usage("--standalone, --initial-controllers and --no-initial-controllers: give only one of them")
    arguments = ["format", "--config", str(config)]
    # Joined by "=": an id may begin with a dash.
    if cluster_id is not None:
        arguments.append(f"--cluster-id={cluster_id}")
    if standalone:
        arguments.append("--standalone")
    if initial_controllers is not None:
        arguments.append(f"--initial-controllers={initial_controllers}")
    if no_initial_controllers:
        arguments.append("--no-initial-controllers")
    if quiet:
        arguments.append("--quiet")
    if as_json:
        arguments.append("--json")
    _become_broker(arguments)


def print_random_uuid(as_json: Json = False) -> None:
    """Print a new random id, for a cluster or for the metadata directory of a voter."""
    from tidelog.cli.output import print_json
    from tidelog.core.ids import random_uuid, uuid_to_text

    uuid = uuid_to_text(random_uuid(random.SystemRandom()))
    if as_json:
        print_json({"uuid": uuid})
    else:
        typer.echo(uuid)


def _become_broker(arguments: list[str]) -> NoReturn:
    # Replaces this process: a node carries nothing of the command line in its memory, and signals reach it directly.
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "tidelog.broker", *arguments])
