"""What the interop tests are handed, and the line `make interop` ends with."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright
from tests.clients.targets import Target, one_node
from tests.interop.kafka_jars import ensure_jars
from tests.interop.registries import SKIP_WORD, RegistryUnreachable, ensure_debian, skip_unreachable
from tests.interop.tools import Tools

HERE = Path(__file__).resolve().parent
NEEDLESS: Final = "skipped without need"
# A container's root has no sandbox. The rest keeps the browser from requests of its own.
BROWSER_ARGUMENTS: Final = [
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=15_000)


class Outcomes:
    """What became of the interop tests, whichever worker ran them."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.nodeid.startswith("tests/interop/"):
            return
        if report.skipped:
            self._found[report.nodeid] = "skipped" if SKIP_WORD in str(report.longrepr) else NEEDLESS
        elif report.when == "call" and report.passed:
            self._found[report.nodeid] = "passed"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A skip is for a registry that does not answer; any other one fails the run."""
        if NEEDLESS in self._found.values():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        outcomes = list(self._found.values())
        if not outcomes:
            return
        passed, needless = outcomes.count("passed"), outcomes.count(NEEDLESS)
        if needless:
            terminalreporter.write_line(f"{needless} skipped although nothing was missing: see the reasons above")
        terminalreporter.write_line(f"interop: {passed} passed, {len(outcomes) - passed} skipped")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Outcomes())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Playwright keeps an event loop in this thread, so other modules must not share a process with an open one."""
    try:
        chromium = ensure_debian("chromium", "chromium")
    except RegistryUnreachable as error:
        skip_unreachable(error)
        raise
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=BROWSER_ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def complaints() -> list[str]:
    """The errors of the page. A test that expects some removes them."""
    return []


@pytest.fixture
def page(browser: Browser, complaints: list[str]) -> Iterator[Page]:
    """A page without errors that sends requests to its own server only."""
    context = browser.new_context(viewport=ViewportSize(width=1440, height=900), color_scheme="light")
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: None if "//127.0.0.1:" in asked.url else complaints.append(asked.url))
    yield page
    context.close()
    assert complaints == []


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
