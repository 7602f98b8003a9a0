"""Throttles of a reassignment: how fast replicas that move may be copied, set and taken away as Kafka's own tool does.

The rate is a config of each broker; which replicas it slows down is a config of the topic. Both have two sides: the
leader's, who sends, and the follower's, who fetches.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.client.client import Client
from tidelog.client.configs import ConfigSource, ResourceType, alter_configs, describe_configs

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


# Every replica of the topic, as a person sets it: no reassignment adds to it or takes from it.
_ALL: Final = "*"


async def set_throttle(
    client: Client, topic: str, partition: int, *, old: Collection[int], new: Collection[int], bytes_per_second: int
) -> None:
    """Throttles the copying of one partition from its `old` replicas to those of `new` that are not among them."""
    rates = {LEADER_RATE: str(bytes_per_second), FOLLOWER_RATE: str(bytes_per_second)}
    for broker in sorted({*old, *new}):
        await alter_configs(client, ResourceType.BROKER, str(broker), set_keys=rates)
    moving = {LEADER_REPLICAS: sorted(old), FOLLOWER_REPLICAS: sorted(set(new) - set(old))}
    throttled = await _throttled(client, topic)
    changed = {
        key: _text([*_without(throttled[key], partition), *(f"{partition}:{broker}" for broker in brokers)])
        for key, brokers in moving.items()
        if _ALL not in throttled[key]
    }
    await _set_or_delete(client, topic, changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """The throttles of one topic's replicas and of some brokers, as they were set."""

    topic: str
    replicas: Mapping[str, Sequence[str]]
    rates: Mapping[int, Mapping[str, str]]


async def read_throttle(client: Client, topic: str, brokers: Collection[int]) -> Throttle:
    """What `restore_throttle` needs; an error if one of the brokers does not exist."""
    rates = {broker: await _rates(client, broker) for broker in sorted(brokers)}
    return Throttle(topic=topic, replicas=await _throttled(client, topic), rates=rates)


async def restore_throttle(client: Client, before: Throttle) -> None:
    """Takes back `set_throttle`, for a reassignment that was refused."""
    await _set_or_delete(client, before.topic, {key: _text(entries) for key, entries in before.replicas.items()})
    for broker, rates in before.rates.items():
        unset = [key for key in (LEADER_RATE, FOLLOWER_RATE) if key not in rates]
        await alter_configs(client, ResourceType.BROKER, str(broker), set_keys=rates, delete_keys=unset)


async def remove_throttle(client: Client, topic: str, partition: int) -> set[int]:
    """Takes one partition's replicas off the topic's lists and returns their brokers, whose rates stay: others may
    still be moving there.
    """
    throttled = await _throttled(client, topic)
    left = {key: _without(entries, partition) for key, entries in throttled.items()}
    await _set_or_delete(client, topic, {key: _text(left[key]) for key in left if left[key] != throttled[key]})
    gone = {entry for key, entries in throttled.items() for entry in entries if entry not in left[key]}
    return {int(entry.partition(":")[2]) for entry in gone}


async def remove_rates(client: Client, brokers: Collection[int]) -> None:
    """Takes the rates away, once nothing moves any more."""
    for broker in sorted(brokers):
        dynamic = await _rates(client, broker)
        if dynamic:
            await alter_configs(client, ResourceType.BROKER, str(broker), delete_keys=list(dynamic))


async def _rates(client: Client, broker: int) -> dict[str, str]:
    """Those that were set for this broker alone."""
    entries = await describe_configs(client, ResourceType.BROKER, str(broker), [LEADER_RATE, FOLLOWER_RATE])
    dynamic = ConfigSource.DYNAMIC_BROKER_CONFIG.name
    return {entry.name: entry.value or "" for entry in entries if entry.source == dynamic}


async def _throttled(client: Client, topic: str) -> dict[str, list[str]]:
    """The topic's lists of throttled replicas: `partition:broker` each, or `*`."""
    keys = [LEADER_REPLICAS, FOLLOWER_REPLICAS]
    found = {entry.name: entry.value or "" for entry in await describe_configs(client, ResourceType.TOPIC, topic, keys)}
    return {key: [entry for entry in found.get(key, "").split(",") if entry] for key in keys}


async def _set_or_delete(client: Client, topic: str, values: Mapping[str, str]) -> None:
    if values:
        await alter_configs(
            client,
            ResourceType.TOPIC,
            topic,
            set_keys={key: value for key, value in values.items() if value},
            delete_keys=[key for key, value in values.items() if not value],
        )


def _without(entries: Iterable[str], partition: int) -> list[str]:
    return [entry for entry in entries if not entry.startswith(f"{partition}:")]


def _text(entries: Iterable[str]) -> str:
    return ",".join(entries)
