"""The configs of a topic that is being made: checked on the way in, described on the way out."""

from collections.abc import Mapping

from tidelog.core.config.describe import describe_topic
from tidelog.core.config.key import ConfigError
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig, validate_topic_config
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfigs


def validated_overrides(config: NodeConfig, topic: CreatableTopic) -> dict[str, str]:
    """What the topic sets, each value and all of them together being valid. Of a key named twice the last one holds."""
    overrides: dict[str, str] = {}
    for entry in topic.configs:
        if entry.value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {entry.name}")
        try:
            overrides[entry.name] = validate_topic_config(entry.name, entry.value)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    check_together(config, overrides)
    return overrides


def check_together(config: NodeConfig, overrides: Mapping[str, str]) -> None:
    """Whether valid values also go together."""
    try:
        TopicConfig.resolve(config, overrides)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def described_configs(config: NodeConfig, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """Everything in force for the new topic."""
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in describe_topic(config, overrides)
    ]
