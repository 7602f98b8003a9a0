"""Real processes and librdkafka: rolling restarts, a throttled reassignment, an unclean election, a lost directory."""

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - a throttle is measured

import pytest
from confluent_kafka import KafkaError, Message, Producer
from tests.cluster.by_hand import hand_made
from tests.cluster.commands import Commands
from tests.cluster.ports import consecutive_ports

from tidelog.testing import Cluster

MEGABYTE = 1_000_000
NODES = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # High watermarks are written down often, so that a broker that was killed still knows what was committed.
    with Cluster(brokers=3, config={"replica.high.watermark.checkpoint.interval.ms": "100"}) as running:
        yield running


@pytest.fixture(scope="module")
def tidelog(cluster: Cluster) -> Commands:
    return Commands(cluster.bootstrap)


class Writing:
    """Sends one record after the other to every partition, from a thread, and counts what became of them."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, **config: object) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", **config})
        self._topic = topic
        self._partitions = partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.outcomes: Counter[str] = Counter()
        self.acknowledged: dict[int, list[int]] = {number: [] for number in range(partitions)}

    def __enter__(self) -> "Writing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(60)

    def _run(self) -> None:
        while not self._stop.wait(0.002):
            for number in range(self._partitions):
                self._producer.produce(self._topic, b"x", partition=number, on_delivery=self._told)
            self._producer.poll(0)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.outcomes[error.name()] += 1
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        self.outcomes["acknowledged"] += 1
        self.acknowledged[partition].append(offset)


@pytest.mark.rule("C9")
def test_a_rolling_restart_fails_no_write_of_a_producer_that_retries(cluster: Cluster, tidelog: Commands) -> None:
    for topic in ("rolled", "once"):
        cluster.create_topic(topic, partitions=3, replication_factor=3, config={"min.insync.replicas": "2"})
    with (
        Writing(cluster.bootstrap, "rolled", 3, **{"enable.idempotence": True}) as retrying,
        Writing(cluster.bootstrap, "once", 3, retries=0) as once,
    ):
        for node in NODES:
            cluster.stop(node)
            cluster.start(node)
            for topic in ("rolled", "once"):
                for number in range(3):
                    cluster.wait_isr(topic, number, NODES)
    assert set(retrying.outcomes) == {"acknowledged"}, retrying.outcomes
    for number, offsets in retrying.acknowledged.items():
        assert len(offsets) > 20
        # Exactly once: every record an offset of its own, none in between.
        assert sorted(offsets) == list(range(len(offsets)))
        (found,) = [line for line in tidelog.json("offsets", "rolled") if line["partition"] == number]
        assert found["high_watermark"] == len(offsets)
    # Without retries a write may hear that its leader has just left, or that its connection went with it before it was
    # sent. None times out.
    assert set(once.outcomes) <= {"acknowledged", "NOT_LEADER_FOR_PARTITION", "_TRANSPORT"}, once.outcomes


def fill(cluster: Cluster, topic: str, megabytes: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "enable.idempotence": True})
    for number in range(megabytes * 10):
        producer.produce(topic, bytes(MEGABYTE // 10 - 100), partition=0)
        if number % 50 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.rule("C8")
def test_reassign_with_a_throttle_keeps_to_it_and_takes_it_away(cluster: Cluster, tidelog: Commands) -> None:
    cluster.create_topic("moved", partitions=1, replication_factor=1)
    fill(cluster, "moved", 8)
    at = cluster.leader("moved", 0)
    target = next(node for node in NODES if node != at)
    began = now_s()
    tidelog.run(
        *("reassign", "moved", "--partition", "0", "--replicas", str(target)),
        *("--throttle", str(2 * MEGABYTE), "--wait"),
    )
    taken_s = now_s() - began
    # Within a tenth: `python -m benchmarks.reassignment`. Here others use the machine as well, and it may take longer.
    assert 3.2 < taken_s < 20, taken_s
    (topic,) = tidelog.json("topics", "describe", "moved")
    assert (topic["partitions"][0]["replicas"], topic["partitions"][0]["leader"]) == ([target], target)
    for side in ("leader", "follower"):
        assert f"{side}.replication.throttled" not in tidelog.run("configs", "describe", "--topic", "moved")
    (line,) = tidelog.json("offsets", "moved")
    assert line["high_watermark"] == 80


@pytest.mark.rule("C6", "C5")
def test_an_unclean_election_from_the_command_line_names_what_is_lost(cluster: Cluster, tidelog: Commands) -> None:
    cluster.create_topic("torn", partitions=1, replication_factor=2, config={"min.insync.replicas": "1"})
    (described,) = tidelog.json("topics", "describe", "torn")
    first, second = described["partitions"][0]["replicas"]
    tidelog.run("produce", "torn", stdin="kept\n")
    cluster.wait_isr("torn", 0, [first, second])
    cluster.stop(first)
    cluster.wait_leader("torn", 0, not_in=[first])
    tidelog.run("produce", "torn", stdin="lost-1\nlost-2\n")
    checkpoint = cluster.directory / f"node-{second}" / "data" / "replication-offset-checkpoint"
    wait_for(lambda: "torn 0 3" in checkpoint.read_text(), 30)
    # Two of three controllers have to run: the broker that leads goes when the other is there again.
    cluster.pause(second)
    cluster.start(first)
    cluster.wait_isr("torn", 0, [])
    cluster.kill(second)
    assert (
        tidelog.run("elect", "--unclean", "--topic", "torn", "--partition", "0")
        == "unclean leaders elected for torn-0\n"
    )
    assert cluster.wait_leader("torn", 0) == first
    tidelog.run("produce", "torn", stdin="new\n")
    cluster.start(second)
    cluster.wait_isr("torn", 0, [first, second])
    assert tidelog.run("consume", "torn", "--from-beginning", "--max", "2").splitlines() == ["kept", "new"]
    told = (cluster.directory / f"node-{second}" / "data" / "server.log").read_text()
    assert "torn-0: this replica loses committed offsets 1 to 2 " in told


@pytest.mark.rule("C10")
def test_a_lost_log_directory_moves_its_own_leaders_and_the_broker_lives(tmp_path: Path) -> None:
    port = consecutive_ports(4)
    tidelog = Commands(f"127.0.0.1:{port},127.0.0.1:{port + 1}")
    with hand_made(tmp_path, Commands("127.0.0.1:1").run("random-uuid").strip()) as nodes:
        for index, node in enumerate((1, 2)):
            home = tmp_path / f"node-{node}"
            roles, listeners = "broker", f"PLAINTEXT://127.0.0.1:{port + index}"
            if node == 1:
                roles, listeners = "broker,controller", f"{listeners},CONTROLLER://127.0.0.1:{port + 2}"
            nodes.write(
                node,
                f"process.roles={roles}\nlisteners={listeners}\ncontroller.quorum.voters=1@127.0.0.1:{port + 2}\n"
                f"log.dirs={home / 'data'},{home / 'more'}\nmetadata.log.dir={home / 'data'}\n"
                "offsets.topic.replication.factor=2\nreplica.high.watermark.checkpoint.interval.ms=200\n",
            )
            nodes.format(node)
            nodes.start(node)
        nodes.wait_started(1, 2)
        tidelog.run("topics", "create", "spread", "--partitions", "8", "--replication-factor", "2")

        def leaders() -> dict[int, int]:
            (topic,) = tidelog.json("topics", "describe", "spread")
            return {partition["partition"]: partition["leader"] for partition in topic["partitions"]}

        more = tmp_path / "node-2" / "more"
        # The controller answers before every broker has made its logs.
        wait_for(lambda: len(list(more.glob("spread-*"))) == 4, 30)
        lost = {int(path.name.rpartition("-")[2]) for path in more.glob("spread-*")}
        before = leaders()
        assert lost and any(before[number] == 2 for number in lost)
        shutil.rmtree(more)
        # A file in its place: nothing can be made there again.
        more.write_text("")
        # Files that are open can be written still; the next checkpoint of the directory cannot.
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}"})
        for number in before:
            producer.produce("spread", b"x", partition=number)
        assert producer.flush(30) == 0
        wanted = {number: 1 if number in lost else at for number, at in before.items()}
        wait_for(lambda: leaders() == wanted, 30)
        assert any(at == 2 for at in leaders().values()), "the other directory still serves"
        for number in before:
            producer.produce("spread", b"y", partition=number)
        assert producer.flush(30) == 0
        told = (tmp_path / "node-2" / "data" / "server.log").read_text()
        assert f"log directory {more} offline" in told


def wait_for(holds: Callable[[], bool], timeout_s: float) -> None:
    deadline = now_s() + timeout_s
    while not holds():
        assert now_s() < deadline, "waited in vain"
