"""One broker per worker for all stories, and what a story is handed."""

import itertools
import os
import re
from collections.abc import Callable, Iterator

import pytest
from tests.clients.adapters import CLIENTS
from tests.clients.adapters.base import Client
from tests.clients.story import Story
from tests.clients.targets import shared_bootstrap


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shared_bootstrap(tmp_path_factory.mktemp("node")) as address:
        yield address


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
