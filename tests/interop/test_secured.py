"""A listener of Apache Kafka that speaks TLS and asks who we are: written with SCRAM and read with PLAIN."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.apache_kafka import DEFAULTS, ApacheKafka, free_ports
from tests.interop.jvm import run_tool

from tidelog.cli.app import run
from tidelog.cli.session import with_client
from tidelog.client.errors import AuthenticationFailed
from tidelog.client.security import parse as parse_security
from tidelog.core.config.properties import format_properties
from tidelog.jobs.audit.live import audit_replica, plan_live
from tidelog.spark import options, sink_options
from tidelog.spark.brokers import Brokers
from tidelog.spark.planning import Planner
from tidelog.spark.reading import read
from tidelog.spark.writing import write

PKI = Path(__file__).resolve().parents[1] / "unit" / "client" / "pki"
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


@pytest.mark.quick
def test_written_with_scram_and_read_with_plain(secured: str) -> None:
    """What a task of the sink does, what the driver asks, and what a task of the source does."""
    base = {"kafka.bootstrap.servers": secured}
    to = sink_options.parse(
        base | sasl("SCRAM-SHA-512", SCRAM) | {"topic": "secured"},
        {"key": "string", "value": "string"},
        overwrite=False,
    )
    table = {"key": [f"k{n}" for n in range(20)], "value": [f"v{n}" for n in range(20)]}
    assert write(to, [pa.record_batch(table)]) == 20
    source = options.parse(base | sasl("PLAIN", PLAIN) | {"subscribe": "secured"}, streaming=False)
    brokers = Brokers(source)
    try:
        ranges = Planner(source, brokers).batch_ranges()
    finally:
        brokers.close()
    found = [
        row for each in ranges for batch in read(source, each) for row in batch.select(["key", "value"]).to_pylist()
    ]
    assert sorted((row["key"].decode(), row["value"].decode()) for row in found) == sorted(
        zip(table["key"], table["value"], strict=True)
    )


def test_replicas_are_asked_for_their_copies_and_commands_take_the_properties_of_kafkas_tools(
    secured: str, tmp_path: Path
) -> None:
    properties = {key.removeprefix("kafka."): value for key, value in sasl("PLAIN", PLAIN).items()}
    security = parse_security(properties)
    [replica] = plan_live(secured, ["secured"], security).replicas
    kinds = [(row.kind, row.what) for row in audit_replica(replica, security=security)]
    assert kinds and {kind for kind, _ in kinds} == {"batch"}, kinds
    file = tmp_path / "client.properties"
    file.write_text(format_properties(properties))
    found = with_client(secured, lambda client: client.topic("secured"), file)
    assert len(found.partitions) == 1


def test_a_wrong_password_is_refused_and_not_told(secured: str) -> None:
    given = {"kafka.bootstrap.servers": secured, "subscribe": "secured"} | sasl("SCRAM-SHA-512", SCRAM, "wr0ng")
    brokers = Brokers(options.parse(given, streaming=False))
    try:
        with pytest.raises(AuthenticationFailed, match=r"refuses us: .*uthentication failed") as caught:
            brokers.partitions()
    finally:
        brokers.close()
    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize("command", ["verify --seconds 1 --min-acknowledged 1", "bench --records 100"])
def test_commands_of_librdkafka_show_who_they_are(
    secured: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "client.properties"
    given = {name.removeprefix("kafka."): value for name, value in sasl("SCRAM-SHA-512", SCRAM).items()}
    properties.write_text(format_properties(given))
    status = run([*command.split(), "--bootstrap", secured, "--command-config", str(properties)])
    assert status == 0, capsys.readouterr()
