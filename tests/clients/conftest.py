"""One broker per worker for all stories, and what a story is handed."""

import itertools
import os
import re
from collections.abc import Callable, Iterator

import pytest
from tests.clients.adapters import CLIENTS
from tests.clients.adapters.base import Client
from tests.clients.story import Story

# A session time-out a test can wait for, and no pause for members that are not coming.
BROKER_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
}


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """A Tidelog node, or the cluster that TIDELOG_CLIENT_BOOTSTRAP names (such as Apache Kafka, the reference)."""
    named = os.environ.get("TIDELOG_CLIENT_BOOTSTRAP")
    if named:
        yield named
        return
    from tidelog.testing import Cluster

    with Cluster(brokers=1, config=BROKER_CONFIG) as cluster:
        yield cluster.bootstrap


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    chosen: Client = request.param
    return chosen


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Names no other test uses, also when the cluster outlives this run."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:80]
    run = os.urandom(3).hex()
    count = itertools.count()
    return lambda kind: f"{kind}-{stem}-{run}-{next(count)}"


@pytest.fixture
def story(client: Client, bootstrap: str, unique: Callable[[str], str]) -> Iterator[Story]:
    with Story(client, bootstrap, unique) as told:
        yield told
