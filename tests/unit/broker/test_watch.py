"""What a node tells its watchers: everything at first, then what changed; nothing is piled up for who does not read."""

import asyncio
import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.broker.test_replication import TOPIC, leader, make_topic, replica, write
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster

from tidelog.broker import watch as watch_module
from tidelog.broker.clock import SystemWallClock
from tidelog.broker.node import Node
from tidelog.broker.watch import Watch
from tidelog.broker.watch_changes import Changes
from tidelog.core.event import Event
from tidelog.core.events import NodeStopped
from tidelog.sim.cluster import SimCluster

PATIENCE_S = 10.0


def told(changes: Changes, node: Node) -> dict[str, Any]:
    assert node.control is not None and node.broker is not None
    return changes.metadata(node.control.image) | changes.replicas(node.broker.replicas)


def tell(watch: Watch, event: Event) -> None:
    watch.on_event(event, event.text())


def test_first_everything_then_what_changed() -> None:
    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1), min_insync_replicas="2")
        await cluster.until(lambda: leader(cluster) is not None and all(replica(cluster, node) for node in (1, 2, 3)))
        at = leader(cluster)
        assert at is not None
        other = next(node for node in (1, 2, 3) if node != at)
        changes, elsewhere = Changes(), Changes()
        first = told(changes, cluster.node(at))
        ((topic, _, number, leads, epoch, _, replicas, isr, elr, recovering),) = first["metadata"]
        assert (topic, number, leads, epoch, list(elr), recovering) == (TOPIC.topic, 0, at, 0, [], False)
        assert sorted(replicas) == sorted(isr) == [1, 2, 3]
        assert first["replicas"] == [[TOPIC.topic, 0, "leader", 0, 0, 0, 0, 0, 2, None]]
        assert sorted(broker[0] for broker in first["brokers"]) == [1, 2, 3]
        assert told(elsewhere, cluster.node(other))["replicas"][0][2] == "follower"
        assert told(changes, cluster.node(at)) == {}

        await write(cluster, b"value")
        moved = told(changes, cluster.node(at))
        assert moved.keys() == {"replicas"} and moved["replicas"][0][3:8] == [0, 0, 1, 1, 1]

        assert changes.replicas([]) == {"gone": [[TOPIC.topic, 0]]} and changes.replicas([]) == {}

        cluster.kill(at)
        await cluster.until(lambda: leader(cluster) not in (None, at))
        after = told(elsewhere, cluster.node(other))
        assert after["metadata"][0][4] > 0 and at not in after["metadata"][0][7]
        assert [at, "fenced"] in [[broker, standing] for broker, _, standing in after["brokers"]]

    on_virtual_cluster(story)


class Watched:
    """A node that has nothing to tell but events, and its socket."""

    def __init__(self, path: Path) -> None:
        self.watch = Watch(SystemWallClock())
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._path = path
        node = SimpleNamespace(control=None, broker=None, config=SimpleNamespace(node_id=7))
        self.serving = asyncio.create_task(self.watch.serve(cast(Node, node), self._listening.detach()))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self._path), limit=2**24)

    async def until_watched(self, count: int = 1) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.watch._watchers) != count:
                await asyncio.sleep(0.001)


def test_events_go_out_at_once_and_to_nobody_without_a_watcher(tmp_path: Path) -> None:
    async def story() -> None:
        watched = Watched(tmp_path / "s")
        tell(watched.watch, NodeStopped(node_id=6))
        reader, writer = await watched.connect()
        await watched.until_watched()
        tell(watched.watch, NodeStopped(node_id=7))
        async with asyncio.timeout(PATIENCE_S):
            line = json.loads(await reader.readline())
        assert line["node"] == 7 and [each["text"] for each in line["events"]] == ["node 7 has stopped"]
        writer.close()
        await watched.until_watched(0)
        watched.serving.cancel()

    asyncio.run(story())


def test_who_does_not_read_is_kept_a_bounded_number_of_events_and_told_how_many_it_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "MOST_EVENTS", 3)

    async def story() -> None:
        watched = Watched(tmp_path / "s")
        reader, writer = await watched.connect()
        await watched.until_watched()
        for node in range(10):
            tell(watched.watch, NodeStopped(node_id=node))
        async with asyncio.timeout(PATIENCE_S):
            line = json.loads(await reader.readline())
        assert [each["node_id"] for each in line["events"]] == [7, 8, 9] and line["dropped"] == 7
        writer.close()
        watched.serving.cancel()

    asyncio.run(story())
