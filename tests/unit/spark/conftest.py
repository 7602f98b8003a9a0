"""The connections that tasks share end with each test: its brokers do."""

from collections.abc import Iterator

import pytest

from tidelog.spark.connections import CONNECTIONS


@pytest.fixture(autouse=True)
def _no_kept_connections() -> Iterator[None]:
    yield
    CONNECTIONS.close()
