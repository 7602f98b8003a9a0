"""A listener of Apache Kafka that speaks TLS and asks who we are: written with SCRAM and read with PLAIN."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop.apache_kafka import DEFAULTS, ApacheKafka, free_ports
from tests.interop.jvm import run_tool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PKI = Path(__file__).resolve().parents[2] / "unit" / "client" / "pki"
PASSWORD = "s3cr3t-of-mine"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TRUST = {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": str(PKI / "ca.pem")}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, jars: Path) -> Iterator[str]:
    """Its SASL_SSL listener. SCRAM's users are told to it over the other one."""
    plain, controller, sasl_ssl = free_ports(3)
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},SASL_SSL://127.0.0.1:{sasl_ssl}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": DEFAULTS["listener.security.protocol.map"] + ",SASL_SSL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(PKI / "server.pem"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_anna="{PASSWORD}";',
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
    }
    with ApacheKafka(tmp_path_factory.mktemp("secured"), config):
        told = ["--alter", "--add-config", f"SCRAM-SHA-512=[password={PASSWORD}]", "--entity-type", "users"]
        done = run_tool("kafka-configs", "--bootstrap-server", f"127.0.0.1:{plain}", *told, "--entity-name", "anna")
        assert done.status == 0, done
        yield f"127.0.0.1:{sasl_ssl}"


def sasl(mechanism: str, module: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        **TRUST,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f'{module} required username="anna" password="{password}";',
    }


def test_written_with_scram_and_read_with_plain(spark: "SparkSession", secured: str) -> None:
    frame = spark.createDataFrame([(f"k{n}", f"v{n}") for n in range(20)], "key string, value string")
    writer = frame.write.format("tidelog").option("kafka.bootstrap.servers", secured).option("topic", "secured")
    writer.options(**sasl("SCRAM-SHA-512", SCRAM)).mode("append").save()
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", secured).option("subscribe", "secured")
    found = reader.options(**sasl("PLAIN", PLAIN)).load().selectExpr("cast(key as string)", "cast(value as string)")
    assert sorted(tuple(row) for row in found.collect()) == sorted((f"k{n}", f"v{n}") for n in range(20))


def test_a_wrong_password_ends_the_query_and_is_not_told(spark: "SparkSession", secured: str) -> None:
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", secured).option("subscribe", "secured")
    with pytest.raises(Exception, match=r"refuses us: .*uthentication failed") as caught:
        reader.options(**sasl("SCRAM-SHA-512", SCRAM, "wr0ng")).load().count()
    assert "wr0ng" not in str(caught.value)
