"""One Spark session and one cluster for all stories on Spark. Java is all they need beside PyPI."""

import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tidelog.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless")
    from pyspark.sql import SparkSession

    import tidelog.spark

    # Without it Spark starts whichever python3 comes first in the path.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tidelog tests")
        .config("spark.ui.enabled", "false")
        # Stories are short: time spent on compiling well what runs twice is lost.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    tidelog.spark.register(session)
    yield session
    session.stop()


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
