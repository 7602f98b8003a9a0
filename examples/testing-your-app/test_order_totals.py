"""The application while a leader dies, too few brokers are in sync, and consumers join and leave.

All tests share three real brokers; each test has a topic of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from order_totals import NotStored, Shop, Totals

from tidelog.testing import Cluster

POLL_S = 0.05
POLLS = 600


@contextmanager
def reading(bootstrap: str, topic: str, group: str) -> Iterator[Totals]:
    totals = Totals(bootstrap, topic, group)
    try:
        yield totals
    finally:
        totals.close()


def work(*members: Totals, until: Callable[[], bool]) -> None:
    for _ in range(POLLS):
        if until():
            return
        for member in members:
            member.work(POLL_S)
    raise AssertionError(f"at the end: {[member.totals for member in members]}")


@pytest.mark.tidelog_topic(replication_factor=3, config={"min.insync.replicas": "2"})
def test_no_order_is_lost_or_counted_twice_when_the_leader_dies(
    tidelog_shared_cluster: Cluster, tidelog_topic: str
) -> None:
    cluster = tidelog_shared_cluster
    shop = Shop(cluster.bootstrap, tidelog_topic)
    for number in range(20):
        if number == 10:
            cluster.kill(cluster.leader(tidelog_topic, 0))
        shop.place("ada", f"order-{number}", 1)
    with reading(cluster.bootstrap, tidelog_topic, "leader") as totals:
        work(totals, until=lambda: totals.totals == {"ada": 20})


@pytest.mark.tidelog_topic(replication_factor=3, config={"min.insync.replicas": "3"})
def test_an_order_is_refused_while_too_few_brokers_are_in_sync(
    tidelog_shared_cluster: Cluster, tidelog_topic: str
) -> None:
    cluster = tidelog_shared_cluster
    shop = Shop(cluster.bootstrap, tidelog_topic)
    shop.place("ada", "order-1", 5)
    leader = cluster.leader(tidelog_topic, 0)
    follower = next(node for node in cluster.nodes if node != leader)
    cluster.kill(follower)
    cluster.wait_isr(tidelog_topic, 0, set(cluster.nodes) - {follower})
    with pytest.raises(NotStored):
        Shop(cluster.bootstrap, tidelog_topic, timeout_s=1.0).place("ada", "order-2", 5)
    cluster.start(follower)
    cluster.wait_isr(tidelog_topic, 0, cluster.nodes)
    shop.place("ada", "order-3", 5)
    with reading(cluster.bootstrap, tidelog_topic, "refused") as totals:
        work(totals, until=lambda: totals.totals == {"ada": 10})


@pytest.mark.tidelog_topic(partitions=4)
def test_the_last_consumer_takes_over_all_partitions(tidelog_shared_cluster: Cluster, tidelog_topic: str) -> None:
    cluster = tidelog_shared_cluster
    shop = Shop(cluster.bootstrap, tidelog_topic)
    customers = [f"customer-{number}" for number in range(8)]
    for customer in customers:
        shop.place(customer, f"of-{customer}", 3)
    everything = dict.fromkeys(customers, 3)
    with reading(cluster.bootstrap, tidelog_topic, "team") as stays:
        with reading(cluster.bootstrap, tidelog_topic, "team") as leaves:
            work(stays, leaves, until=lambda: len(stays.partitions) == len(leaves.partitions) == 2)
            work(stays, leaves, until=lambda: stays.totals | leaves.totals == everything)
        work(stays, until=lambda: stays.totals == everything)
