"""Tidelog beside Apache Kafka: the same questions, the same answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.adapters.confluent import Confluent
from tests.clients.targets import Target
from tests.interop.apache_kafka import DEFAULTS, ApacheKafka

# What says where a node is, or was chosen differently for the two.
OF_THE_PLACE = {
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "offsets.topic.num.partitions",
    # A cluster on one machine leaves its socket buffers to the kernel.
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
}


@pytest.fixture(scope="module")
def reference(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("reference")) as kafka:
        yield kafka


@pytest.mark.quick
def test_topics_have_the_same_configs(node: Target, reference: ApacheKafka) -> None:
    answers = []
    for bootstrap in (reference.bootstrap, node.bootstrap):
        admin = Confluent().admin(bootstrap)
        admin.create_topic("compared", config={"retention.ms": "1000"})
        answers.append(admin.topic_config("compared"))
    theirs, ours = answers
    assert {key: value for key, value in ours.items() if not key.startswith("tidelog.")} == theirs


def test_brokers_have_the_same_configs(node: Target, reference: ApacheKafka) -> None:
    theirs, ours = (Confluent().admin(each.bootstrap).broker_config(1) for each in (reference, node))
    assert not set(theirs) - set(ours), "keys that are not told"
    differing = {key: (value, ours[key]) for key, value in theirs.items() if value != ours[key]}
    assert not set(differing) - OF_THE_PLACE - set(DEFAULTS), differing
