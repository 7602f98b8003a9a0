"""Whether brokers record replication events, and the command that switches recording on."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from tidelog.client.client import Client

KEY: Final = "tidelog.replication.events.enable"


async def records(client: "Client") -> bool:
    """Whether any broker records."""
    from tidelog.client.configs import ResourceType, describe_configs

    await client.refresh([])
    for broker in sorted(client.metadata.brokers):
        entries = await describe_configs(client, ResourceType.BROKER, str(broker), [KEY])
        if any(entry.value == "true" for entry in entries):
            return True
    return False


def switch_on(bootstrap: str, command_config: Path | None) -> str:
    """A command line that works as it is printed."""
    words = ["tidelog", "configs", "alter", "--broker", "default", "--set", f"{KEY}=true"]
    if bootstrap != DEFAULT_BOOTSTRAP:
        words += ["--bootstrap", bootstrap]
    if command_config is not None:
        words += ["--command-config", str(command_config)]
    return shlex.join(words)
