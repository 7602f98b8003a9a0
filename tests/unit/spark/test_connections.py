"""S9: tasks of one worker share connections and metadata, and never a stale one."""

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from tests.clients.waiting import wait_until
from tests.unit.spark import test_writing
from tests.unit.spark.test_reading import OTHER, WANTED, Leader, batch

from tidelog.spark import connections
from tidelog.spark.access import ClusterAccess
from tidelog.spark.connections import CONNECTIONS
from tidelog.spark.fetch_size import LEAST_BYTES
from tidelog.spark.options import parse
from tidelog.spark.ranges import OffsetRange
from tidelog.spark.reading import _Fetching, read
from tidelog.spark.sink_options import SinkOptions
from tidelog.spark.writing import write
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.fetch import FetchResponse, PartitionData
from tidelog.wire.messages.metadata import MetadataRequest

R = TypeVar("R")


def whole(number: int, asked: Any) -> PartitionData:
    return PartitionData(high_watermark=10, records=batch(asked.fetch_offset, 10))


def story(leader: Leader, tasks: Callable[["Worker"], R]) -> R:
    """`tasks` run one after another in a thread, as in a worker of Spark."""

    async def run() -> R:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(leader.serving())
            return await asyncio.to_thread(tasks, Worker(leader, asyncio.get_running_loop()))

    return asyncio.run(run())


class Worker:
    def __init__(self, leader: Leader, loop: asyncio.AbstractEventLoop) -> None:
        self.leader = leader
        self.loop = loop

    def task(self, wanted: OffsetRange = WANTED, **more: str) -> list[int]:
        given = {"kafka.bootstrap.servers": str(self.leader.address), "subscribe": "a"}
        given |= {f"kafka.{name.replace('_', '.')}": value for name, value in more.items()}
        batches = read(parse(given, streaming=True), wanted)
        return [int(value) for rows in batches for value in rows.column("value").to_pylist()]

    def asked(self, request: type[Any]) -> int:
        return sum(isinstance(each, request) for each, _ in self.leader.requests)


def test_the_next_task_uses_the_connection_and_the_metadata() -> None:
    leader = Leader(whole)

    def tasks(worker: Worker) -> tuple[int, int, int]:
        for _ in range(5):
            assert worker.task() == list(range(10))
        return leader.connections, worker.asked(MetadataRequest), len(leader.fetches)

    assert story(leader, tasks) == (1, 1, 5)


def test_other_settings_have_other_connections() -> None:
    leader = Leader(whole)

    def tasks(worker: Worker) -> int:
        for client_id in ("one", "two", "one"):
            worker.task(client_id=client_id)
        return leader.connections

    assert story(leader, tasks) == 2


def test_a_connection_that_the_broker_closed_is_opened_again() -> None:
    leader = Leader(whole)

    def tasks(worker: Worker) -> list[int]:
        worker.task()
        worker.loop.call_soon_threadsafe(leader.hang_up)
        return worker.task()

    assert story(leader, tasks) == list(range(10))
    assert leader.connections == 2


def test_a_connection_that_does_not_answer_any_more_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall drops an idle connection and tells neither side: a fetch on it would take the request timeout."""
    monkeypatch.setattr(connections, "TRUSTED_S", 0.0)
    monkeypatch.setattr(connections, "_TRIAL_S", 0.1)
    leader = Leader(whole)
    answers = leader.handlers[ApiVersionsRequest]

    def tasks(worker: Worker) -> list[int]:
        worker.task()
        trials: list[int] = []

        def silent_once(request: Any, version: int) -> Any:
            trials.append(version)
            return None if len(trials) == 1 else answers(request, version)

        leader.on(ApiVersionsRequest, silent_once)
        found = worker.task()
        assert len(trials) == 2
        return found

    assert story(leader, tasks) == list(range(10))
    assert leader.connections == 2


def test_an_unused_connection_is_closed() -> None:
    leader = Leader(whole)

    def tasks(worker: Worker) -> None:
        worker.task(connections_max_idle_ms="1")
        wait_until(lambda: not leader._writers, "the end of the connection", 10)

    story(leader, tasks)


def test_the_number_of_kept_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_KEPT", 2)
    leader = Leader(whole)

    def tasks(worker: Worker) -> None:
        for number in range(4):
            worker.task(client_id=str(number))
        wait_until(lambda: len(leader._writers) == 2, "the end of two connections", 10)
        worker.task(client_id="3")

    story(leader, tasks)
    assert leader.connections == 4


def test_a_task_that_stops_early_leaves_no_answer_behind() -> None:
    """As with LIMIT: the next fetch is in flight, and the next task would wait for its answer."""

    def fetched(number: int, asked: Any) -> PartitionData | None:
        if number == 2:
            return None
        end = asked.fetch_offset + 2 if number == 1 else 10
        return PartitionData(high_watermark=10, records=batch(asked.fetch_offset, end))

    leader = Leader(fetched)

    def tasks(worker: Worker) -> list[int]:
        given = {"kafka.bootstrap.servers": str(leader.address), "subscribe": "a"}
        options = parse(given, streaming=True)
        fetching = _Fetching(options, WANTED)
        fetching.start()
        fetching.next()
        wait_until(lambda: len(leader.fetches) == 2, "the fetch in flight", 10)
        fetching.stop()
        return worker.task()

    assert story(leader, tasks) == list(range(10))
    assert leader.connections == 2


def test_a_task_that_fails_leaves_the_connection() -> None:
    def fetched(number: int, asked: Any) -> PartitionData | FetchResponse:
        return FetchResponse(error_code=29) if number == 1 else whole(number, asked)

    leader = Leader(fetched)

    def tasks(worker: Worker) -> list[int]:
        with pytest.raises(ApiError, match="fetch of a-0"):
            worker.task()
        return worker.task()

    assert story(leader, tasks) == list(range(10))
    assert leader.connections == 1


def test_metadata_from_before_the_plan_is_not_used() -> None:
    """The topic was recreated, or another leader elected: the driver knows, and the worker asks once."""
    leader = Leader(whole)

    def tasks(worker: Worker) -> list[int]:
        worker.task()
        leader.topic_id = OTHER
        assert worker.task(replace(WANTED, topic_id=OTHER)) == list(range(10))
        assert worker.asked(MetadataRequest) == 2
        leader.epochs = [6]
        worker.task(replace(WANTED, topic_id=OTHER, end_epoch=6))
        return [worker.asked(MetadataRequest), leader.connections]

    assert story(leader, tasks) == [3, 1]


def test_metadata_has_an_age() -> None:
    leader = Leader(whole)

    def tasks(worker: Worker) -> int:
        for _ in range(3):
            worker.task(metadata_max_age_ms="0")
        return worker.asked(MetadataRequest)

    assert story(leader, tasks) == 3


def test_the_size_of_records_is_remembered() -> None:
    leader = Leader(whole)

    def tasks(worker: Worker) -> list[int]:
        for _ in range(2):
            worker.task()
        return [each.partition_max_bytes for each in leader.fetches]

    first, second = story(leader, tasks)
    assert first == 10 * 1024
    assert second == LEAST_BYTES


def test_a_forked_process_has_none_of_the_sockets() -> None:
    """A daemon that forks its workers, or multiprocessing in a task: two readers of one socket would mix answers."""
    leader = Leader(whole)

    def tasks(worker: Worker) -> str:
        worker.task()
        [kept] = CONNECTIONS._kept
        [number] = kept.client.filenos()
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            found = f"{len(CONNECTIONS._kept)} {Path(f'/proc/self/fd/{number}').readlink()}"
            os.write(writes, found.encode())
            os._exit(0)
        os.waitpid(child, 0)
        told = os.read(reads, 1000).decode()
        os.close(reads)
        os.close(writes)
        assert worker.task() == list(range(10))
        return told

    assert story(leader, tasks) == f"0 {os.devnull}"
    assert leader.connections == 1


def test_the_sink_shares_connections() -> None:
    leader = test_writing.Leader(most=10_000)

    def tasks() -> None:
        options = SinkOptions(access=ClusterAccess(bootstrap=str(leader.address)), topic="a", columns=("value",))
        for _ in range(3):
            assert write(options, [pa.record_batch([pa.array([b"x"], pa.binary())], ["value"])]) == 1

    async def run() -> None:
        async with leader.serving():
            await asyncio.to_thread(tasks)

    asyncio.run(run())
    assert leader.connections == 1
    assert leader.values == [b"x"] * 3
