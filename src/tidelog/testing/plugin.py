"""The pytest plugin: the fixture `tidelog_cluster`, and the nodes' last words in the report of a test that failed.

    def test_orders(tidelog_cluster):
        producer = make_producer(tidelog_cluster.bootstrap)

    @pytest.mark.tidelog(brokers=1, config={"auto.create.topics.enable": "false"})
    def test_strict(tidelog_cluster): ...

Loaded by every pytest run where Tidelog is installed, so it imports the rest only when a test asks for the fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.cluster import Cluster

_FAILED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "tidelog(brokers=1, config={}): what the fixture tidelog_cluster starts")


@pytest.fixture
def tidelog_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster of its own for each test; its data is kept when the test fails."""
    from tidelog.testing.cluster import Cluster

    marker = request.node.get_closest_marker("tidelog")
    with Cluster(**(marker.kwargs if marker is not None else {})) as cluster:
        yield cluster
        if request.node.stash.get(_FAILED, False):
            cluster.keep = True
            request.node.add_report_section("teardown", "tidelog", f"kept in {cluster.directory}\n{cluster.logs()}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> "Iterator[None]":
    report = yield
    if call.when == "call":
        item.stash[_FAILED] = call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception)
    return report
