"""The partitions of a topic, for commands to which a user names one; and topics that a broker creates on request."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from tidelog.cli.output import CommandFailed, counted

if TYPE_CHECKING:
    from tidelog.client.client import Client

# How long a topic that the broker is just creating for us may take to appear.
_AUTO_CREATE_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.1


def check_partition(topic: str, partition: int | None, known: Collection[int]) -> None:
    """CommandFailed if the user names a partition that the topic does not have."""
    if partition is not None and partition not in known:
        raise CommandFailed(f"{topic} has no partition {partition}: it has {_numbered(len(known))}")


async def partitions_of(client: "Client", topic: str) -> list[int]:
    """Their numbers, in order; ApiError if there is no such topic."""
    return sorted(entry.partition_index for entry in (await client.topic(topic)).partitions)


async def partitions_if_exists(client: "Client", topic: str) -> list[int] | None:
    """The same, or None if there is no such topic. Never creates one."""
    from tidelog.wire.errors import ApiError, ErrorCode

    try:
        return await partitions_of(client, topic)
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return None


async def check_creatable(client: "Client", topic: str, partition: int | None) -> int | None:
    """CommandFailed if a write to `partition` of a new topic is bound to fail: then the topic is not created.

    Returns the largest batch in bytes that the new topic would accept, None if the broker does not report it.
    """
    from tidelog.client.configs import ResourceType, describe_configs
    from tidelog.wire.errors import ApiError

    await client.refresh([])
    broker = str(min(client.metadata.brokers))
    try:
        keys = ["auto.create.topics.enable", "num.partitions", "message.max.bytes"]
        found = {row.name: row.value for row in await describe_configs(client, ResourceType.BROKER, broker, keys)}
    except ApiError:
        # A user may write without the right to see configs; then the broker's answer decides.
        return None
    if found.get("auto.create.topics.enable") == "false":
        raise CommandFailed(f"topic {topic!r} does not exist: `tidelog topics create {topic}` creates it")
    count = int(found.get("num.partitions") or 1)
    if partition is not None and partition >= count:
        raise CommandFailed(
            f"{topic} has no partition {partition}: it does not exist, and a new topic gets {_numbered(count)}"
        )
    limit = found.get("message.max.bytes")
    return int(limit) if limit else None


async def created_partitions(client: "Client", topic: str) -> list[int]:
    """Has the broker create a topic, and waits until it appears."""
    import asyncio

    from tidelog.wire.errors import ApiError, ErrorCode

    loop = asyncio.get_running_loop()
    deadline = loop.time() + _AUTO_CREATE_PATIENCE_S
    while True:
        try:
            found = await client.topic(topic, allow_auto_create=True)
            if found.partitions:
                return sorted(entry.partition_index for entry in found.partitions)
        except ApiError as error:
            waiting = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
            if error.code not in waiting or loop.time() > deadline:
                raise
        await asyncio.sleep(_PAUSE_S)


def _numbered(count: int) -> str:
    return f"{counted(count, 'partition')}, numbered from 0"
