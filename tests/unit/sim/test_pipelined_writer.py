"""The writer of a simulation that has several batches in flight: all is written once, and who refuses it is found."""

import asyncio
import random
from collections.abc import Iterator

import pytest
from tests.unit.sim.watched import ORDERS, VALUES, World, watched

from tidelog.client.client import Client
from tidelog.sim.checks.mirror import LAST_SEQUENCE, sequence_after
from tidelog.sim.workloads import pipelines
from tidelog.sim.workloads.pipelines import IN_FLIGHT, LostByElection, PipelinedProducer
from tidelog.storage import producer_entry
from tidelog.storage.producer_entry import BatchMetadata, ProducerEntry
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.batch import BatchHeader, read_header
from tidelog.wire.records.plain import Record

END = len(VALUES)


class Beginning(random.Random):
    """Decides whether a writer begins near the last sequence."""

    def __init__(self, *, near: bool) -> None:
        super().__init__(1)
        self._near = near

    def random(self) -> float:
        return 0.0 if self._near else 0.9


@pytest.fixture
def world() -> Iterator[World]:
    with watched() as found:
        yield found


def writer(world: World, client: Client, *, near: bool = False, patience_s: float = 20.0) -> PipelinedProducer:
    return PipelinedProducer(world.office, client, Beginning(near=near), patience_s=patience_s)


def record(world: World) -> list[Record]:
    return [Record(timestamp=world.office.now_ms(), key=None, value=b"next")]


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches had been written after each one that came again."""
    found: list[int] = []
    find_duplicate = ProducerEntry.find_duplicate

    def find(self: ProducerEntry, header: BatchHeader) -> BatchMetadata | None:
        duplicate = find_duplicate(self, header)
        if duplicate is not None:
            found.append(len(self.batches) - 1 - self.batches.index(duplicate))
        return duplicate

    monkeypatch.setattr(ProducerEntry, "find_duplicate", find)
    return found


async def write_and_lose_the_answers(world: World, client: Client, producer: PipelinedProducer) -> list[int]:
    """Batches, of which all but the first are written and answered on a connection that breaks."""
    first = await producer.send(ORDERS.topic, ORDERS.partition, record(world))
    sending = [
        asyncio.ensure_future(producer.send(ORDERS.topic, ORDERS.partition, record(world))) for _ in range(IN_FLIGHT)
    ]
    leader = world.leader()
    await world.cluster.until(lambda: leader.log.log_end_offset == END + 1 + IN_FLIGHT, every_s=0.0001)
    for connection in client._connections.values():
        connection.abort("as if it were reset")
    return [first, *await asyncio.gather(*sending)]


def test_all_that_is_not_acknowledged_is_sent_again_and_written_once(world: World, repeated: list[int]) -> None:
    async def story() -> list[int]:
        async with world.office.client("writer") as client:
            return await write_and_lose_the_answers(world, client, writer(world, client))

    assert world.cluster.run(story()) == list(range(END, END + 1 + IN_FLIGHT))
    assert repeated == [4, 3, 2, 1, 0]
    assert world.leader().log.log_end_offset == END + 1 + IN_FLIGHT
    assert world.failure() is None


def test_sequences_go_on_at_0_after_the_last(world: World) -> None:
    count = pipelines.NEAR_THE_LAST + 1

    async def story() -> list[int]:
        async with world.office.client("writer") as client:
            producer = writer(world, client, near=True)
            return [await producer.send(ORDERS.topic, ORDERS.partition, record(world)) for _ in range(count)]

    assert world.cluster.run(story()) == list(range(END, END + count))
    leader = world.leader()
    entry = leader.log.producers.entries()[-1]
    assert 0 <= entry.last_sequence < pipelines.NEAR_THE_LAST
    assert leader.mirror.problems == []
    assert world.failure() is None


def test_what_comes_late_is_known_or_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "LATE", 1.0)
    told: set[object] = set()
    world.trace.listeners.append(lambda event, fields: told.add(fields["told"]) if event == "late" else None)

    async def story() -> list[int]:
        async with world.office.client("writer") as client:
            producer = writer(world, client)
            return [await producer.send(ORDERS.topic, ORDERS.partition, record(world)) for _ in range(20)]

    assert world.cluster.run(story()) == list(range(END, END + 20))
    # Some were among the last five. The last one may find its connection closed.
    assert told - {"ConnectionFailed"} == {"written before", "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    assert world.leader().log.log_end_offset == END + 20
    assert world.failure() is None


def test_a_leader_that_has_forgotten_what_is_sent_again_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_entry, "BATCHES_REMEMBERED", 1)
    remember = ProducerEntry.remember

    def forgetful(self: ProducerEntry, batch: BatchMetadata) -> None:
        self.batches.clear()
        remember(self, batch)

    monkeypatch.setattr(ProducerEntry, "remember", forgetful)

    async def story() -> None:
        async with world.office.client("writer") as client:
            writing = asyncio.ensure_future(write_and_lose_the_answers(world, client, writer(world, client)))
            await world.watch.failure
            writing.cancel()

    world.cluster.run(story())
    broken = world.failure()
    assert broken is not None
    assert broken.invariant == "Idempotence"
    assert broken.what.startswith("orders-0: OUT_OF_ORDER_SEQUENCE_NUMBER by leader ")


@pytest.mark.parametrize("epochs", [1, 2])
def test_who_refuses_the_first_batch_of_an_epoch_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    async def produce(*told: object) -> int:
        raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    async def story() -> None:
        async with world.office.client("writer") as client:
            producer = writer(world, client, patience_s=0.0 if epochs > 1 else 20.0)
            with monkeypatch.context() as refusing:
                if epochs > 1:
                    refusing.setattr(world.watch, "leader_of", lambda partition: None)
                    refusing.setattr(PipelinedProducer, "_produce", produce)
                    with pytest.raises(ApiError):
                        await producer.send(ORDERS.topic, ORDERS.partition, record(world))
            producer._patience_s = 20.0
            monkeypatch.setattr(PipelinedProducer, "_produce", produce)
            writing = asyncio.ensure_future(producer.send(ORDERS.topic, ORDERS.partition, record(world)))
            await asyncio.wait((writing, world.watch.failure), return_when=asyncio.FIRST_COMPLETED)
            writing.cancel()

    world.cluster.run(story())
    broken = world.failure()
    assert broken is not None
    assert broken.what.startswith("orders-0: OUT_OF_ORDER_SEQUENCE_NUMBER by leader ")
    assert world.trace.counts.get("bumped", 0) == epochs - 1


def test_who_is_refused_after_an_unclean_election_goes_on_in_the_next_epoch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> list[int]:
        async with world.office.client("writer") as client:
            producer = writer(world, client)
            await producer.send(ORDERS.topic, ORDERS.partition, record(world))
            era_of = world.watch.era_of
            monkeypatch.setattr(world.watch, "era_of", lambda partition: era_of(partition) + 1)
            with monkeypatch.context() as forgetting:
                forgetting.setattr(ProducerEntry, "follows", lambda self, base_sequence: False)
                with pytest.raises(LostByElection):
                    await producer.send(ORDERS.topic, ORDERS.partition, record(world))
            return [await producer.send(ORDERS.topic, ORDERS.partition, record(world)) for _ in range(2)]

    assert world.cluster.run(story()) == [END + 1, END + 2]
    entry = world.leader().log.producers.entries()[-1]
    assert (entry.producer_epoch, entry.last_sequence) == (1, 1)
    assert world.trace.counts["bumped"] == 1
    assert world.failure() is None


def test_nor_is_it_wrong_if_it_knew_nothing_of_the_writer_and_took_the_second_batch_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first was refused for another reason: there were too few replicas, and a moment later there were enough."""
    taken: list[int] = []
    refused = [ErrorCode.NOT_ENOUGH_REPLICAS]

    async def produce(self: PipelinedProducer, connection: object, tp: object, batch: pipelines._Batch) -> int:
        header = read_header(batch.data)
        if header.producer_epoch == 0 and header.base_sequence == 1:
            raise ApiError(refused[0])
        await asyncio.sleep(0.001)
        refused[0] = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        taken.append(header.base_sequence)
        return len(taken)

    async def story() -> list[object]:
        async with world.office.client("writer") as client:
            producer = writer(world, client)
            await producer.send(ORDERS.topic, ORDERS.partition, record(world))
            era_of = world.watch.era_of
            monkeypatch.setattr(world.watch, "era_of", lambda partition: era_of(partition) + 1)
            monkeypatch.setattr(PipelinedProducer, "_produce", produce)
            sending = (producer.send(ORDERS.topic, ORDERS.partition, record(world)) for _ in range(2))
            return list(await asyncio.gather(*sending, return_exceptions=True))

    lost, written = world.cluster.run(story())
    assert world.failure() is None
    assert isinstance(lost, LostByElection)
    assert (written, taken) == (1, [2])
    assert world.trace.counts["bumped"] == 1


def test_what_is_not_written_in_time_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    async def produce(*told: object) -> int:
        raise refused

    async def story() -> None:
        async with world.office.client("writer") as client:
            producer = writer(world, client, patience_s=2.0)
            with monkeypatch.context() as refusing:
                refusing.setattr(PipelinedProducer, "_produce", produce)
                with pytest.raises(ApiError) as told:
                    await producer.send(ORDERS.topic, ORDERS.partition, record(world))
            assert told.value is refused
            assert producer.room(ORDERS.topic, ORDERS.partition) == IN_FLIGHT
            assert await producer.send(ORDERS.topic, ORDERS.partition, record(world)) == END

    world.cluster.run(story())
    assert world.leader().log.producers.entries()[-1].producer_epoch == 1


def test_counting_past_the_last_sequence() -> None:
    assert [sequence_after(LAST_SEQUENCE - 1, count) for count in range(4)] == [LAST_SEQUENCE - 1, LAST_SEQUENCE, 0, 1]
