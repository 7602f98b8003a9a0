"""cluster.json, server.properties, ports, the control socket's path."""

import json
import os
import random
import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.cluster import control_socket
from tidelog.cluster.errors import BadRequest, ClusterError
from tidelog.cluster.layout import ClusterDir, ClusterLayout, NodeLayout, QuorumKind, roles_of
from tidelog.cluster.ports import FREE_PORT_RANGE, Reservations
from tidelog.cluster.properties import node_properties, parse_settings, render
from tidelog.core.config.properties import parse_properties

LAYOUT = ClusterLayout(
    cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
    nodes=(NodeLayout(id=1, roles=("broker", "controller"), port=9092, controller_port=20001, metrics_port=20002),),
)


def test_a_layout_survives_its_file(tmp_path: Path) -> None:
    directory = ClusterDir(tmp_path)
    assert directory.load() is None
    directory.save(LAYOUT)
    assert directory.load() == LAYOUT
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"version": 1, "nodes": []}', '{"version": 3, "cluster_id": "x", "nodes": []}']
)
def test_a_file_we_cannot_read_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    directory = ClusterDir(tmp_path)
    directory.cluster_json.write_text(text)
    with pytest.raises(ClusterError) as caught:
        directory.load()
    assert "\n" not in caught.value.message and "cluster.json" in caught.value.message


def test_a_cluster_made_when_voters_stood_in_the_config_keeps_them_there(tmp_path: Path) -> None:
    directory = ClusterDir(tmp_path)
    directory.save(LAYOUT)
    content = json.loads(directory.cluster_json.read_text())
    del content["quorum"]
    directory.cluster_json.write_text(json.dumps({**content, "version": 1}))
    old = directory.load()
    assert old is not None and old == replace(LAYOUT, quorum=QuorumKind.STATIC)
    properties = node_properties(directory, old, old.nodes[0], ("127.0.0.1",), {})
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:20001"
    assert "controller.quorum.bootstrap.servers" not in properties
    directory.save(old)
    assert directory.load() == old


def test_a_node_that_is_no_controller_asks_those_who_are(tmp_path: Path) -> None:
    controllers = tuple(replace(LAYOUT.nodes[0], id=node, controller_port=20000 + node) for node in (1, 2, 3))
    broker = NodeLayout(id=4, roles=("broker",), port=9095, controller_port=None, metrics_port=20009)
    layout = replace(LAYOUT, nodes=(*controllers, broker))
    properties = node_properties(ClusterDir(tmp_path), layout, broker, ("127.0.0.1",), {})
    assert properties["controller.quorum.bootstrap.servers"] == "127.0.0.1:20001,127.0.0.1:20002,127.0.0.1:20003"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9095"
    assert properties["default.replication.factor"] == properties["offsets.topic.replication.factor"] == "3"


def test_cluster_json_is_for_people_too(tmp_path: Path) -> None:
    ClusterDir(tmp_path).save(LAYOUT)
    content = json.loads((tmp_path / "cluster.json").read_text())
    assert content["cluster_id"] == LAYOUT.cluster_id
    assert content["nodes"][0]["port"] == 9092


@pytest.mark.parametrize(("brokers", "controllers"), [(1, [1]), (2, [1]), (3, [1, 2, 3]), (5, [1, 2, 3])])
def test_nodes_one_to_three_are_the_quorum(brokers: int, controllers: list[int]) -> None:
    assert [node for node in range(1, brokers + 1) if "controller" in roles_of(node, brokers)] == controllers


def test_properties_of_a_node(tmp_path: Path) -> None:
    settings = {"log.retention.ms": "5", "default.replication.factor": "1"}
    properties = node_properties(ClusterDir(tmp_path), LAYOUT, LAYOUT.nodes[0], ("127.0.0.1", "::1"), settings)
    assert (
        properties["listeners"] == "PLAINTEXT://127.0.0.1:9092,PLAINTEXT_V6://[::1]:9092,CONTROLLER://127.0.0.1:20001"
    )
    assert properties["offsets.topic.replication.factor"] == "1"
    assert properties["log.retention.ms"] == "5"
    assert parse_properties(render(properties)) == properties


def test_awkward_values_survive_the_file() -> None:
    awkward = {"a b=c:d": " leading", "back\\slash": "tab\tnew\nline", "plain": "ü = # ! :"}
    assert parse_properties(render(awkward)) == awkward


@pytest.mark.parametrize("setting", ["novalue", "=x", " =x"])
def test_a_setting_without_key_or_equals(setting: str) -> None:
    with pytest.raises(BadRequest, match="key=value"):
        parse_settings([setting])


def test_reserved_ports_can_be_listened_on_and_are_given_to_nobody_else() -> None:
    mine = Reservations(("127.0.0.1",), random.Random(1))
    others = Reservations(("127.0.0.1",), random.Random(1))
    try:
        port = mine.reserve_free()
        assert port in FREE_PORT_RANGE
        # The same dice, and still another port.
        assert others.reserve_free() != port
        with socket.socket() as node:
            node.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            node.bind(("127.0.0.1", port))
            node.listen()
            with pytest.raises(ClusterError, match="in use"):
                others.reserve(port)
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(("127.0.0.1", port))
    finally:
        mine.close()
        others.close()


def test_a_control_socket_is_for_its_owner_and_takes_paths_of_any_length(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100) / ("e" * 100)
    directory.mkdir(parents=True)
    path = directory / "control.sock"
    for _ in range(2):  # the second finds the first one's file lying around
        with control_socket.listen(path) as server:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            with control_socket.connect(path, 1.0) as client:
                client.sendall(b"x")
                server.setblocking(True)
                accepted, _ = server.accept()
                with accepted:
                    assert accepted.recv(1) == b"x"
    with pytest.raises(ConnectionRefusedError):
        control_socket.connect(path, 1.0)
