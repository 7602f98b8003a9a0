"""A2: what brokers publish of their replication, and what windows make of it."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from tidelog.broker.replication_events import MOST_LISTED
from tidelog.jobs.health.job import EVENT, health, read_events
from tidelog.jobs.health.model import TOPIC
from tidelog.jobs.health.report import overview, page_of
from tidelog.testing import Cluster

pytestmark = [pytest.mark.timeout(300)]

EVENTS = {
    "tidelog.replication.events.enable": "true",
    "tidelog.replication.events.interval.ms": "100",
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}


def sample(time: int, **lists: list[list[Any]]) -> dict[str, Any]:
    empty: dict[str, Any] = {"under_replicated": [], "lags": [], "stalled": []}
    return {"time": time, "node": 1, "event": "replication_sampled", "interval_ms": 1000, "dropped": 2} | empty | lists


def test_windows_and_partitions(spark: SparkSession, tmp_path: Path) -> None:
    isr = {"event": "isr_changed", "topic": "orders", "partition": 0, "node": 1}
    taken = {"event": "leadership_taken", "topic": "orders", "partition": 0}
    told: list[dict[str, Any]] = [
        *(sample(1000 * second, lags=[["orders", 0, 2, second]]) for second in range(100)),
        *(sample(1000 * second, under_replicated=[["orders", 0, 1, 2]]) for second in range(70, 80)),
        sample(75_000, stalled=[["orders", 0, 5, 9]]),
        sample(76_000, lags=[["clicks", partition, 2, 0] for partition in range(MOST_LISTED)]),
        # Broker 2 starts anew after the second.
        *(sample(time) | {"node": 2, "dropped": dropped} for time, dropped in ((1, 3), (2, 5), (3, 1), (4, 4))),
        isr | {"time": 70_000, "old_isr": [1, 2], "new_isr": [1]},
        isr | {"time": 80_000, "old_isr": [1], "new_isr": [1, 2]},
        *(taken | {"time": 1000, "leader_epoch": epoch, "node": node} for epoch, node in enumerate((1, 1, 2, 1))),
        {"event": "unclean_leader_started", "topic": "orders", "partition": 1, "node": 2, "time": 90_000},
        {"event": "committed_records_lost", "topic": "orders", "partition": 1, "node": 1, "time": 91_000}
        | {"first_lost_offset": 10, "last_lost_offset": 14},
    ]
    path = tmp_path / "events.json"
    path.write_text("".join(json.dumps(each) + "\n" for each in told))
    found = health(spark.read.schema(EVENT).json(str(path)), window_s=60)
    lost, orders = found.partitions[:2]
    assert (lost.partition, lost.records_lost, lost.unclean_elections) == (1, 5, 1)
    assert (orders.shrinks, orders.expands, orders.leader_moves) == (1, 1, 2)
    assert (orders.under_replicated_s, orders.stalled_s) == (10.0, 1.0)
    assert (orders.lag_p50, orders.lag_p95, orders.lag_max) == (49, 94, 99)
    assert [(each.start_ms, each.shrinks, each.lag_max) for each in found.windows] == [(0, 0, 59), (60_000, 1, 99)]
    assert found.dropped == 2 + 5 + 4
    assert (found.full_samples, "entries" in overview(found)) == (1, True)
    page = page_of(found).html()
    assert page.count("<svg") == 3
    # Of 502 partitions the page shows 200.
    assert page.count("and 302 more") == 1


def test_a_move_is_one_also_if_the_last_leader_came_before_the_time_that_is_told_of(spark: SparkSession) -> None:
    taken = {"event": "leadership_taken", "topic": "orders", "partition": 0}
    rows = [
        taken | {"time": 1000, "node": 1, "leader_epoch": 0},
        sample(2000, under_replicated=[["orders", 0, 1, 2]]),
        taken | {"time": 90_000, "node": 2, "leader_epoch": 1},
        taken | {"time": 91_000, "node": 2, "leader_epoch": 2},
    ]
    events = spark.read.schema(EVENT).json(spark.sparkContext.parallelize([json.dumps(each) for each in rows]))
    found = health(events, since_ms=60_000)
    [orders] = found.partitions
    assert (orders.leader_moves, orders.under_replicated_s) == (1, 0.0)
    assert (found.events, found.first_ms, found.brokers) == (2, 90_000, [2])
    assert [each.start_ms for each in found.windows] == [60_000]


def test_brokers_publish_what_happens(spark: SparkSession) -> None:
    with Cluster(brokers=2, config=EVENTS) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        # Node 1 alone is the controller.
        cluster.wait_isr("orders", 0, {1, 2})
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce("orders", value=b"1")
        assert producer.flush(30) == 0
        # What a broker has not told when it is killed, nobody knows: that it led, for one.
        events_until(
            cluster.bootstrap, lambda event: (event["event"], event.get("topic")) == ("leadership_taken", "orders")
        )
        cluster.kill(2)
        cluster.wait_leader("orders", 0, not_in=[2])
        events_until(cluster.bootstrap, lambda event: event.get("under_replicated"))
        cluster.start(2)
        cluster.wait_isr("orders", 0, {1, 2})
        told = events_until(cluster.bootstrap, lambda event: event.get("new_isr") == [1, 2])
        assert not [event for event in told if event.get("topic") == TOPIC]
        found = health(read_events(spark, cluster.bootstrap), window_s=10)
        [orders] = [each for each in found.partitions if each.topic == "orders"]
        # Broker 1 takes 2 out of the ISR, or takes over from it: whoever of them led.
        assert orders.shrinks + orders.leader_moves >= 1
        assert orders.expands >= 1
        assert orders.under_replicated_s > 0
        assert set(found.brokers) == {1, 2}
        # Who led before is known, however short the time is that is asked for.
        taken = [each for each in told if (each["event"], each.get("topic")) == ("leadership_taken", "orders")]
        taken.sort(key=lambda event: event["leader_epoch"])
        moves = [after["time"] for before, after in pairwise(taken) if before["node"] != after["node"]]
        # An epoch may follow the other under one leader.
        last = moves[-1] if moves else taken[-1]["time"]
        of_late = health(read_events(spark, cluster.bootstrap, last), since_ms=last)
        [again] = [each for each in of_late.partitions if each.topic == "orders"]
        assert (again.leader_moves > 0) == bool(moves)
        assert of_late.first_ms >= last


def events_until(bootstrap: str, is_last: Any) -> list[dict[str, Any]]:
    # Without a group, whose topic would have events of its own.
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    told: list[dict[str, Any]] = []
    try:
        while not told or not is_last(told[-1]):
            message = consumer.poll(60)
            assert message is not None, told[-5:]
            assert message.error() is None, message.error()
            told.append(json.loads(message.value() or b""))
    finally:
        consumer.close()
    return told
