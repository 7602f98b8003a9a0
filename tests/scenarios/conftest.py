"""The flag that rewrites scenario files; `tests/conftest.py` declares it."""

import pytest


@pytest.fixture
def rewrite_scenarios(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite-scenarios"))
