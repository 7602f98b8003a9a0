"""Three controllers and two brokers, each a `tidelog node` with a file written by hand, as docs/operating.md tells."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.by_hand import HandMade, hand_made
from tests.cluster.commands import Commands
from tests.cluster.ports import consecutive_ports

CONTROLLERS = (1, 2, 3)
BROKERS = (11, 12)


@pytest.fixture
def port() -> int:
    """The first of five: three for controllers, two for brokers."""
    return consecutive_ports(len(CONTROLLERS) + len(BROKERS))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[HandMade]:
    with hand_made(tmp_path, Commands("127.0.0.1:1").run("random-uuid").strip()) as made:
        yield made


def controller_port(port: int, node: int) -> int:
    return port + CONTROLLERS.index(node)


def broker_port(port: int, node: int) -> int:
    return port + len(CONTROLLERS) + BROKERS.index(node)


def write_files(nodes: HandMade, port: int, quorum: str) -> None:
    for node in CONTROLLERS:
        address = f"127.0.0.1:{controller_port(port, node)}"
        nodes.write(node, f"process.roles=controller\nlisteners=CONTROLLER://{address}\n{quorum}\n")
    for node in BROKERS:
        address = f"127.0.0.1:{broker_port(port, node)}"
        nodes.write(node, f"process.roles=broker\nlisteners=PLAINTEXT://{address}\n{quorum}\n")


def bootstrap_servers(port: int) -> str:
    servers = ",".join(f"127.0.0.1:{controller_port(port, node)}" for node in CONTROLLERS)
    return f"controller.quorum.bootstrap.servers={servers}"


def commands(port: int) -> Commands:
    return Commands(",".join(f"127.0.0.1:{broker_port(port, node)}" for node in BROKERS))


def voters(tidelog: Commands) -> list[int]:
    return [each["id"] for each in tidelog.json("quorum", "describe")["current_voters"]]


def create(tidelog: Commands, name: str) -> None:
    tidelog.run("topics", "create", name, "--partitions", "4", "--replication-factor", "2")
    (topic,) = tidelog.json("topics", "describe", name)
    assert all(sorted(partition["replicas"]) == list(BROKERS) for partition in topic["partitions"])


def test_static_voters(nodes: HandMade, port: int) -> None:
    named = ",".join(f"{node}@127.0.0.1:{controller_port(port, node)}" for node in CONTROLLERS)
    write_files(nodes, port, f"controller.quorum.voters={named}")
    for node in (*CONTROLLERS, *BROKERS):
        nodes.format(node)
    # In any order: a broker waits for the quorum.
    for node in (*BROKERS, *CONTROLLERS):
        nodes.start(node)
    nodes.wait_started(*CONTROLLERS, *BROKERS)
    tidelog = commands(port)
    create(tidelog, "before")
    described = tidelog.json("quorum", "describe")
    assert [each["id"] for each in described["current_voters"]] == list(CONTROLLERS)
    assert sorted(each["id"] for each in described["current_observers"]) == list(BROKERS)

    leader = described["leader_id"]
    nodes.kill(leader)
    create(tidelog, "one-controller-down")
    after = tidelog.json("quorum", "describe")
    assert after["leader_id"] in set(CONTROLLERS) - {leader}
    assert after["leader_epoch"] > described["leader_epoch"]

    nodes.start(leader)
    nodes.wait_started(leader)
    nodes.kill(after["leader_id"])
    create(tidelog, "another-one-down")
    assert [topic["name"] for topic in tidelog.json("topics", "list")] == [
        "another-one-down",
        "before",
        "one-controller-down",
    ]
    for node in (*BROKERS, *set(CONTROLLERS) - {after["leader_id"]}):
        nodes.stop(node)


@pytest.mark.rule("Q8")
def test_a_quorum_that_grows_from_one_controller_and_outlives_it(nodes: HandMade, port: int) -> None:
    write_files(nodes, port, bootstrap_servers(port))
    first, *others = CONTROLLERS
    nodes.format(first, "--standalone")
    for node in others:
        nodes.format(node, "--no-initial-controllers")
    for node in BROKERS:
        nodes.format(node)
    for node in (*CONTROLLERS, *BROKERS):
        nodes.start(node)
    nodes.wait_started(*CONTROLLERS, *BROKERS)
    tidelog = commands(port)
    assert voters(tidelog) == [first]
    create(tidelog, "one")

    for node in others:
        endpoint = f"CONTROLLER://127.0.0.1:{controller_port(port, node)}"
        tidelog.run("quorum", "add", "--id", str(node), "--endpoint", endpoint)
    assert voters(tidelog) == list(CONTROLLERS)
    create(tidelog, "three")

    # The one it began with goes: first its vote, then the process.
    tidelog.run("quorum", "remove", "--id", str(first))
    assert voters(tidelog) == others
    nodes.stop(first)
    create(tidelog, "two")
    assert [topic["name"] for topic in tidelog.json("topics", "list")] == ["one", "three", "two"]


def test_first_voters_that_are_named_to_each_of_them(nodes: HandMade, port: int) -> None:
    write_files(nodes, port, bootstrap_servers(port))
    named = ",".join(
        f"{node}@127.0.0.1:{controller_port(port, node)}:{Commands('').run('random-uuid').strip()}"
        for node in CONTROLLERS
    )
    for node in CONTROLLERS:
        nodes.format(node, f"--initial-controllers={named}")
    for node in BROKERS:
        nodes.format(node)
    for node in (*CONTROLLERS, *BROKERS):
        nodes.start(node)
    nodes.wait_started(*CONTROLLERS, *BROKERS)
    tidelog = commands(port)
    create(tidelog, "before")
    assert voters(tidelog) == list(CONTROLLERS)
    nodes.kill(tidelog.json("quorum", "describe")["leader_id"])
    create(tidelog, "after")
