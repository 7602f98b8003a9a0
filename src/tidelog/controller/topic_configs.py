"""The configs of a topic that is being made: checked on the way in, described on the way out."""

from collections.abc import Mapping
from typing import Final

from tidelog.core.config.describe import describe_topic
from tidelog.core.config.key import ConfigError
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig, validate_topic_config
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfigs

# Topics are made alike: what is in force for one is in force for the next thousand.
_MAX_REMEMBERED: Final = 100


class TopicDescriptions:
    """What a node's config makes of overrides: checked, and described as CreateTopics answers it.

    Resolving some thirty keys is most of the cost of making a topic, so the last answers are kept.
    """

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._known: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def of(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Everything in force for a topic with these overrides. INVALID_CONFIG if they do not go together."""
        key = tuple(sorted(overrides.items()))
        described = self._known.get(key)
        if described is None:
            check_together(self._config, overrides)
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            described = self._known[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.sensitive,
                )
                for entry in describe_topic(self._config, overrides)
            ]
        return described


def validated_overrides(topic: CreatableTopic) -> dict[str, str]:
    """What the topic sets, each value being valid. Of a key named twice the last one holds."""
    overrides: dict[str, str] = {}
    for entry in topic.configs:
        if entry.value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {entry.name}")
        try:
            overrides[entry.name] = validate_topic_config(entry.name, entry.value)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return overrides


def check_together(config: NodeConfig, overrides: Mapping[str, str]) -> None:
    """Whether valid values also go together."""
    try:
        TopicConfig.resolve(config, overrides)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
