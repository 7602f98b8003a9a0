"""`node` and `format`: one node from a Kafka-style `server.properties`, for several hosts."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tidelog.cli.options import Settings, example, key_values

Config = Annotated[Path, typer.Option("--config", metavar="FILE", help="A Kafka-style server.properties.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=example("tidelog node --config server.properties --set log.retention.hours=24"))(node)
    app.command("format", epilog=example("tidelog format --config server.properties"))(format_directories)


def node(config: Config, settings: Settings = None) -> None:
    """Run one node until SIGTERM. Never formats: `tidelog format` prepares the directories."""
    arguments = ["--config", str(config)]
    for key, value in key_values(settings, "--set").items():
        arguments += ["--set", f"{key}={value}"]
    _become_broker(arguments)


def format_directories(
    config: Config,
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", metavar="ID", help="The same on every node; made up when left out.")
    ] = None,
) -> None:
    """Prepare a node's log directories: give them their cluster and node ids."""
    _become_broker(["format", "--config", str(config)] + (["--cluster-id", cluster_id] if cluster_id else []))


def _become_broker(arguments: list[str]) -> NoReturn:
    # Replaces this process: a node carries nothing of the command line in its memory, and signals reach it directly.
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "tidelog.broker", *arguments])
