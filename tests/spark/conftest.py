"""One Spark session and one cluster for all stories on Spark. Java is all they need beside PyPI."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.spark_sessions import spark_session

from tidelog.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless")
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
