"""What all tests share: property tests are the same on every run, and a loaded machine does not fail them."""

import os

import pytest
from hypothesis import HealthCheck, settings

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
