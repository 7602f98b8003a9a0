"""What all tests share: property tests are the same on every run, and a loaded machine does not fail them."""

import os
from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from tidelog.jobs.java import NEEDED

ON_SPARK: Final = ("tests/spark/", "tests/interop/spark/")

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# `make soak` looks further: other examples on every run, and more of them.
settings.register_profile(
    "soak", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("soak" if os.environ.get("TIDELOG_SOAK") else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scenarios", action="store_true", help="write what happened into the files of tests/scenarios"
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which stories were left out for want of Java: the reasons alone say only how many."""
    left_out = Counter(
        report.nodeid.partition("::")[0]
        for report in terminalreporter.stats.get("skipped", [])
        if NEEDED in str(report.longrepr)
    )
    if left_out:
        files = ", ".join(f"{count} of {file}" for file, count in sorted(left_out.items()))
        terminalreporter.write_line(f"left out without Java: {files}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Stories on Spark share one JVM in one worker. (Marks of xdist's `loadgroup` have no effect in this pytest.)"""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith(ON_SPARK) else nodeid

    return OneSpark(config, log)
