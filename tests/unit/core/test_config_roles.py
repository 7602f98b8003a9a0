"""Brokers, controllers and nodes that are both: which listeners and which quorum each may be given."""

import re
from pathlib import Path

import pytest

from tidelog.core.config.key import ConfigError
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.properties import parse_properties

ROOT = Path(__file__).resolve().parents[3]

VOTERS = "1@c1:9093,2@c2:9093,3@c3:9093"
COMMON = {"controller.listener.names": "CONTROLLER", "controller.quorum.voters": VOTERS}
CONTROLLER = COMMON | {"node.id": "1", "process.roles": "controller", "listeners": "CONTROLLER://localhost:9093"}
BROKER = COMMON | {"node.id": "11", "process.roles": "broker", "listeners": "PLAINTEXT://localhost:9092"}
COMBINED = COMMON | {
    "node.id": "2",
    "process.roles": "controller,broker",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
}


def parse(base: dict[str, str], changes: dict[str, str | None]) -> tuple[NodeConfig, list[str]]:
    properties = base | changes
    return NodeConfig.parse({name: value for name, value in properties.items() if value is not None})


def test_a_controller_serves_no_clients() -> None:
    config, warnings = parse(CONTROLLER, {})
    assert (config.is_broker, config.is_controller) == (False, True)
    assert config.broker_listeners == config.advertised_broker_listeners == ()
    assert [str(at) for at in config.controller_listeners] == ["CONTROLLER://localhost:9093"]
    assert warnings == []


def test_a_controller_may_advertise_its_listener() -> None:
    config, warnings = parse(
        CONTROLLER, {"listeners": "CONTROLLER://127.0.0.1:1", "advertised.listeners": "CONTROLLER://c1:9093"}
    )
    assert [str(at) for at in config.advertised_controller_listeners] == ["CONTROLLER://c1:9093"]
    assert warnings == [], "the address of the voters is the advertised one"


@pytest.mark.parametrize("base", [CONTROLLER, COMBINED])
def test_a_controller_that_listens_everywhere_is_told_by_its_machines_name(base: dict[str, str]) -> None:
    clients = "PLAINTEXT://localhost:9092,"
    listeners = (clients if base is COMBINED else "") + "CONTROLLER://0.0.0.0:9093"
    config, _ = parse(base, {"listeners": listeners})
    assert [at.host for at in config.advertised_controller_listeners] == [""]
    config, _ = parse(COMBINED, {"listeners": clients + "CONTROLLER://[::]:9093", "advertised.listeners": clients[:-1]})
    assert [at.host for at in config.advertised_controller_listeners] == [""]


def test_a_broker_finds_the_controllers_in_the_voters_or_by_bootstrap_servers() -> None:
    config, warnings = parse(BROKER, {})
    assert (config.is_broker, config.is_controller) == (True, False)
    assert config.controller_listeners == config.advertised_controller_listeners == ()
    assert config.controller_listener_names == ("CONTROLLER",)
    assert [str(voter) for voter in config.controller_quorum_voters] == VOTERS.split(",")
    assert warnings == []
    servers: dict[str, str | None] = {"controller.quorum.bootstrap.servers": "c1:9093,[::1]:9094"}
    config, _ = parse(BROKER, servers | {"controller.quorum.voters": None})
    assert config.controller_quorum_bootstrap_servers == (("c1", 9093), ("::1", 9094))


def test_a_combined_node_among_several_voters() -> None:
    config, warnings = parse(COMBINED, {})
    assert config.is_broker and config.is_controller
    assert len(config.controller_quorum_voters) == 3
    assert warnings == []


def test_a_node_outside_static_voters_may_be_a_controller_of_a_dynamic_quorum() -> None:
    config, _ = parse(
        CONTROLLER, {"node.id": "9", "controller.quorum.voters": None, "controller.quorum.bootstrap.servers": "c1:9093"}
    )
    assert config.is_controller and config.controller_quorum_voters == ()


@pytest.mark.parametrize(
    ("base", "changes", "line"),
    [
        (BROKER, {"process.roles": "broker,broker"}, "process.roles=broker,broker: a role stands there twice"),
        (BROKER, {"process.roles": ""}, "process.roles is required"),
        (BROKER, {"process.roles": "broker,observer"}, "allowed: broker, controller"),
        # A controller
        (
            CONTROLLER,
            {"listeners": "CONTROLLER://localhost:9093,PLAINTEXT://localhost:9092"},
            "listeners=PLAINTEXT://localhost:9092: with process.roles=controller only those of",
        ),
        (CONTROLLER, {"listeners": "PLAINTEXT://localhost:9092"}, "controller.listener.names=CONTROLLER: not in"),
        (CONTROLLER, {"advertised.listeners": "PLAINTEXT://c1:9092"}, "PLAINTEXT is not in listeners"),
        (CONTROLLER, {"advertised.listeners": "CONTROLLER://0.0.0.0:9093"}, "cannot advertise"),
        (CONTROLLER, {"node.id": "4"}, f"{VOTERS}: this controller, node.id=4, must be among them"),
        (CONTROLLER, {"controller.quorum.voters": None}, "controller.quorum.bootstrap.servers is required"),
        (CONTROLLER, {"controller.listener.names": None}, "controller.listener.names is required"),
        # A broker
        (
            BROKER,
            {"listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"},
            "listeners=CONTROLLER://localhost:9093: with process.roles=broker no listener of",
        ),
        (BROKER, {"node.id": "3"}, "node.id=3 is among them, but process.roles=broker"),
        (BROKER, {"controller.listener.names": None}, "controller.listener.names is required"),
        (BROKER, {"controller.quorum.voters": None}, "controller.quorum.bootstrap.servers is required"),
        (
            BROKER,
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "controller.listener.names=CONTROLLER: it has no entry in listener.security.protocol.map",
        ),
        (
            BROKER,
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"},
            "controller.listener.names=CONTROLLER: SSL is not supported yet",
        ),
        (BROKER, {"advertised.listeners": "CONTROLLER://c1:9093"}, "CONTROLLER is not in listeners"),
        (BROKER, {"inter.broker.listener.name": "CONTROLLER"}, "not an advertised listener of this broker"),
        # Both
        (COMBINED, {"listeners": "CONTROLLER://localhost:9093"}, "a broker needs a listener"),
        (COMBINED, {"listeners": "PLAINTEXT://localhost:9092"}, "controller.listener.names=CONTROLLER: not in"),
        (COMBINED, {"node.id": "7"}, "this controller, node.id=7, must be among them"),
        (COMBINED, {"controller.quorum.voters": "2@c2:9093,3@c3:0"}, "c3:0 is no address to reach another node at"),
        (COMBINED, {"controller.quorum.bootstrap.servers": "c1:9093,c2:0"}, "c2:0 is no address"),
    ],
)
def test_what_a_role_cannot_be_given(base: dict[str, str], changes: dict[str, str | None], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(base, changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "changes", "line"),
    [
        (
            CONTROLLER,
            {"listeners": "CONTROLLER://localhost:9099"},
            "controller.quorum.voters tells others to reach this controller at 1@c1:9093, but it listens on "
            "CONTROLLER://localhost:9099",
        ),
        (
            BROKER,
            {"controller.listener.names": "CONTROLLER,OTHER"},
            "controller.listener.names=CONTROLLER,OTHER: a broker that is no controller uses only CONTROLLER",
        ),
    ],
)
def test_what_is_probably_a_mistake_warns(base: dict[str, str], changes: dict[str, str | None], line: str) -> None:
    assert parse(base, changes)[1] == [line]


def test_a_free_port_for_the_controller_does_not_warn() -> None:
    listeners = "PLAINTEXT://localhost:0,CONTROLLER://localhost:0"
    assert parse(COMBINED, {"listeners": listeners})[1] == []


def test_the_example_for_several_hosts_is_accepted() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    examples = re.findall(r"```properties\n(.*?)```", page, re.DOTALL)
    parsed = [NodeConfig.parse(parse_properties(text)) for text in examples]
    assert [config.process_roles for config, _ in parsed] == [("controller",), ("broker",)]
    for _, warnings in parsed:
        assert all("no authentication" in warning for warning in warnings), "and nothing in it is unknown"
