"""`configs`: describe and alter the configs of topics and brokers."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Json,
    Quiet,
    commands,
    example,
    key_values,
    legal_topics,
)
from tidelog.cli.output import bad_usage, print_json, print_table, report_change
from tidelog.cli.session import with_client

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.client.configs import ConfigEntry, ResourceType

app = commands(
    "Show and change the configs of topics and brokers.",
    "tidelog configs describe --topic orders",
    "tidelog configs alter --topic orders --set retention.ms=60000",
)

Topic = Annotated[
    str | None,
    typer.Option("--topic", metavar="NAME", help="The topic whose configs are meant.", callback=legal_topics),
]
Broker = Annotated[
    str | None,
    typer.Option("--broker", metavar="ID", help="The broker whose configs are meant; `default` means all brokers."),
]


@app.command(epilog=example("tidelog configs describe --topic orders", "tidelog configs describe --broker 1 --all"))
def describe(
    topic: Topic = None,
    broker: Broker = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every key. [default: only keys that were set while the cluster runs]")
    ] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Show configs with their values and the source of each value."""
    resource_type, name = _resource(topic, broker)

    async def work(client: "Client") -> "list[ConfigEntry]":
        from tidelog.client.configs import describe_configs

        return await describe_configs(client, resource_type, name)

    from tidelog.client.configs import DYNAMIC_SOURCES

    found = [
        entry for entry in with_client(bootstrap, work, command_config) if everything or entry.source in DYNAMIC_SOURCES
    ]
    if as_json:
        print_json([asdict(entry) for entry in found])
        return
    rows = [
        [
            entry.name,
            "(sensitive)" if entry.sensitive else entry.value,
            entry.source,
            "yes" if entry.read_only else "no",
        ]
        for entry in found
    ]
    print_table(["KEY", "VALUE", "SOURCE", "READ-ONLY"], rows)


@app.command(epilog=example("tidelog configs alter --topic orders --set retention.ms=60000 --delete flush.ms"))
def alter(
    topic: Topic = None,
    broker: Broker = None,
    set_keys: Annotated[
        list[str] | None, typer.Option("--set", "--add-config", metavar="KEY=VALUE", help="Set a key; may be repeated.")
    ] = None,
    delete_keys: Annotated[
        list[str] | None,
        typer.Option(
            "--delete", "--delete-config", metavar="KEY", help="Return a key to its default; may be repeated."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Set or delete configs while the cluster runs. Either all changes are made or none."""
    resource_type, name = _resource(topic, broker)
    wanted = key_values(set_keys, "--set")
    if not wanted and not delete_keys:
        raise bad_usage("nothing to change: give --set KEY=VALUE or --delete KEY")

    async def work(client: "Client") -> None:
        from tidelog.client.configs import alter_configs

        await alter_configs(client, resource_type, name, set_keys=wanted, delete_keys=delete_keys or ())

    with_client(bootstrap, work, command_config)
    resource = {"topic": topic} if topic is not None else {"broker": broker}
    changes = [*(f"{key}={value}" for key, value in wanted.items()), *(f"{key} deleted" for key in delete_keys or [])]
    words = f"{_words(topic, broker)}: {', '.join(changes)}"
    report_change(words, quiet=quiet, as_json=as_json, **resource, set=wanted, deleted=delete_keys or [])


def _words(topic: str | None, broker: str | None) -> str:
    if topic is not None:
        return f"topic {topic}"
    return "all brokers" if broker == "default" else f"broker {broker}"


def _resource(topic: str | None, broker: str | None) -> "tuple[ResourceType, str]":
    from tidelog.client.configs import ResourceType

    if (topic is None) == (broker is None):
        raise bad_usage("give either --topic NAME or --broker ID")
    if topic is not None:
        return ResourceType.TOPIC, topic
    assert broker is not None
    if broker == "default":
        return ResourceType.BROKER, ""
    if not broker.isascii() or not broker.isdigit():
        raise bad_usage(f"--broker needs a broker id or `default`, not {broker!r}")
    return ResourceType.BROKER, broker
