"""Configs of topics and brokers: describe and alter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tidelog.client.client import Client
from tidelog.client.connection import Connection
from tidelog.client.errors import raise_for
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    """Kafka's numbers for what a config belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class AlterOperation(IntEnum):
    """What IncrementalAlterConfigs does to one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One key as the broker sees it."""

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool


DYNAMIC_SOURCES: Final = frozenset(
    {
        ConfigSource.DYNAMIC_TOPIC_CONFIG.name,
        ConfigSource.DYNAMIC_BROKER_CONFIG.name,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.name,
        ConfigSource.GROUP_CONFIG.name,
    }
)


async def describe_configs(
    client: Client, resource_type: ResourceType, name: str, keys: Sequence[str] | None = None
) -> list[ConfigEntry]:
    """Every key of a topic or broker, or those named."""
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None if keys is None else list(keys)
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False)

    async def attempt() -> list[ConfigEntry]:
        answer = await (await _connection(client, resource_type, name)).request(request, DescribeConfigsResponse)
        entries: list[ConfigEntry] = []
        for result in answer.results:
            raise_for(result.error_code, result.error_message, what=_what(resource_type, name))
            entries += [
                ConfigEntry(
                    name=config.name,
                    value=config.value,
                    source=_source(config.config_source),
                    read_only=config.read_only,
                    sensitive=config.is_sensitive,
                )
                for config in result.configs
            ]
        return sorted(entries, key=lambda entry: entry.name)

    return await client.retrying(attempt)


async def alter_configs(
    client: Client,
    resource_type: ResourceType,
    name: str,
    *,
    set_keys: Mapping[str, str] | None = None,
    delete_keys: Sequence[str] = (),
    validate_only: bool = False,
) -> None:
    """Sets and deletes keys, all or none."""
    configs = [
        AlterableConfig(name=key, config_operation=AlterOperation.SET, value=value)
        for key, value in (set_keys or {}).items()
    ]
    configs += [AlterableConfig(name=key, config_operation=AlterOperation.DELETE, value=None) for key in delete_keys]
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

    async def attempt() -> None:
        connection = await _connection(client, resource_type, name)
        answer = await connection.request(request, IncrementalAlterConfigsResponse)
        for result in answer.responses:
            raise_for(result.error_code, result.error_message, what=_what(resource_type, name))

    await client.retrying(attempt)


async def _connection(client: Client, resource_type: ResourceType, name: str) -> Connection:
    # A broker alone knows what its own file says.
    if resource_type is ResourceType.BROKER and name:
        return await client.broker(int(name))
    return await client.controller()


def _source(number: int) -> str:
    try:
        return ConfigSource(number).name
    except ValueError:
        return f"SOURCE_{number}"


def _what(resource_type: ResourceType, name: str) -> str:
    return f"{resource_type.name.lower()} {name or '(cluster default)'}"
