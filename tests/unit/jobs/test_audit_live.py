"""A1 over the wire: in which order brokers are asked, and what is left of one that goes away meanwhile."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.jobs.test_audit import batch

from tidelog.client.addresses import Address
from tidelog.client.errors import ConnectionFailed
from tidelog.core.ids import TopicPartition
from tidelog.jobs.audit import live
from tidelog.jobs.audit.live import LivePlan, RemoteReplica, audit_replica
from tidelog.jobs.audit.rows import Kind

TP = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7)


class Asked:
    """A cluster whose leader takes node 3 out of the ISR, goes on without it, and tells how far it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.isr = [1, 2, 3]
        monkeypatch.setattr(live, "list_offsets", self.high_watermarks)
        monkeypatch.setattr(live, "_compacted", self.none)
        monkeypatch.setattr(live, "_bounds", self.bounds)

    async def retrying(self, ask: Any) -> Any:
        return await ask()

    async def refresh(self, topics: Sequence[str] | None) -> Any:
        partition = SimpleNamespace(partition_index=0, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=self.isr)
        return SimpleNamespace(
            topics=[SimpleNamespace(name="orders", topic_id=TOPIC_ID, error_code=0, partitions=[partition])]
        )

    async def high_watermarks(self, *_: Any) -> Any:
        self.isr = [1, 2]
        return {TP: SimpleNamespace(offset=100)}

    async def none(self, *_: Any) -> set[str]:
        return set()

    async def bounds(self, _: Any, node: int, *__: Any) -> tuple[Address, int, int]:
        return Address("host", node), 0, 40 if node == 3 else 100


def test_who_has_left_the_isr_is_not_held_to_what_was_committed_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Any = Asked(monkeypatch)
    plan: LivePlan = asyncio.run(live._plan(asked, ["orders"]))
    assert {each.node: each.end for each in plan.replicas} == {1: 100, 2: 100, 3: 40}
    assert plan.notes == ["orders-0: broker 3 is not in sync, and is compared up to offset 40 only"]


def test_a_broker_that_goes_away_is_a_row_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [bytes(batch(0, 0)), bytes(batch(2, 0))]

    async def fetch(*_: Any, **__: Any) -> Any:
        if not sent:
            raise ConnectionFailed("host:3: the connection is gone")
        return SimpleNamespace(error_code=0, records=sent.pop(0), high_watermark=100, log_start_offset=0)

    monkeypatch.setattr(live, "_fetch", fetch)
    remote = RemoteReplica(
        topic="orders",
        partition=0,
        topic_id=str(TOPIC_ID),
        node=3,
        host="127.0.0.1",
        port=1,
        start=0,
        end=100,
        compacted=False,
    )
    rows = [(row.kind, row.base_offset, row.what) for row in audit_replica(remote, reads_records=False)]
    assert rows == [(Kind.BATCH, 0, ""), (Kind.BATCH, 2, ""), (Kind.UNREAD, 4, "host:3: the connection is gone")]
