"""The application through a leader that dies, brokers that are too few, and consumers that come and go.

Three real brokers, started once for all tests; a topic of its own for each.
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
def test_an_order_that_is_not_safe_is_refused(tidelog_shared_cluster: Cluster, tidelog_topic: str) -> None:
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
def test_who_is_left_takes_over_from_who_leaves(tidelog_shared_cluster: Cluster, tidelog_topic: str) -> None:
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
