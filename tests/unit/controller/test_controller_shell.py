"""The shell: answers after the commit, in order, many decisions to one flush, and nothing after a failure."""

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

import pytest
from tests.unit.controller.harness import CLUSTER_ID, node_config, registration

from tidelog.broker import controller_shell
from tidelog.broker.control_plane import ControlPlane, ControlPlanePorts
from tidelog.broker.controller_shell import ControllerShell
from tidelog.broker.metadata_publisher import MetadataListener
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import Event, TopicCreated
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.records import RemoveTopicRecord, frame
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.formatting import format_metadata_dir
from tidelog.sim import loop
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.ports import DiskError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest

P = ParamSpec("P")
T = TypeVar("T")
E = ErrorCode
SEGMENT = "/data/__cluster_metadata-0/00000000000000000000.log"


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


class Gate:
    """Offload that waits for `open`, so that a test can look at what is not yet durable."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()
        self.runs = 0

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self._run(lambda: function(*args, **kwargs))

    def run_all(self, work: Sequence[Callable[[], None]]) -> None:
        for piece in work:
            piece()

    async def _run(self, work: Callable[[], T]) -> T:
        self.runs += 1
        await self.opened.wait()
        return work()


class Shell:
    """A controller and what it stands on."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        assert plane.controller is not None
        self.controller: ControllerShell = plane.controller
        self.send = plane.controller.send
        self.stop = plane.stop
        self.write_snapshot = plane.publisher.write_snapshot

    @property
    def image(self) -> ClusterImage:
        return self.plane.image

    def subscribe(self, listener: MetadataListener) -> None:
        self.plane.publisher.subscribe(listener)


class World:
    """One node's controller over a disk that a test can crash."""

    def __init__(self, config: NodeConfig | None = None, first_records: Sequence[bytes] = ()) -> None:
        self.config = config or node_config()
        self.disk = MemoryDisk()
        self.disk.make_dirs("/data")
        self.disk.fsync_dir("/")
        format_metadata_dir(self.disk, "/data", first_records, voters=None, now_ms=1)
        self.clock = Clock()
        self.gate = Gate()
        self.events: list[Event] = []
        self.fatal: list[BaseException] = []
        self.published: list[tuple[ClusterImage, MetadataDelta]] = []

    async def start(self, seed: int = 1) -> "Shell":
        ports = ControlPlanePorts(
            disk=self.disk,
            offload=self.gate,
            wall_clock=self.clock,
            rng=random.Random(seed),
            events=self.events.append,
            on_fatal=self.fatal.append,
        )
        shell = Shell(ControlPlane(self.config, ports, cluster_id=CLUSTER_ID, directory_id=UUID(int=77)))
        shell.plane.start()
        await shell.plane.quorum.until(lambda: shell.controller.is_active)
        # What it activates with is committed before it serves anybody.
        await shell.plane.quorum.until(lambda: shell.plane.publisher.next_offset == shell.plane.raft.next_offset)
        shell.subscribe(lambda image, delta: self.published.append((image, delta)))
        return shell

    async def start_with_broker(self, incarnation: int = 1) -> "Shell":
        shell = await self.start()
        registered = await shell.send(registration(1, incarnation=incarnation))
        assert registered.error_code == 0
        beat = BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=registered.broker_epoch, current_metadata_offset=shell.image.provenance.offset
        )
        assert not (await shell.send(beat)).is_fenced
        return shell


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def create(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    )


@pytest.mark.rule("C1")
def test_an_answer_comes_after_the_commit_and_after_the_listeners() -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        world.events.clear()
        world.gate.opened.clear()
        before = shell.image
        pending = asyncio.ensure_future(shell.send(create("orders")))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not pending.done() and shell.image is before and world.events == []
        seen: list[bool] = []
        shell.subscribe(lambda image, _: seen.append(pending.done()))
        world.gate.opened.set()
        response = await pending
        assert response.topics[0].error_code == 0
        assert seen == [False, False], "at once for what is there, and for the new topic before it is answered"
        assert shell.image.topic("orders") is not None
        assert isinstance(world.events[0], TopicCreated)

    run(story)


@pytest.mark.rule("Q4")
def test_many_decisions_share_a_flush_and_each_sees_the_one_before() -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        world.gate.runs = 0
        fsyncs = world.disk.fsyncs
        requests = [shell.send(create(f"topic-{number % 50}")) for number in range(100)]
        answers = await asyncio.gather(*requests)
        codes = [answer.topics[0].error_code for answer in answers]
        assert codes == [E.NONE] * 50 + [E.TOPIC_ALREADY_EXISTS] * 50
        assert world.gate.runs == 1 and world.disk.fsyncs - fsyncs == 1
        assert len(shell.image.topics_by_name) == 50

    run(story)


def test_a_refusal_waits_for_what_it_is_based_on() -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        world.gate.opened.clear()
        first = asyncio.ensure_future(shell.send(create("orders")))
        second = asyncio.ensure_future(shell.send(create("orders")))
        for _ in range(10):
            await asyncio.sleep(0)
        # "it exists" would be a lie if the first one were lost
        assert not first.done() and not second.done()
        world.gate.opened.set()
        assert (await first).topics[0].error_code == E.NONE
        assert (await second).topics[0].error_code == E.TOPIC_ALREADY_EXISTS

    run(story)


@pytest.mark.rule("C1")
def test_everything_acknowledged_is_there_after_a_crash() -> None:
    async def story() -> None:
        world = World()
        acknowledged: dict[str, UUID] = {}
        rng = random.Random(5)
        shells = []
        for life in range(1, 8):
            shell = await world.start_with_broker(life)
            shells.append(shell)
            assert {name: shell.image.topics_by_name[name].topic_id for name in acknowledged} == acknowledged
            for number in range(3):
                response = await shell.send(create(f"topic-{life}-{number}"))
                acknowledged[response.topics[0].name] = response.topics[0].topic_id
            # one more that nobody was told of
            world.gate.opened.clear()
            lost = asyncio.ensure_future(shell.send(create(f"unacknowledged-{life}")))
            await asyncio.sleep(0)
            world.disk.crash(rng, lose_entries=True)
            lost.cancel()
            world.gate = Gate()

    run(story)


def test_a_restart_replays_to_the_same_image() -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        await shell.send(create("a.b", "c", partitions=3))
        await shell.send(DeleteTopicsRequest(topic_names=["c"]))
        allocated = await shell.send(AllocateProducerIdsRequest(broker_id=1, broker_epoch=shell.image.brokers[1].epoch))
        assert allocated.producer_id_start == 0
        before = shell.image
        await shell.stop()
        world.published.clear()
        again = await world.start()
        image = again.image
        assert image.topics_by_name == before.topics_by_name and image.brokers == before.brokers
        assert image.next_producer_id == 1000 and image.features == before.features
        assert image.provenance.offset == before.provenance.offset + 1, "the new epoch's leader change"
        # who subscribes later hears of everything at once
        ((told, delta),) = world.published
        assert told is image and [topic.name for topic in delta.created_topics] == ["a.b"]

    run(story)


@pytest.mark.rule("Q6")
def test_snapshots_and_the_tail_give_the_same_image() -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        await shell.send(create("a", partitions=5))
        snapshot = await shell.write_snapshot()
        assert snapshot.end_offset == shell.image.provenance.offset + 1
        await shell.send(create("b"))
        before = shell.image
        world.disk.crash(random.Random(3), lose_entries=True)
        world.gate = Gate()
        again = await world.start()
        assert again.image.topics_by_name == before.topics_by_name
        assert again.image.brokers == before.brokers

    run(story)


@pytest.mark.rule("Q6")
def test_a_snapshot_is_taken_when_enough_was_written() -> None:
    async def story() -> None:
        world = World(node_config(metadata_log_max_record_bytes_between_snapshots="2000"))
        shell = await world.start_with_broker()
        for number in range(20):
            await shell.send(create(f"topic-{number}", partitions=2))
        await shell.stop()
        names = world.disk.list_dir("/data/__cluster_metadata-0")
        assert len([name for name in names if name.endswith(".checkpoint")]) >= 2
        again = await world.start()
        assert len(again.image.topics_by_name) == 20

    run(story)


@pytest.mark.parametrize("operation", ["append", "fsync"])
def test_a_disk_that_fails_ends_it_and_acknowledges_nothing(operation: str) -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        before = shell.image
        world.disk.fault = lambda each, path: errno.EIO if (each, path) == (operation, SEGMENT) else None
        answers = await asyncio.gather(*(shell.send(create(name)) for name in ("a", "b")))
        assert [answer.topics[0].error_code for answer in answers] == [E.NOT_CONTROLLER] * 2
        world.disk.fault = None
        later = await shell.send(create("c"))
        assert later.topics[0].error_code == E.NOT_CONTROLLER
        assert shell.image is before
        assert len(world.fatal) == 1 and isinstance(world.fatal[0], DiskError)
        await shell.stop()

    run(story)


def test_a_listener_that_fails_ends_it() -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()

        def broken(image: ClusterImage, delta: MetadataDelta) -> None:
            if delta.topics:
                raise RuntimeError("cannot apply")

        shell.subscribe(broken)
        answer = await shell.send(create("a"))
        assert answer.topics[0].error_code == E.NOT_CONTROLLER
        assert [str(error) for error in world.fatal] == ["cannot apply"]

    run(story)


def test_too_slow_is_timed_out_and_may_still_happen() -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        world.gate.opened.clear()
        answer = await shell.send(create("a"), timeout_ms=1)
        assert answer.topics[0].error_code == E.REQUEST_TIMED_OUT
        world.gate.opened.set()
        assert (await shell.send(create("a"))).topics[0].error_code == E.TOPIC_ALREADY_EXISTS

    run(story)


def test_stopping_answers_what_is_under_way_and_refuses_the_rest() -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        pending = asyncio.ensure_future(shell.send(create("a")))
        await asyncio.sleep(0)
        stopping = asyncio.ensure_future(shell.stop())
        await asyncio.sleep(0)
        refused = await shell.send(create("b"))
        await stopping
        assert (await pending).topics[0].error_code == E.NONE
        assert refused.topics[0].error_code == E.NOT_CONTROLLER

    run(story)


def test_a_batch_that_is_too_large_is_refused_and_changes_nothing() -> None:
    async def story() -> None:
        world = World(node_config(internal_metadata_max_batch_size_in_bytes="2000"))
        shell = await world.start_with_broker()
        offset = shell.image.provenance.offset
        answer = await shell.send(create("big", partitions=100))
        assert answer.topics[0].error_code == E.POLICY_VIOLATION
        assert (await shell.send(create("small"))).topics[0].error_code == E.NONE
        assert shell.image.provenance.offset == offset + 2

    run(story)


@pytest.mark.rule("C2")
def test_silent_brokers_are_fenced_by_the_timer() -> None:
    async def story() -> None:
        world = World(node_config(broker_session_timeout_ms="2", broker_heartbeat_interval_ms="1"))
        shell = await world.start_with_broker()
        await shell.plane.quorum.until(lambda: shell.image.brokers[1].fenced)

    loop.run(story())


def test_the_formatted_records_come_first() -> None:
    async def story() -> None:
        world = World(first_records=[bytes.fromhex("010c00026d000700")])
        shell = await world.start()
        assert shell.image.features == {"m": 7}

    run(story)


def test_a_record_of_a_newer_version_is_one_line() -> None:
    async def story() -> None:
        world = World(first_records=[b"\x01\x63\x00\x00"])
        with pytest.raises(QuorumError, match="may come from a newer version"):
            await world.start()

    run(story)


def test_a_log_that_is_not_the_history_of_its_image_is_one_line() -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        await shell.send(create("a"))
        # a change of a topic that never was
        stray = frame(RemoveTopicRecord(topic_id=UUID(int=5)))
        shell.plane.quorum.append([stray], 1)
        await shell.stop()
        with pytest.raises(QuorumError, match="cannot be replayed"):
            await world.start()

    run(story)


def test_what_need_not_be_one_batch_is_cut_into_several(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = World()
        shell = await world.start_with_broker()
        await shell.send(create("a", partitions=10))
        monkeypatch.setattr(controller_shell, "MAX_RECORDS_PER_BATCH", 4)
        again = await shell.send(registration(1))
        assert again.error_code == 0
        world.published.clear()
        beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=again.broker_epoch, want_fence=True)
        assert (await shell.send(beat)).is_fenced
        assert [len(delta.topics) for _, delta in world.published] == [1, 1, 1]
        topic = shell.image.topics_by_name["a"]
        assert {partition.leader for partition in topic.partitions.values()} == {-1}

    run(story)


def test_requests_wait_while_too_much_is_uncommitted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(controller_shell, "MAX_UNCOMMITTED_RECORDS", 10)
        world = World()
        shell = await world.start_with_broker()
        world.gate.opened.clear()
        sent = [asyncio.ensure_future(shell.send(create(f"topic-{number}"))) for number in range(20)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(shell.controller._waiting) == 5, "two records each"
        world.gate.opened.set()
        assert [answer.topics[0].error_code for answer in await asyncio.gather(*sent)] == [0] * 20

    run(story)


def test_the_same_seed_gives_the_same_log() -> None:
    async def once() -> bytes:
        world = World()
        shell = await world.start_with_broker()
        await asyncio.gather(*(shell.send(create(f"t{number}", partitions=3)) for number in range(5)))
        await shell.stop()
        return world.disk.read_bytes(SEGMENT)

    assert loop.run(once()) == loop.run(once())
