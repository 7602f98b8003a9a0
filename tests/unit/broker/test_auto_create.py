"""Topics that somebody needs and that cannot be created: clients get a code, the node's log the reason, once."""

import logging

import pytest
from tests.unit.broker.virtual_node import VirtualClient, on_virtual_time, running_node

from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

WHY = "Unable to replicate the partition 3 time(s): only 1 broker(s) are registered."


def test_an_offsets_topic_that_cannot_be_made_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with running_node(MemoryDisk(), offsets_topic_replication_factor="3"):
            client = await VirtualClient.connect()
            for version in (0, 1, 2, 3, 4, 5, 6):
                answer = await client.call(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)
                found = answer.coordinators[0] if version >= 4 else answer
                assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
            assert (await client.call(ListGroupsRequest(), 5)).groups == []

    with caplog.at_level(logging.WARNING, "tidelog.broker"):
        on_virtual_time(story)
    said = [record.message for record in caplog.records if record.name == "tidelog.broker"]
    line = f"topic __consumer_offsets cannot be created: {WHY}; see offsets.topic.replication.factor"
    assert said == [line] * 3  # of seven: the log is not the clients' to fill


def test_so_is_any_other(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with running_node(MemoryDisk(), default_replication_factor="3"):
            client = await VirtualClient.connect()
            answer = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 12)
            assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR

    with caplog.at_level(logging.WARNING, "tidelog.broker"):
        on_virtual_time(story)
    assert f"topic orders cannot be created: {WHY}; see default.replication.factor" in caplog.messages
