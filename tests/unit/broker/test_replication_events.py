"""What a broker keeps to publish on `__replication_events`: bounded, and nothing about that topic itself."""

import json
import random
from types import SimpleNamespace
from typing import Any, cast

from tidelog.broker import replication_events
from tidelog.broker.broker import Broker
from tidelog.broker.replication_events import ReplicationEvents
from tidelog.core.events import IsrChanged, NodeStopped
from tidelog.core.ids import TopicPartition
from tidelog.replication.roles import Follower, Leader

NOW_MS = 1_700_000_000_000


def shrunk(topic: str) -> IsrChanged:
    return IsrChanged(
        topic=topic,
        partition=0,
        leader_epoch=1,
        old_isr=(1, 2),
        new_isr=(1,),
        log_end_offset=9,
        high_watermark=5,
        reason="2 is behind",
    )


def led(topic: str, isr: tuple[int, ...], *, end: int, high_watermark: int, followers: dict[int, int]) -> Any:
    role = object.__new__(Leader)
    role.replicas = cast(Any, (1, *followers))
    role.isr_state = cast(Any, SimpleNamespace(isr=frozenset(isr)))
    role.followers = cast(Any, {node: SimpleNamespace(log_end_offset=has) for node, has in followers.items()})
    return SimpleNamespace(
        topic_partition=TopicPartition(topic, 0),
        role=role,
        log=SimpleNamespace(log_end_offset=end, high_watermark=high_watermark),
    )


def events_of(*partitions: Any) -> ReplicationEvents:
    broker = SimpleNamespace(
        wall_clock=SimpleNamespace(now_ms=lambda: NOW_MS),
        config=SimpleNamespace(node_id=1, tidelog_replication_events_interval_ms=1000),
        replicas=list(partitions),
    )
    return ReplicationEvents(cast(Broker, broker), address=lambda: None, rng=random.Random(1))


def test_events_are_kept_within_bounds_and_never_of_the_topic_itself(monkeypatch: Any) -> None:
    monkeypatch.setattr(replication_events, "MOST_WAITING", 2)
    events = events_of()
    for event in [shrunk("a"), NodeStopped(node_id=1), shrunk("__replication_events"), shrunk("b"), shrunk("c")]:
        events.take(event)
    kept = [json.loads(line) for line in events._waiting]
    assert [(each["topic"], each["event"], each["node"], each["time"]) for each in kept] == [
        ("b", "isr_changed", 1, NOW_MS),
        ("c", "isr_changed", 1, NOW_MS),
    ]
    assert events.sample().dropped == 1


def test_a_sample_tells_who_is_behind_and_what_stands_still() -> None:
    behind = led("orders", (1,), end=100, high_watermark=60, followers={2: 70, 3: -1})
    well = led("users", (1, 2), end=10, high_watermark=10, followers={2: 10})
    own = led("__replication_events", (1,), end=5, high_watermark=0, followers={2: 0})
    following = SimpleNamespace(topic_partition=TopicPartition("x", 0), role=object.__new__(Follower), log=None)
    events = events_of(behind, well, own, following)
    first = events.sample()
    assert (first.leaders, first.under_replicated, first.stalled) == (2, (("orders", 0, 1, 3),), ())
    assert first.lags == (("orders", 0, 2, 30), ("users", 0, 2, 0))
    assert events.sample().stalled == (("orders", 0, 60, 100),)
    behind.log.high_watermark = 61
    assert events.sample().stalled == ()
