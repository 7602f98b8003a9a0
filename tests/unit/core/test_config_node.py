"""A node's config: Kafka's defaults and rules, and one clear line for everything that cannot be used."""

import pytest

from tidelog.core.config.key import ConfigError
from tidelog.core.config.listeners import Endpoint, QuorumVoter
from tidelog.core.config.node import NodeConfig, required_keys
from tidelog.core.config.properties import parse_properties

BASE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}

# The keys and values of the file that Kafka 4.x ships.
KAFKAS_OWN_SAMPLE = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def parse(**changes: str | None) -> NodeConfig:
    return parse_with_warnings(changes)[0]


def parse_with_warnings(changes: dict[str, str | None]) -> tuple[NodeConfig, list[str]]:
    properties = {**BASE, **{name.replace("__", "."): value for name, value in changes.items()}}
    return NodeConfig.parse({name: value for name, value in properties.items() if value is not None})


def refusal(changes: dict[str, str | None]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_with_warnings(changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_kafkas_own_sample_file_is_accepted() -> None:
    config, warnings = NodeConfig.parse(parse_properties(KAFKAS_OWN_SAMPLE))
    assert config.offsets_topic_replication_factor == 1
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert config.metadata_log_dir == "/tmp/kraft-combined-logs"
    assert [str(at) for at in config.advertised_broker_listeners] == ["PLAINTEXT://localhost:9092"]
    assert [str(at) for at in config.controller_listeners] == ["CONTROLLER://:9093"]
    assert all("no authentication" in warning for warning in warnings) and len(warnings) == 2


def test_defaults_are_kafkas() -> None:
    config, warnings = NodeConfig.parse(BASE)
    assert warnings == []
    assert config.is_broker and config.is_controller
    assert config.log_retention_ms == 168 * 3_600_000
    assert config.log_roll_ms == 168 * 3_600_000
    assert config.log_roll_jitter_ms == 0
    assert config.message_max_bytes == 1_048_588
    assert (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms) == (6000, 1_800_000)
    assert (config.offsets_topic_num_partitions, config.offsets_topic_replication_factor) == (50, 3)
    assert config.offsets_retention_minutes == 10_080
    assert config.broker_session_timeout_ms == 9000
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.broker_rack is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-5"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finest_retention_unit_wins(changes: dict[str, str | None], expected: int) -> None:
    assert parse_with_warnings(changes)[0].log_retention_ms == expected


def test_roll_and_flush_fall_back_to_their_coarser_keys() -> None:
    config, _ = parse_with_warnings({"log.roll.hours": "2", "log.flush.scheduler.interval.ms": "7"})
    assert (config.log_roll_ms, config.log_flush_interval_ms) == (7_200_000, 7)
    config, _ = parse_with_warnings({"log.roll.ms": "5", "log.roll.hours": "2", "log.flush.interval.ms": "9"})
    assert (config.log_roll_ms, config.log_flush_interval_ms) == (5, 9)


def test_ipv6_literals() -> None:
    config, warnings = parse_with_warnings({"listeners": "PLAINTEXT://[::1]:9092,CONTROLLER://[::1]:9093"})
    assert config.listeners[0] == Endpoint("PLAINTEXT", "::1", 9092)
    assert str(config.listeners[0]) == "PLAINTEXT://[::1]:9092"
    assert warnings == []


def test_a_v4_and_a_v6_listener_may_share_a_port() -> None:
    config, _ = parse_with_warnings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,V6://[::1]:9092,CONTROLLER://localhost:9093",
            "listener.security.protocol.map": "plaintext:plaintext,V6:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
    )
    assert [at.listener_name for at in config.broker_listeners] == ["PLAINTEXT", "V6"]


def test_port_zero_is_a_free_port_for_several_listeners() -> None:
    config, _ = parse_with_warnings({"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"})
    assert [at.port for at in config.advertised_listeners] == [0, 0]


def test_a_controller_listener_that_is_not_advertised_is_told_as_it_listens() -> None:
    config, _ = parse_with_warnings({"advertised.listeners": "PLAINTEXT://example.org:19092"})
    told = [str(at) for at in config.advertised_listeners]
    assert told == ["PLAINTEXT://example.org:19092", "CONTROLLER://localhost:9093"]


def test_quorum_addresses() -> None:
    assert parse().controller_quorum_voters == (QuorumVoter(1, "localhost", 9093),)
    config, _ = parse_with_warnings(
        {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": "[::1]:9093"}
    )
    assert config.controller_quorum_bootstrap_servers == (("::1", 9093),)


def test_broker_id_is_another_name_of_node_id() -> None:
    config, _ = parse_with_warnings({"node.id": None, "broker.id": "1"})
    assert config.node_id == 1
    assert "must be equal to node.id=1" in refusal({"broker.id": "2"})


def test_connection_overrides() -> None:
    config, _ = parse_with_warnings({"max.connections.per.ip.overrides": "127.0.0.1:5, [::1]:6,"})
    assert config.max_connections_per_ip_overrides == (("127.0.0.1", 5), ("::1", 6))


def test_unknown_keys_warn_by_name_and_a_typo_gets_a_hint() -> None:
    _, warnings = parse_with_warnings({"my.company.flag": "x", "log.segment.byte": "1"})
    assert warnings == [
        "unknown config key my.company.flag is ignored",
        "unknown config key log.segment.byte is ignored; did you mean log.segment.bytes?",
    ]


@pytest.mark.parametrize("host", ["", "192.168.1.5", "example.org", "[fe80::1%eth0]"])
def test_a_listener_open_to_the_network_warns(host: str) -> None:
    _, warnings = parse_with_warnings({"listeners": f"PLAINTEXT://{host}:9092,CONTROLLER://localhost:9093"})
    assert warnings == [
        f"listener PLAINTEXT://{host}:9092 is reachable from the network and asks for no authentication"
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "[0:0:0:0:0:0:0:0]"])
def test_wildcards_are_never_advertised(host: str) -> None:
    listeners = f"PLAINTEXT://{host}:9092,CONTROLLER://localhost:9093"
    assert "cannot advertise" in refusal({"listeners": listeners})
    assert "cannot advertise" in refusal({"advertised.listeners": f"PLAINTEXT://{host}:9092"})
    config, _ = parse_with_warnings({"listeners": listeners, "advertised.listeners": "PLAINTEXT://example.org:9092"})
    assert config.listeners[0].is_wildcard


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"node.id": None}, "node.id is required"),
        ({"process.roles": None}, "process.roles is required"),
        ({"controller.listener.names": None}, "controller.listener.names is required"),
        ({"controller.quorum.voters": None}, "controller.quorum.voters or controller.quorum.bootstrap.servers"),
        ({"node.id": "-1"}, "node.id=-1: allowed: at least 0"),
        ({"node.id": "one"}, "node.id=one: allowed: a whole number"),
        ({"process.roles": "zookeeper"}, "process.roles=zookeeper: allowed: broker, controller"),
        ({"log.segment.bytes": "12"}, "log.segment.bytes=12: allowed: at least 1048576"),
        ({"log.retention.ms": "0"}, "log.retention.ms=0: allowed: at least 1"),
        ({"log.roll.ms": "0"}, "log.roll.ms=0: allowed: at least 1"),
        ({"log.flush.interval.ms": "-1"}, "log.flush.interval.ms=-1: allowed: at least 0"),
        ({"listeners": ""}, "listeners: needs at least one listener"),
        ({"listeners": "PLAINTEXT:9092"}, "listeners=PLAINTEXT:9092: allowed: NAME://host:port"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "IPv6 as [::1]"),
        ({"listeners": "PLAINTEXT://localhost:70000"}, "allowed: NAME://host:port"),
        ({"listeners": "PLAINTEXT://[nonsense]:9092"}, "nonsense is not an IPv6 address"),
        ({"listeners": "SSL://localhost:9092,CONTROLLER://localhost:9093"}, "SSL is not supported yet"),
        ({"listeners": "PLAINTEXT://localhost:1,PLAINTEXT://localhost:2"}, "PLAINTEXT stands there twice"),
        ({"listeners": "PLAINTEXT://localhost:1,CONTROLLER://localhost:1"}, "have the same port"),
        ({"listeners": "OTHER://localhost:1"}, "OTHER has no entry in listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://localhost:1"}, "controller.listener.names=CONTROLLER: not in listeners"),
        ({"listeners": "CONTROLLER://localhost:1"}, "a broker needs a listener"),
        ({"listener.security.protocol.map": "PLAINTEXT:TELNET"}, "the protocol one of PLAINTEXT, SSL"),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "CONTROLLER has no entry"),
        ({"advertised.listeners": "OTHER://localhost:1"}, "OTHER has no entry"),
        ({"advertised.listeners": "SSL://localhost:1"}, "SSL is not supported yet"),
        ({"advertised.listeners": "CONTROLLER://localhost:1"}, "must advertise a listener that is not a controller's"),
        ({"inter.broker.listener.name": "INTERNAL"}, "inter.broker.listener.name=INTERNAL: not an advertised listener"),
        ({"inter.broker.listener.name": "CONTROLLER"}, "not an advertised listener"),
        ({"controller.quorum.voters": "localhost:9093"}, "allowed: id@host:port"),
        ({"controller.quorum.voters": "1@localhost"}, "allowed: host:port"),
        ({"controller.quorum.voters": "1@a:1,1@b:1"}, "a node id stands there twice"),
        ({"log.dirs": ""}, "log.dirs: needs at least one directory"),
        ({"log.dirs": "/a,,/b"}, "no empty one"),
        ({"log.dirs": "/a,/a/"}, "a directory stands there twice"),
        ({"broker.heartbeat.interval.ms": "5000"}, "must be at most half of broker.session.timeout.ms=9000"),
        ({"replica.fetch.wait.max.ms": "30001"}, "must be at most replica.socket.timeout.ms=30000"),
        ({"replica.lag.time.max.ms": "400"}, "wait.max.ms=500: must be at most replica.lag.time.max.ms=400"),
        ({"num.replica.fetchers": "4"}, "and a second one for partitions far behind; accepted: '1'"),
        ({"controller.quorum.append.linger.ms": "5"}, "records are written at once"),
        ({"controller.quorum.auto.join.enable": "true"}, "when an operator adds it"),
        ({"queued.max.request.bytes": "10"}, "must be at least socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "together with max.connections.per.ip.overrides"),
        ({"max.connections.per.ip.overrides": "localhost"}, "allowed: host:count"),
        ({"num.io.threads": "9"}, "num.io.threads=9: not supported: one event loop does all the work; accepted: '8'"),
        ({"remote.log.storage.system.enable": "true"}, "tiered storage is not built yet"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "sasl.enabled.mechanisms=PLAIN: not supported"),
        ({"ssl.keystore.location": "/k"}, "leave it out"),
        ({"listener.name.plaintext.max.connections": "5"}, "settings of a single listener are not supported yet"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(changes: dict[str, str | None], line: str) -> None:
    assert line in refusal(changes)


def test_several_bad_values_are_told_at_once() -> None:
    bad: dict[str, str | None] = {f"num.{what}.threads": "99" for what in ("io", "network")}
    text = refusal(bad | {"num.partitions": "0"})
    assert all(name in text for name in (*bad, "num.partitions"))
    many: dict[str, str | None] = {f"quota.window.{n}": "5" for n in ("num", "size.seconds")}
    many |= {f"controller.quota.window.{n}": "5" for n in ("num", "size.seconds")}
    many |= {f"replication.quota.window.{n}": "5" for n in ("num", "size.seconds")}
    assert refusal(many).endswith("; and 1 more")


def test_dynamic_values_win_over_the_file_and_a_brokers_own_over_the_clusters() -> None:
    config, _ = parse_with_warnings({"log.segment.bytes": "2000000"})
    changed, warnings = config.with_dynamic(
        cluster={"log.segment.bytes": "3000000", "message.max.bytes": "5"}, broker={"log.segment.bytes": "4000000"}
    )
    assert warnings == []
    assert (changed.log_segment_bytes, changed.message_max_bytes) == (4_000_000, 5)
    back, _ = changed.with_dynamic(cluster={}, broker={})
    assert back == config


def test_a_stored_dynamic_value_that_cannot_be_used_is_left_out_and_named() -> None:
    changed, warnings = parse().with_dynamic(
        cluster={"num.partitions": "5", "log.segment.bytes": "x", "future.key": "1"}, broker={}
    )
    assert changed == parse()
    assert len(warnings) == 3 and all(warning.startswith("dynamic config ignored: ") for warning in warnings)


def test_a_small_metadata_segment_for_tests() -> None:
    config, _ = parse_with_warnings({"internal.metadata.log.segment.bytes": "1024"})
    assert config.metadata_log_segment_bytes == 1024


def test_required_keys() -> None:
    assert required_keys() == ["controller.listener.names", "node.id", "process.roles"]
