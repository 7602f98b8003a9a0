"""IncrementalAlterConfigs as a table."""

from typing import Any

import pytest
from tests.unit.controller.harness import Harness, cluster

from tidelog.metadata.image import ConfigResource, ResourceType
from tidelog.metadata.records import ClearElrRecord, ConfigRecord
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

E = ErrorCode
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


def with_topic() -> Harness:
    harness = cluster(1, 2)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    harness.send(CreateTopicsRequest(topics=[topic]))
    return harness


def resource(kind: int, name: str, *changes: Change) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes],
    )


def alter(harness: Harness, *resources: AlterConfigsResource, validate_only: bool = False) -> list[Any]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    responses: list[Any] = harness.send(request).responses
    return responses


def topic_configs(harness: Harness) -> dict[str, str]:
    return dict(harness.image.topic_configs("t"))


@pytest.mark.rule("C1")
def test_set_and_delete() -> None:
    harness = with_topic()
    (answer,) = alter(harness, resource(2, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "7")))
    assert (answer.error_code, answer.error_message, answer.resource_type, answer.resource_name) == (0, None, 2, "t")
    assert harness.records == [
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
        ConfigRecord(resource_type=2, resource_name="t", name="segment.ms", value="7"),
    ]
    alter(harness, resource(2, "t", ("retention.ms", DELETE, None), ("nope", DELETE, None)))
    assert harness.records == [ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value=None)]
    assert topic_configs(harness) == {"segment.ms": "7"}


def test_what_changes_nothing_is_not_recorded() -> None:
    harness = with_topic()
    alter(harness, resource(2, "t", ("retention.ms", SET, "5")))
    (answer,) = alter(harness, resource(2, "t", ("retention.ms", SET, "5"), ("segment.ms", DELETE, None)))
    assert answer.error_code == 0 and harness.records == []


def test_lists_grow_and_shrink_from_what_is_in_force() -> None:
    harness = with_topic()
    alter(harness, resource(2, "t", ("cleanup.policy", APPEND, "compact")))
    assert topic_configs(harness) == {"cleanup.policy": "delete,compact"}
    alter(harness, resource(2, "t", ("cleanup.policy", APPEND, "compact")))
    assert harness.records == []
    alter(harness, resource(2, "t", ("cleanup.policy", SUBTRACT, "delete")))
    assert topic_configs(harness) == {"cleanup.policy": "compact"}


TOPIC_REFUSALS: list[tuple[Change, ErrorCode, str]] = [
    (("retention.ms", SET, None), E.INVALID_REQUEST, "Null value not supported for : retention.ms"),
    (("retention.ms", SET, "x"), E.INVALID_CONFIG, "retention.ms"),
    (("retention.ms", APPEND, "5"), E.INVALID_CONFIG, "because its type is not LIST"),
    (("retention.ms", 9, "5"), E.INVALID_REQUEST, "Unknown operation type 9"),
    (("nope", SET, "5"), E.INVALID_CONFIG, "nope"),
    (("nope", APPEND, "5"), E.INVALID_CONFIG, "because its type is not LIST"),
    (("cleanup.policy", SET, "bogus"), E.INVALID_CONFIG, "cleanup.policy"),
    (("min.insync.replicas", SET, "0"), E.INVALID_CONFIG, "min.insync.replicas"),
]


@pytest.mark.parametrize(("change", "code", "message"), TOPIC_REFUSALS, ids=str)
def test_a_resource_changes_as_a_whole_or_not(change: Change, code: ErrorCode, message: str) -> None:
    harness = with_topic()
    (answer,) = alter(harness, resource(2, "t", ("segment.ms", SET, "7"), change))
    assert answer.error_code == code and message in answer.error_message
    assert harness.records == [] and topic_configs(harness) == {}


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "message"),
    [
        (2, "nothing", [("retention.ms", SET, "1")], E.UNKNOWN_TOPIC_OR_PARTITION, "'nothing' does not exist"),
        (2, "", [("retention.ms", SET, "1")], E.INVALID_REQUEST, "Default topic resources"),
        (99, "", [], E.INVALID_REQUEST, "Unknown resource type 99"),
        (2, "t", [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], E.INVALID_REQUEST, "duplicate config"),
        (4, "x", [("log.retention.ms", SET, "1")], E.INVALID_REQUEST, "must be an integer"),
        (4, "9", [("log.retention.ms", SET, "1")], E.INVALID_REQUEST, "Broker 9 is not registered"),
        (4, "1", [("log.dirs", SET, "/x")], E.INVALID_REQUEST, "log.dirs"),
        (4, "1", [("nope", SET, "/x")], E.INVALID_REQUEST, "nope"),
        (4, "1", [("log.retention.ms", SET, "x")], E.INVALID_REQUEST, "log.retention.ms"),
        (4, "1", [("min.insync.replicas", SET, "2")], E.INVALID_CONFIG, "while ELR is enabled"),
        (4, "", [("min.insync.replicas", DELETE, None)], E.INVALID_CONFIG, "while ELR is enabled"),
    ],
)
def test_refused_resources(kind: int, name: str, changes: list[Change], code: ErrorCode, message: str) -> None:
    harness = with_topic()
    refused, good = alter(harness, resource(kind, name, *changes), resource(4, "2", ("log.retention.ms", SET, "9")))
    assert refused.error_code == code and message in refused.error_message
    assert good.error_code == 0 and len(harness.records) == 1


def test_a_resource_named_twice() -> None:
    harness = with_topic()
    answers = alter(harness, *[resource(2, "t", ("retention.ms", SET, "1"))] * 2)
    assert [answer.error_code for answer in answers] == [E.INVALID_REQUEST] * 2
    assert "at most once" in answers[0].error_message and harness.records == []


def test_validate_only() -> None:
    harness = with_topic()
    (good,) = alter(harness, resource(2, "t", ("retention.ms", SET, "1")), validate_only=True)
    (bad,) = alter(harness, resource(2, "t", ("retention.ms", SET, "x")), validate_only=True)
    assert (good.error_code, bad.error_code) == (E.NONE, E.INVALID_CONFIG)
    assert topic_configs(harness) == {}


def test_brokers_one_and_all() -> None:
    harness = with_topic()
    alter(harness, resource(4, "1", ("log.retention.ms", SET, "5")), resource(4, "", ("log.retention.ms", SET, "6")))
    assert harness.image.broker_configs(1) == {"log.retention.ms": "5"}
    assert harness.image.broker_configs(None)["log.retention.ms"] == "6"
    assert harness.image.configs(ConfigResource(ResourceType.BROKER, "2")) == {}


def test_new_topics_see_the_dynamic_defaults_of_all_brokers() -> None:
    harness = with_topic()
    alter(harness, resource(4, "", ("log.retention.ms", SET, "6")))
    topic = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
    (result,) = harness.send(CreateTopicsRequest(topics=[topic])).topics
    assert [(c.value, c.config_source) for c in result.configs if c.name == "retention.ms"] == [("6", 3)]


@pytest.mark.rule("C5")
def test_a_new_minimum_clears_the_elr_in_the_same_batch() -> None:
    harness = with_topic()
    alter(harness, resource(2, "t", ("min.insync.replicas", SET, "2")))
    assert harness.records[-1] == ClearElrRecord(topic_name="t")
    alter(harness, resource(4, "", ("min.insync.replicas", SET, "2")))
    assert harness.records[-1] == ClearElrRecord(topic_name="")
    assert harness.decision.atomic
