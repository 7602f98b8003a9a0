"""The pytest plugin: clusters, topics and clients as fixtures, and the nodes' last words in reports of failed tests.

    def test_orders(tidelog_cluster):                     # a cluster of its own
        producer = make_producer(tidelog_cluster.bootstrap)

    def test_more(tidelog_topic, tidelog_bootstrap): ...  # a topic of its own on a cluster that many tests share

    @pytest.mark.tidelog(brokers=3, config={"auto.create.topics.enable": "false"})
    @pytest.mark.tidelog_faults("kill", "pause")          # while the test runs
    def test_strict(tidelog_cluster): ...

`docs/guide/testing.md` has all of it. Loaded by every pytest run where Tidelog is installed, so it imports the rest
only when a test asks for a fixture.
"""

import itertools
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

    from tidelog.testing.cluster import Cluster
    from tidelog.testing.faults import Faults

_CLUSTER: "pytest.StashKey[Cluster]" = pytest.StashKey()
_FAULTS: "pytest.StashKey[Faults]" = pytest.StashKey()
_TOPICS = pytest.StashKey[list[str]]()
_NUMBERS = itertools.count(1)
_FLUSH_S = 10.0
# Kafka's topic names are at most 249 letters long.
_NAME_LETTERS = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tidelog_brokers", "brokers of a cluster that no marker describes", default="1")
    parser.addini(
        "tidelog_config", "lines key=value: Kafka's config keys for every broker", type="linelist", default=[]
    )
    parser.addini("tidelog_shared_scope", "how long a shared cluster lives: session or module", default="session")


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "tidelog(brokers=1, config={}): what the fixture tidelog_cluster starts",
        "tidelog_topic(partitions=1, replication_factor=None, config={}): what the fixture tidelog_topic creates",
        "tidelog_faults(*kinds, hold_s=1.0, pause_s=1.0, seed=0): kill, stop, pause, isolate or slow one broker "
        "at a time while the test runs",
    ):
        config.addinivalue_line("markers", line)


# --- clusters ---


@pytest.fixture
def tidelog_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster of its own for each test; its data is kept when the test fails."""
    marker = request.node.get_closest_marker("tidelog")
    options = {**_options(request.config), **(marker.kwargs if marker is not None else {})}
    with _started(options) as cluster, _in_use(request, cluster):
        yield cluster


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    scope = config.getini("tidelog_shared_scope")
    if scope not in ("session", "module"):
        raise pytest.UsageError(f"tidelog_shared_scope is session or module, not {scope!r}")
    return scope


@pytest.fixture(scope=_scope)
def _tidelog_shared(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    with _started(_options(request.config)) as cluster:
        yield cluster


@pytest.fixture
def tidelog_shared_cluster(request: pytest.FixtureRequest, _tidelog_shared: "Cluster") -> "Iterator[Cluster]":
    """A cluster that many tests share, one for each worker of xdist. What a test broke is whole again for the next."""
    with _in_use(request, _tidelog_shared):
        yield _tidelog_shared
    _tidelog_shared.restore()
    for topic in request.node.stash.get(_TOPICS, []):
        _tidelog_shared.delete_topic(topic)


@pytest.fixture
def _tidelog_used(request: pytest.FixtureRequest) -> "Cluster":
    own = "tidelog_cluster" in request.fixturenames
    cluster: Cluster = request.getfixturevalue("tidelog_cluster" if own else "tidelog_shared_cluster")
    return cluster


# --- topics and clients, on the test's own cluster if it has one and else on the shared one ---


@pytest.fixture
def tidelog_bootstrap(_tidelog_used: "Cluster") -> str:
    """Addresses of all brokers, for any Kafka client."""
    return _tidelog_used.bootstrap


@pytest.fixture
def tidelog_topic(request: pytest.FixtureRequest, _tidelog_used: "Cluster") -> str:
    """The name of a topic that only this test has."""
    marker = request.node.get_closest_marker("tidelog_topic")
    words = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-")[:_NAME_LETTERS]
    name = f"{words}-{next(_NUMBERS)}"
    _tidelog_used.create_topic(name, **(marker.kwargs if marker is not None else {}))
    request.node.stash.setdefault(_TOPICS, []).append(name)
    return name


@pytest.fixture
def tidelog_producer(tidelog_bootstrap: str) -> "Iterator[Producer]":
    """A producer of confluent-kafka, idempotent and with acks=all."""
    producer = _confluent_kafka().Producer({"bootstrap.servers": tidelog_bootstrap, "enable.idempotence": True})
    yield producer
    producer.flush(_FLUSH_S)


@pytest.fixture
def tidelog_consumer(tidelog_bootstrap: str) -> "Iterator[Callable[..., Consumer]]":
    """Makes consumers of confluent-kafka: `tidelog_consumer(topic, group="g", config={…})`.

    They read from the beginning, each in a group of its own unless one is named, and are closed after the test.
    """
    with ExitStack() as opened:

        def consumer(*topics: str, group: str | None = None, config: Mapping[str, Any] | None = None) -> "Consumer":
            made: Consumer = _confluent_kafka().Consumer(
                {
                    "bootstrap.servers": tidelog_bootstrap,
                    "group.id": group if group is not None else f"tidelog-test-{next(_NUMBERS)}",
                    "auto.offset.reset": "earliest",
                    **(config or {}),
                }
            )
            opened.callback(made.close)
            made.subscribe(list(topics))
            return made

        yield consumer


# --- inside ---


def _options(config: pytest.Config) -> dict[str, Any]:
    settings = dict(line.split("=", 1) for line in config.getini("tidelog_config"))
    return {"brokers": int(config.getini("tidelog_brokers")), "config": settings}


def _started(options: Mapping[str, Any]) -> "Cluster":
    from tidelog.testing.cluster import Cluster

    return Cluster(**options)


@contextmanager
def _in_use(request: pytest.FixtureRequest, cluster: "Cluster") -> Iterator[None]:
    """By one test, under the faults that it is marked with."""
    request.node.stash[_CLUSTER] = cluster
    marker = request.node.get_closest_marker("tidelog_faults")
    try:
        if marker is None:
            yield
        else:
            from tidelog.testing.faults import Faults

            with Faults(cluster, marker.args, **marker.kwargs) as faults:
                request.node.stash[_FAULTS] = faults
                yield
    finally:
        del request.node.stash[_CLUSTER]


def _confluent_kafka() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise RuntimeError("this fixture needs confluent-kafka: pip install 'tidelog[test]'") from error
    return confluent_kafka


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cluster = item.stash.get(_CLUSTER, None)
    if cluster is not None and report.failed and call.when == "call":
        for node in cluster.nodes:
            report.sections.append((f"tidelog node {node}", cluster.log(node)))
        if _FAULTS in item.stash:
            report.sections.append(("tidelog faults", ", ".join(item.stash[_FAULTS].history)))
        if "tidelog_cluster" in getattr(item, "fixturenames", ()):
            cluster.keep = True
            report.sections.append(("tidelog", f"kept in {cluster.directory}"))
    return report
