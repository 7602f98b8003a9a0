"""`demo`: three brokers, load, SIGKILL to a leader, and a count that shows nothing acknowledged was lost."""

from typing import Annotated

import typer

from tidelog.cli.options import example
from tidelog.cli.session import cluster_errors


def register(app: typer.Typer) -> None:
    app.command(epilog=example("tidelog demo", "tidelog demo --seconds 4"))(demo)


def demo(
    seconds: Annotated[float, typer.Option("--seconds", min=0.5, max=60, help="How long to write.")] = 8.0,
) -> None:
    """Start three brokers, write to them, kill a leader in the middle, and show that nothing acknowledged was lost."""
    from tidelog.cli.demo_story import tell

    cluster_errors(lambda: tell(seconds))
