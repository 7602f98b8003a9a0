"""One Spark session with both connectors, and the brokers that both read from: Tidelog, and Apache Kafka itself."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.clients.targets import Target
from tests.clients.tidelog_node import TidelogNode
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.kafka_jars import ensure_connector
from tests.interop.registries import RegistryUnreachable, ensure_debian, skip_unreachable
from tests.interop.spark.topics import Topics
from tests.spark_sessions import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Compaction within seconds, on both.
CONFIG = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "1000"}


@pytest.fixture(scope="session")
def connector() -> list[Path]:
    try:
        ensure_debian("java", "openjdk-17-jre-headless")
        return ensure_connector()
    except RegistryUnreachable as error:
        skip_unreachable(error)
        raise


@pytest.fixture(scope="session")
def spark(connector: list[Path]) -> "Iterator[SparkSession]":
    jars = ",".join(map(str, connector))
    with spark_session("tidelog interop", log_level="OFF", **{"spark.jars": jars}) as session:
        yield session


@pytest.fixture(scope="session", params=["tidelog", "apache"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The same stories on both."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "apache":
        request.getfixturevalue("jars")
        with ApacheKafka(directory, CONFIG) as kafka:
            yield kafka
    else:
        with TidelogNode(directory, CONFIG) as tidelog:
            yield tidelog


@pytest.fixture(scope="session")
def topics(broker: Target, unique: Callable[[str], str]) -> Topics:
    """Made once for each broker; the stories read them and write to others."""
    return Topics(broker.bootstrap, unique, transactions=isinstance(broker, ApacheKafka))
