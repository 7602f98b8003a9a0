"""A machine's process can be paused, killed and cut from power; neither it nor its peers see more than they should."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from tidelog.sim.disk import ProcessGone, SimDisk
from tidelog.sim.links import Cut, Delay
from tidelog.sim.loop import VirtualLoop
from tidelog.sim.machine import End, Machine, NotRunning, Ports, State
from tidelog.sim.network import Network

ONE, TWO = "10.0.0.1", "10.0.0.2"


class World:
    """Two machines; what their processes say goes into `said`."""

    def __init__(self) -> None:
        self.network = Network(delay=Delay(0.001, 0.0))
        self.loop = VirtualLoop(network=self.network)
        self.one = Machine(self.loop, ONE, "a seed with which a power cut loses bytes")
        self.two = Machine(self.loop, TWO, "2")
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(f"{self.loop.time():.3f} {text}")

    async def echo(self, ports: Ports) -> None:
        """Answers every line until it is asked to stop; writes what it hears to its disk."""
        ports.disk.make_dirs("/data")
        file = ports.disk.open("/data/heard", create=True)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while line := await reader.readline():
                    assert asyncio.get_running_loop() is ports.loop
                    file.append(line)
                    if line.startswith(b"sync"):
                        file.fsync()
                    writer.write(b"%s heard %s" % (ports.loop.host.encode(), line))
            finally:
                file.append(b"finally\n")
                writer.close()
                await writer.wait_closed()

        server = await asyncio.start_server(serve, ports.loop.host, 7)
        await ports.asked_to_stop.wait()
        server.close()

    async def talk(self, line: str, host: str = ONE) -> str:
        reader, writer = await asyncio.open_connection(host, 7)
        writer.write(line.encode() + b"\n")
        answer = await reader.readline()
        writer.close()
        return answer.decode().strip()

    def close(self) -> None:
        self.one.close()
        self.two.close()
        self.loop.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def heard(machine: Machine) -> bytes:
    return machine.disk.read_bytes("/data/heard")


def test_a_process_sees_its_own_loop_and_ends_in_order(world: World) -> None:
    async def story() -> None:
        ended = world.one.start(world.echo)
        await asyncio.sleep(0)
        assert await world.talk("hello") == "10.0.0.1 heard hello"
        await asyncio.sleep(1)
        world.one.ask_to_stop()
        end = await ended
        assert (end.end, end.left_tasks, end.unhandled) == (End.RETURNED, (), ())
        with pytest.raises(ConnectionRefusedError):
            await world.talk("anybody?")

    world.loop.run_until_complete(story())
    assert heard(world.one) == b"hello\nfinally\n"
    assert world.one.state is State.OFF


def test_a_killed_process_runs_no_finally_and_its_peers_are_reset(world: World) -> None:
    async def story() -> None:
        ended = world.one.start(world.echo)
        await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(ONE, 7)
        writer.write(b"first\n")
        await reader.readline()
        world.one.kill()
        with pytest.raises(ConnectionResetError):
            await reader.readline()
        assert (await ended).end is End.KILLED
        with pytest.raises(ConnectionRefusedError):
            await world.talk("anybody?")
        await asyncio.sleep(100)
        assert heard(world.one) == b"first\n"
        # The next process finds what the killed one wrote, and no lock of it.
        world.one.start(world.echo)
        await asyncio.sleep(0)
        assert await world.talk("second") == "10.0.0.1 heard second"

    world.loop.run_until_complete(story())
    world.close()
    assert heard(world.one) == b"first\nsecond\n"


def test_what_a_dead_process_still_does_reaches_nothing(world: World) -> None:
    async def program(ports: Ports) -> None:
        ports.disk.make_dirs("/data")
        lock = ports.disk.lock("/data/.lock")
        file = ports.disk.open("/data/heard", create=True)
        try:
            await asyncio.sleep(1e6)
        finally:
            # Runs when the world is buried.
            world.said.append("closing")
            lock.release()
            await asyncio.sleep(1)
            file.append(b"too late")

    async def story() -> None:
        world.one.start(program)
        await asyncio.sleep(1)
        world.one.kill()

    world.loop.run_until_complete(story())
    world.one.disk.lock("/data/.lock")
    assert world.said == []
    world.close()
    assert world.said == ["closing"]
    assert heard(world.one) == b""


def test_a_power_cut_loses_what_was_not_synced_and_tells_nobody(world: World) -> None:
    async def story() -> None:
        world.one.start(world.echo)
        await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(ONE, 7)
        for line in (b"sync\n", *(b"more\n",) * 40):
            writer.write(line)
            await reader.readline()
        world.one.power_cut(lose_entries=False)
        silence = asyncio.ensure_future(reader.readline())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(20):
                await asyncio.open_connection(ONE, 7)
        writer.write(b"are you there?\n")
        await asyncio.sleep(20)
        assert not silence.done()
        world.one.start(world.echo)
        # The machine is back and knows nothing of the connection: what waited for it is answered with a reset.
        with pytest.raises(ConnectionResetError):
            await silence

    world.loop.run_until_complete(story())
    assert heard(world.one).startswith(b"sync\n")
    assert len(heard(world.one)) < len(b"sync\n") + 40 * len(b"more\n")


def test_a_paused_process_accepts_and_does_not_answer(world: World) -> None:
    async def story() -> None:
        world.one.start(world.echo)
        await asyncio.sleep(0)
        world.one.pause()
        asked = asyncio.ensure_future(world.talk("hello?"))
        await asyncio.sleep(60)
        assert not asked.done()
        assert world.one.state is State.PAUSED
        at = world.loop.time()
        world.one.resume()
        assert await asked == "10.0.0.1 heard hello?"
        assert world.loop.time() - at == pytest.approx(0.001)

    world.loop.run_until_complete(story())


def test_timers_that_fell_due_during_a_pause_run_at_its_end_in_order(world: World) -> None:
    async def program(ports: Ports) -> None:
        for number in (3, 1, 2):
            ports.loop.call_later(number, world.say, str(number))
        await asyncio.sleep(10)
        world.say("end")

    async def story() -> None:
        ended = world.one.start(program)
        await asyncio.sleep(1.5)
        world.one.stall(30)
        await ended

    world.loop.run_until_complete(story())
    assert world.said == ["1.000 1", "31.500 2", "31.500 3", "31.500 end"]


def test_a_paused_process_can_be_killed(world: World) -> None:
    async def story() -> None:
        world.one.start(world.echo)
        await asyncio.sleep(0)
        world.one.stall(5)
        asked = asyncio.ensure_future(world.talk("hello?"))
        await asyncio.sleep(1)
        world.one.kill()
        with pytest.raises(ConnectionResetError):
            await asked
        await asyncio.sleep(10)

    world.loop.run_until_complete(story())


def test_calls_into_a_process_end_with_it(world: World) -> None:
    async def story() -> None:
        world.one.start(world.echo)
        await asyncio.sleep(0)

        async def host() -> str:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(1)
            return str(getattr(loop, "host", ""))

        assert await world.one.call(host) == ONE
        never = world.one.call(lambda: asyncio.sleep(100))
        await asyncio.sleep(1)
        world.one.kill()
        with pytest.raises(NotRunning):
            await never
        with pytest.raises(NotRunning):
            world.one.call(host)

    world.loop.run_until_complete(story())


def test_a_process_may_be_killed_inside_a_call_to_its_disk(world: World) -> None:
    async def story() -> None:
        ended = world.one.start(world.echo)
        await asyncio.sleep(0)
        world.one.disk_faults.kill_at(world.one.kill_inside, "fsync", path_part="heard")
        with pytest.raises(ConnectionResetError):
            await world.talk("sync now")
        assert (await ended).end is End.KILLED

    world.loop.run_until_complete(story())
    assert heard(world.one) == b"sync now\n"


def test_a_program_that_raises_is_told(world: World) -> None:
    async def program(ports: Ports) -> None:
        raise ValueError("no")

    end = world.loop.run_until_complete(world.one.start(program))
    assert end.end is End.RAISED
    assert isinstance(end.error, ValueError)


def test_machines_talk_and_a_partition_is_silent(world: World) -> None:
    async def asker(ports: Ports) -> None:
        reader, writer = await asyncio.open_connection(ONE, 7)
        for number in range(100):
            writer.write(b"%d\n" % number)
            world.say((await reader.readline()).decode().strip())
            await asyncio.sleep(1)

    async def story() -> None:
        world.one.start(world.echo)
        await asyncio.sleep(0)
        world.two.start(asker)
        await asyncio.sleep(2.5)
        cut = world.network.apply(Cut.partition([[ONE], [TWO]]))
        await asyncio.sleep(10)
        assert len(world.said) == 3
        # Nobody but the machine holds a task that waits for a peer it cannot reach.
        gc.collect()
        # The client is in neither group.
        assert await world.talk("me") == "10.0.0.1 heard me"
        world.network.heal(cut)
        await asyncio.sleep(1)
        assert len(world.said) == 4

    world.loop.run_until_complete(story())


def test_a_disk_that_was_handed_over_refuses_its_old_holder() -> None:
    disk = SimDisk()
    disk.make_dirs("/d")
    file = disk.open("/d/f", create=True)
    file.append(b"kept")
    heir = disk.hand_over()
    with pytest.raises(ProcessGone):
        file.append(b"x")
    with pytest.raises(ProcessGone):
        file.truncate(0)
    with pytest.raises(ProcessGone):
        disk.remove("/d/f")
    assert heir.read_bytes("/d/f") == b"kept"


def test_a_machine_gets_its_power_back_after_everything_was_healed(world: World) -> None:
    async def story() -> None:
        world.one.start(world.echo)
        await asyncio.sleep(0)
        world.one.power_cut()
        world.network.heal_all()
        world.one.start(world.echo)
        await asyncio.sleep(0)
        assert await world.talk("me") == "10.0.0.1 heard me"

    world.loop.run_until_complete(story())
