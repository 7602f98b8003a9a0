"""Reports of nodes and supervisor become the content of the page."""

from typing import Any

import pytest

from tidelog.web.board import Board, Partition
from tidelog.web.stalls import STALL_MS
from tidelog.web.watching import Watching


class Cluster:
    """Reports one partition with three replicas to a board."""

    def __init__(self) -> None:
        self.board = Board()
        self.watching = Watching(self.board)
        self.now_ms = 1_000

    def line(self, node: int, *, first: bool = False, **fields: Any) -> None:
        self.watching.node_line({"node": node, "time": self.now_ms, **fields}, first=first, now_ms=self.now_ms)

    def metadata(self, node: int, leader: int, epoch: int, partition_epoch: int, isr: list[int], **more: Any) -> None:
        row = [
            "orders",
            more.get("topic_id", "a"),
            0,
            leader,
            epoch,
            partition_epoch,
            [1, 2, 3],
            isr,
            more.get("elr", []),
            False,
        ]
        self.line(node, metadata=[row])

    def replica(self, node: int, role: str, epoch: int, hw: int, end: int, *, min_isr: int | None = None) -> None:
        self.line(node, replicas=[["orders", 0, role, epoch, 0, hw, hw, end, min_isr, None]])

    def status(self, *states: str, links: dict[str, Any] | None = None) -> None:
        nodes = [
            {
                "id": number,
                "state": state,
                "roles": ["broker"],
                "port": 9091 + number,
                "pid": number,
                "links": {"deaf": [], "mute": [], "delay_ms": 0, **((links or {}) if number == 1 else {})},
            }
            for number, state in enumerate(states, 1)
        ]
        self.watching.supervisor_line({"nodes": nodes}, self.now_ms)

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        self.watching.tick(self.now_ms)

    @property
    def partition(self) -> Partition:
        found = self.board.partitions.get(("orders", 0))
        assert found is not None
        return found

    @property
    def told(self) -> list[str]:
        return [each.text for each in self.board.timeline]


def stalled(cluster: Cluster) -> bool:
    return cluster.partition.stalled_ms is not None


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.metadata(1, leader=1, epoch=4, partition_epoch=7, isr=[1, 2, 3])
    cluster.replica(1, "leader", 4, 10, 10, min_isr=2)
    cluster.replica(2, "follower", 4, 10, 10)
    return cluster


def test_the_newest_metadata_wins_from_any_node(cluster: Cluster) -> None:
    cluster.metadata(2, leader=2, epoch=5, partition_epoch=8, isr=[2, 3], elr=[1])
    cluster.metadata(3, leader=1, epoch=4, partition_epoch=7, isr=[1, 2, 3])  # it has not replayed that yet
    partition = cluster.partition
    assert (partition.leader, partition.leader_epoch, partition.isr, partition.elr) == (2, 5, (2, 3), (1,))


def test_a_node_that_reports_to_lead_in_a_newer_epoch_is_the_leader(cluster: Cluster) -> None:
    cluster.replica(2, "leader", 5, 10, 10)
    assert (cluster.partition.leader, cluster.partition.leader_epoch) == (2, 5)
    # A leader that was cut off and does not know that it is deposed.
    cluster.replica(1, "leader", 4, 10, 15)
    assert cluster.partition.leader == 2 and cluster.partition.held[1].log_end_offset == 15


def test_a_recreated_topic_starts_empty_and_a_late_report_does_not_revive_the_old_one(cluster: Cluster) -> None:
    cluster.line(2, deleted=["a"])
    assert len(cluster.board.partitions) == 0
    cluster.metadata(2, leader=3, epoch=0, partition_epoch=0, isr=[3], topic_id="b")
    cluster.metadata(1, leader=1, epoch=4, partition_epoch=9, isr=[1])
    cluster.line(1, deleted=["a"])
    assert (cluster.partition.topic_id, cluster.partition.leader, dict(cluster.partition.held)) == ("b", 3, {})


def test_a_returning_node_has_only_the_replicas_that_it_reports(cluster: Cluster) -> None:
    cluster.watching.node_lost(2, cluster.now_ms)
    assert not cluster.board.node(2).heard and 2 in cluster.partition.held
    cluster.line(2, first=True)
    assert cluster.board.node(2).heard and 2 not in cluster.partition.held


@pytest.mark.rule("W1")
def test_a_stalled_high_watermark_is_reported_and_its_end_too(cluster: Cluster) -> None:
    cluster.replica(1, "leader", 4, 10, 12, min_isr=2)
    cluster.pass_ms(STALL_MS - 1)
    assert not stalled(cluster)
    cluster.replica(1, "leader", 4, 10, 13, min_isr=2)  # more records do not move it
    cluster.pass_ms(1)
    assert stalled(cluster) and cluster.partition.stalled_ms == 1_000
    assert cluster.told[-1] == "orders-0: the high watermark stalls at 10"
    cluster.pass_ms(500)
    cluster.replica(1, "leader", 4, 11, 13, min_isr=2)
    assert not stalled(cluster)
    assert cluster.told[-1] == "orders-0: the high watermark moves again, after 2.5 s"


def test_a_stall_below_the_least_isr_is_another_reason(cluster: Cluster) -> None:
    cluster.metadata(1, leader=1, epoch=4, partition_epoch=8, isr=[1])
    cluster.replica(1, "leader", 4, 10, 12, min_isr=2)
    cluster.pass_ms(STALL_MS)
    assert list(cluster.board.timeline)[-1].rules == ("W1", "P2")


def test_many_of_one_cause_are_one_line(cluster: Cluster) -> None:
    elected = {"event": "leader_elected", "leader": 2, "reason": "broker 1 fenced"}
    joined = {"event": "isr_changed", "old_isr": [2], "new_isr": [1, 2]}
    for number in range(100):
        where = {"topic": "orders", "partition": number, "time": 2_000, "text": f"orders-{number}: …"}
        joined["reason"] = f"broker 1 has caught up at offset {number}"
        cluster.line(3, events=[{**elected, **where}, {**joined, **where}])
    election, expansion = cluster.board.timeline
    assert (election.count, election.rules) == (100, ("C3",)) and (expansion.count, expansion.rules) == (100, ("I3",))
    assert election.partitions[0] == "orders-0" and len(election.partitions) < 100


def test_internal_topics_have_lines_of_their_own(cluster: Cluster) -> None:
    elected = {"event": "leader_elected", "leader": 2, "reason": "broker 1 fenced", "time": 2_000, "text": "…"}
    for topic in ("orders", "__consumer_offsets"):
        for number in range(3):
            cluster.line(3, events=[{**elected, "topic": topic, "partition": number}])
    cluster.line(3, events=[{"event": "topic_deleted", "topic": "__transaction_state", "time": 2_000, "text": "…"}])
    # Only Kafka's and Tidelog's own topics are internal, whatever a user's topic is called.
    cluster.line(3, events=[{**elected, "topic": "__mine", "partition": 0, "reason": "another"}])
    found = [(each.partitions[:1], each.count, each.internal) for each in cluster.board.timeline]
    assert sorted(found) == [
        ((), 1, True),
        (("__consumer_offsets-0",), 3, True),
        (("__mine-0",), 1, False),
        (("orders-0",), 3, False),
    ]


def test_a_quorum_leader_reported_by_every_node_is_one_line(cluster: Cluster) -> None:
    event = {"event": "quorum_leader_changed", "leader": 2, "epoch": 3, "time": 2_000, "text": "node 2 leads"}
    for node in (1, 2, 3):
        cluster.line(node, events=[event])
    assert cluster.told == ["node 2 leads"]


def test_a_node_that_speaks_of_itself_is_named(cluster: Cluster) -> None:
    text = "this node is the active controller of epoch 3"
    cluster.line(2, events=[{"event": "controller_activated", "epoch": 3, "time": 2_000, "text": text}])
    assert cluster.told == ["node 2 is the active controller of epoch 3"]


def test_skipped_events_are_counted(cluster: Cluster) -> None:
    cluster.line(2, dropped=7)
    assert cluster.told == ["node 2 skipped 7 events"]


def test_states_of_nodes_are_news_only_when_they_change(cluster: Cluster) -> None:
    cluster.status("running", "running", "running")
    assert cluster.told == []
    cluster.status("running", "killed", "paused")
    assert cluster.told == ["node 2 is killed", "node 3 is paused"]
    cluster.status("running", "killed", "running", links={"deaf": [2, 3], "mute": [2, 3], "delay_ms": 0})
    assert cluster.told[2:] == ["node 1 is cut off from nodes 2, 3", "node 3 is resumed"]
    cluster.status("running", "killed", "running", links={"delay_ms": 200})
    assert cluster.told[4:] == ["node 1 reaches the other nodes again", "node 1 sends with 200 ms delay"]
    for state in ("starting", "paused", "starting", "running"):
        cluster.status("running", state, "running", links={"delay_ms": 200})
    assert cluster.told[6:] == ["node 2 is starting", "node 2 is paused", "node 2 is resumed", "node 2 is running"]


def test_changes_while_no_page_is_open_are_not_events(cluster: Cluster) -> None:
    cluster.status("running", "running", "running")
    cluster.watching.page_closed()
    cluster.now_ms += 60_000
    # During this time a topic was deleted and a node was killed.
    cluster.status("running", "killed", "running")
    cluster.line(1, first=True, quorum=["follower", 3, 2, 100, 99, True])
    assert len(cluster.board.partitions) == 0 and cluster.told == []
    assert cluster.board.node(2).state == "killed" and not cluster.board.node(2).heard


def test_brokers_and_quorum_as_reported(cluster: Cluster) -> None:
    cluster.line(1, brokers=[[2, 9, "unfenced"]], quorum=["follower", 3, 2, 100, 99, True])
    cluster.line(3, brokers=[[2, 8, "fenced"]])  # of the process before
    assert (cluster.board.node(2).standing, cluster.board.node(2).broker_epoch) == ("unfenced", 9)
    node = cluster.board.node(1)
    assert (node.quorum_role, node.quorum_epoch, node.quorum_leader, node.metadata_end) == ("follower", 3, 2, 100)
