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

# Those that a test uses, and whether they are its own.
_CLUSTERS: "pytest.StashKey[dict[Cluster, bool]]" = pytest.StashKey()
_FAULTS: "pytest.StashKey[Faults]" = pytest.StashKey()
# Sections of a report: what nodes said until the test had no more use for them.
_LAST_WORDS = pytest.StashKey[list[tuple[str, str]]]()
_TOPICS = pytest.StashKey[list[str]]()
_NUMBERS = itertools.count(1)
_FLUSH_S = 10.0
# Kafka's topic names are at most 249 letters long.
_NAME_LETTERS = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "tidelog_brokers", "number of brokers of the shared cluster, and of a cluster without a marker", default="1"
    )
    parser.addini(
        "tidelog_config", "Kafka config keys for every broker, one key=value per line", type="linelist", default=[]
    )
    parser.addini("tidelog_shared_scope", "one shared cluster for each session or for each module", default="session")


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "tidelog(brokers=1, config={}): give the test a cluster of its own with these settings",
        "tidelog_topic(partitions=1, replication_factor=None, config={}): settings of the topic of tidelog_topic",
        "tidelog_faults(*kinds, hold_s=1.0, pause_s=1.0, seed=0): kill, stop, pause, isolate or slow "
        "one broker after another while the test runs",
    ):
        config.addinivalue_line("markers", line)


# --- clusters ---


@pytest.fixture
def tidelog_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster of its own for each test; its data is kept when the test fails."""
    with (
        _cluster(request.config, _marked(request, "tidelog")) as cluster,
        _in_use(request, cluster, own=True),
        _under_faults(request, cluster),
    ):
        yield cluster


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    scope = config.getini("tidelog_shared_scope")
    if scope not in ("session", "module"):
        raise pytest.UsageError(f"tidelog_shared_scope must be session or module, not {scope!r}")
    return scope


@pytest.fixture(scope=_scope)
def _tidelog_shared(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    with _cluster(request.config, {}) as cluster:
        yield cluster


@pytest.fixture
def tidelog_shared_cluster(request: pytest.FixtureRequest, _tidelog_shared: "Cluster") -> "Iterator[Cluster]":
    """A cluster that many tests share, one for each worker of xdist. What a test broke is whole again for the next."""
    if request.node.get_closest_marker("tidelog") is not None and "tidelog_cluster" not in request.fixturenames:
        pytest.fail(
            "@pytest.mark.tidelog configures tidelog_cluster, the test's own cluster; "
            "tidelog_brokers and tidelog_config configure the shared one",
            pytrace=False,
        )
    with _in_use(request, _tidelog_shared, own=False):
        with _under_faults(request, _tidelog_shared):
            yield _tidelog_shared
        _tidelog_shared.restore()
        _delete_topics(_tidelog_shared, request.node.stash.get(_TOPICS, []))


@pytest.fixture
def _tidelog_used(request: pytest.FixtureRequest) -> "Cluster":
    # Who says what cluster there is to be does not mean the one that is there already.
    own = "tidelog_cluster" in request.fixturenames or request.node.get_closest_marker("tidelog") is not None
    cluster: Cluster = request.getfixturevalue("tidelog_cluster" if own else "tidelog_shared_cluster")
    return cluster


# --- topics and clients, on the test's own cluster if it has one and else on the shared one ---


@pytest.fixture
def tidelog_bootstrap(_tidelog_used: "Cluster") -> str:
    """Addresses of all brokers, as a Kafka client takes them."""
    return _tidelog_used.bootstrap


@pytest.fixture
def tidelog_topic(request: pytest.FixtureRequest, _tidelog_used: "Cluster") -> str:
    """The name of a topic that only this test has."""
    words = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-")[:_NAME_LETTERS]
    name = f"{words}-{next(_NUMBERS)}"
    _tidelog_used.create_topic(name, **_marked(request, "tidelog_topic"))
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
    brokers, lines = config.getini("tidelog_brokers"), config.getini("tidelog_config")
    if not brokers.isdecimal():
        pytest.fail(f"tidelog_brokers must be a number, not {brokers!r}", pytrace=False)
    if unclear := [line for line in lines if "=" not in line]:
        pytest.fail(f"tidelog_config needs lines key=value, not {unclear[0]!r}", pytrace=False)
    config_keys = (line.partition("=") for line in lines)
    return {"brokers": int(brokers), "config": {key.strip(): value.strip() for key, _, value in config_keys}}


def _marked(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    """What the marker of a test says."""
    marker = request.node.get_closest_marker(name)
    if marker is None:
        return {}
    if marker.args:
        pytest.fail(f"@pytest.mark.{name} takes keyword arguments only, not {marker.args!r}", pytrace=False)
    return dict(marker.kwargs)


def _delete_topics(cluster: "Cluster", topics: list[str]) -> None:
    from tidelog.wire.errors import ApiError, ErrorCode

    for topic in topics:
        try:
            cluster.delete_topic(topic)
        except ApiError as error:
            # The test has deleted it itself.
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise


def _cluster(config: pytest.Config, marked: dict[str, Any]) -> "Cluster":
    """As the marker describes it, or else the ini file."""
    from tidelog.cluster.errors import BadConfig
    from tidelog.testing.cluster import Cluster

    try:
        return Cluster(**_options(config) | marked)
    except BadConfig as error:
        source = "@pytest.mark.tidelog" if "config" in marked else "tidelog_config"
        pytest.fail(f"{source}: {error}", pytrace=False)


@contextmanager
def _in_use(request: pytest.FixtureRequest, cluster: "Cluster", *, own: bool) -> Iterator[None]:
    """By one test."""
    stash = request.node.stash
    in_use = stash.setdefault(_CLUSTERS, {})
    in_use[cluster] = own
    try:
        yield
    finally:
        # Whether other fixtures of the test end well is known only when the cluster is gone.
        stash.setdefault(_LAST_WORDS, []).extend(_words(cluster))
        del in_use[cluster]


@contextmanager
def _under_faults(request: pytest.FixtureRequest, cluster: "Cluster") -> Iterator[None]:
    """Those that a test is marked with."""
    marker = request.node.get_closest_marker("tidelog_faults")
    if marker is None:
        yield
        return
    from tidelog.testing.faults import Faults

    with Faults(cluster, marker.args, **marker.kwargs) as faults:
        request.node.stash[_FAULTS] = faults
        yield


def _confluent_kafka() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise RuntimeError("this fixture needs confluent-kafka: pip install 'tidelog[test]'") from error
    return confluent_kafka


def _keeps_shared() -> bool:
    from tidelog.testing.cluster import kept_clusters

    return kept_clusters() is not None


def _words(cluster: "Cluster") -> list[tuple[str, str]]:
    return [(f"tidelog node {node}", cluster.log(node)) for node in cluster.nodes]


# --- hooks ---


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # After the fixtures: one may ask for a cluster that the test does not name.
    if item.get_closest_marker("tidelog_faults") is not None and _FAULTS not in item.stash:
        pytest.fail(
            "@pytest.mark.tidelog_faults needs a test with a cluster; use tidelog_cluster or another fixture",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    words = item.stash.get(_LAST_WORDS, []).copy()
    if report.when == "teardown" and _LAST_WORDS in item.stash:
        # Pytest keeps its items to the end, and there may be thousands of them.
        del item.stash[_LAST_WORDS]
    if not report.failed:
        return report
    # Also where a fixture of the test failed: after the cluster had been started for it, or when all was over.
    for cluster, own in item.stash.get(_CLUSTERS, {}).items():
        words += _words(cluster)
        # A shared cluster goes on with other tests: it is kept only where its directory was asked for.
        if own or _keeps_shared():
            cluster.keep = True
            words.append(("tidelog", f"kept in {cluster.directory}"))
    if words and _FAULTS in item.stash:
        words.append(("tidelog faults", ", ".join(item.stash[_FAULTS].history)))
    report.sections += words
    return report
