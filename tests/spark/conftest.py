"""One Spark session and one cluster for all stories on Spark. Java is all they need beside PyPI."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark_sessions import spark_session

from tidelog.jobs.java import why_no_java
from tidelog.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    stories = [item for item in items if HERE in item.path.parents]
    reason = why_no_java() if stories else None
    if reason is not None:
        for item in stories:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    with spark_session("tidelog tests") as session:
        yield session


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Nobody kills its brokers: who does, starts their own."""
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def topic(cluster: Cluster, _numbers: Iterator[int]) -> Callable[..., str]:
    """A new topic for each call."""

    def make(partitions: int = 1, **config: str) -> str:
        name = f"orders-{next(_numbers)}"
        # The records of a story are from 2023, so that their times are known.
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
        cluster.create_topic(name, partitions=partitions, config=settings)
        return name

    return make
