"""What the interop tests are handed, and the line `make interop` ends with."""

import itertools
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from tests.clients.targets import Target, one_node
from tests.interop.kafka_jars import ensure_jars
from tests.interop.registries import SKIP_WORD, RegistryUnreachable, ensure_debian, skip_unreachable
from tests.interop.tools import Tools

HERE = Path(__file__).resolve().parent
OUTCOMES = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OUTCOMES] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if HERE in item.path.parents:
        outcomes = item.config.stash[OUTCOMES]
        if report.skipped:
            outcomes[item.nodeid] = "skipped" if SKIP_WORD in str(report.longrepr) else "skipped without need"
        elif report.when == "call" and report.passed:
            outcomes[item.nodeid] = "passed"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skip is for a registry that does not answer; any other one fails the run."""
    needless = [name for name, what in session.config.stash[OUTCOMES].items() if what == "skipped without need"]
    if needless:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    outcomes = list(config.stash[OUTCOMES].values())
    if outcomes:
        skipped = len(outcomes) - outcomes.count("passed")
        needless = outcomes.count("skipped without need")
        if needless:
            print(f"{needless} skipped although nothing was missing: see the reasons above")
        print(f"interop: {outcomes.count('passed')} passed, {skipped} skipped")


@pytest.fixture(scope="session")
def jars() -> Path:
    try:
        return ensure_jars()
    except RegistryUnreachable as error:
        skip_unreachable(error)
        raise


@pytest.fixture(scope="session")
def kcat() -> str:
    try:
        return ensure_debian("kcat", "kcat")
    except RegistryUnreachable as error:
        skip_unreachable(error)
        raise


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One node for all tests; TIDELOG_CLIENT_TARGET=apache makes it Apache Kafka, to check the tests themselves."""
    with one_node(tmp_path_factory.mktemp("node")) as started:
        yield started


@pytest.fixture(scope="session")
def tools(jars: Path, node: Target) -> Tools:
    return Tools(node.bootstrap)


@pytest.fixture(scope="session")
def unique() -> Callable[[str], str]:
    count = itertools.count()
    return lambda kind: f"{kind}-{os.getpid()}-{next(count)}"
