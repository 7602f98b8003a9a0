"""What a network does to hosts: delay, silence one way or both, connections that die with and without a word."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.sim.links import Cut, Delay
from tidelog.sim.loop import VirtualLoop
from tidelog.sim.network import Network
from tidelog.sim.node_loop import NodeLoop

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
ONE, TWO, THREE = HOSTS
PORT = 7


class Peer(asyncio.Protocol):
    """Keeps everything that happens to it."""

    def __init__(self, hosts: "Hosts") -> None:
        self._hosts = hosts
        self.data = bytearray()
        self.log: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.log.append("eof")
        return False

    def pause_writing(self) -> None:
        self.log.append("pause")

    def resume_writing(self) -> None:
        self.log.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.log.append("reset" if exc else "lost")


class Hosts:
    """Three hosts with a listener each."""

    def __init__(self, delay: Delay | None = None, seed: int = 0) -> None:
        self.network = Network(delay=delay or Delay(0.001, 0.0), seed=str(seed))
        self.loop = VirtualLoop(network=self.network)
        self.loops = {host: NodeLoop(self.loop, host) for host in HOSTS}
        self.accepted: dict[str, list[Peer]] = {host: [] for host in HOSTS}
        for host in HOSTS:
            self.network.listen(self.loops[host], lambda host=host: self._accept(host), host, PORT)  # type: ignore[misc]

    def _accept(self, host: str) -> Peer:
        self.accepted[host].append(Peer(self))
        return self.accepted[host][-1]

    async def connect(self, source: str, target: str, port: int = PORT) -> tuple[Peer, Peer]:
        """Both sides of a new connection."""
        _, protocol = await self.loop.create_connection(lambda: Peer(self), target, port, local_addr=(source, 0))
        await asyncio.sleep(0.01)
        return cast(Peer, protocol), self.accepted[target][-1]


def on_hosts(story: Callable[[Hosts], Awaitable[None]], delay: Delay | None = None) -> None:
    hosts = Hosts(delay)
    try:
        hosts.loop.run_until_complete(story(hosts))
    finally:
        hosts.loop.close()


async def reaches(hosts: Hosts, source: str, target: str) -> bool:
    try:
        async with asyncio.timeout(5):
            await hosts.connect(source, target)
    except TimeoutError:
        return False
    return True


def test_bytes_take_their_time() -> None:
    async def story(hosts: Hosts) -> None:
        before = hosts.loop.time()
        near, far = await hosts.connect(ONE, TWO)
        assert hosts.loop.time() - before == pytest.approx(2 * 0.5 + 0.01)
        near.transport.write(b"hello")
        await asyncio.sleep(0.49)
        assert far.data == b""
        await asyncio.sleep(0.02)
        assert far.data == b"hello"

    on_hosts(story, Delay(0.5, 0.0))


def test_order_holds_within_a_connection_and_not_between_two() -> None:
    async def story(hosts: Hosts) -> None:
        arrivals: list[str] = []
        firsts = [await hosts.connect(ONE, TWO) for _ in range(20)]
        for number, (near, far) in enumerate(firsts):
            far.data_received = lambda data, number=number: arrivals.append(  # type: ignore[misc,method-assign]
                f"{number}:{data.decode()}"
            )
            near.transport.write(b"a")
        for near, _ in firsts:
            near.transport.write(b"b")
        await asyncio.sleep(60)
        text = "".join(arrivals)
        for number in range(20):
            own = [piece.split(":")[1] for piece in arrivals if piece.startswith(f"{number}:")]
            assert "".join(own) == "ab"
        assert text != "".join(sorted(arrivals, key=lambda piece: int(piece.split(":")[0])))

    on_hosts(story, Delay(0.001, 1.0))


def test_what_one_link_carries_changes_no_delay_on_another() -> None:
    def delays(seed: str, *, others: int) -> list[float]:
        network = Network(delay=Delay(0.001, 1.0), seed=seed)
        for source, target, port in ((ONE, THREE, PORT), (TWO, ONE, PORT), (ONE, TWO, PORT + 1)):
            for _ in range(others):
                network.link(source, target, port).draw_delay_s()
        link = network.link(ONE, TWO, PORT)
        return [link.draw_delay_s() for _ in range(10)]

    assert delays("a", others=0) == delays("a", others=3) != delays("b", others=0)
    network = Network(delay=Delay(0.001, 1.0))
    drawn = {network.link(source, target, PORT).draw_delay_s() for source in HOSTS for target in HOSTS}
    # Six ways, and within a host no time.
    assert len(drawn) == 6 + 1


def test_a_host_that_is_there_refuses_and_one_that_is_cut_off_is_silent() -> None:
    async def story(hosts: Hosts) -> None:
        with pytest.raises(ConnectionRefusedError):
            await hosts.connect(ONE, TWO, port=8)
        hosts.network.apply(Cut.isolate(TWO))
        for port in (PORT, 8):
            before = hosts.loop.time()
            with pytest.raises(TimeoutError):
                await hosts.connect(ONE, TWO, port)
            assert hosts.loop.time() - before == pytest.approx(127)
        assert await reaches(hosts, ONE, THREE)

    on_hosts(story)


def test_a_connect_that_waits_succeeds_when_the_network_heals() -> None:
    async def story(hosts: Hosts) -> None:
        cut = hosts.network.apply(Cut.isolate(TWO))
        waiting = asyncio.ensure_future(hosts.connect(ONE, TWO))
        await asyncio.sleep(30)
        assert not waiting.done()
        hosts.network.heal(cut)
        near, far = await waiting
        near.transport.write(b"at last")
        await asyncio.sleep(1)
        assert far.data == b"at last"

    on_hosts(story)


def test_partitions_of_every_shape() -> None:
    async def story(hosts: Hosts) -> None:
        network = hosts.network

        async def reach() -> str:
            """Who can connect to whom."""
            pairs = [(a, b) for a in HOSTS for b in HOSTS if a != b]
            answers = await asyncio.gather(*(reaches(hosts, a, b) for a, b in pairs))
            return " ".join(f"{a[-1]}{b[-1]}" for (a, b), works in zip(pairs, answers, strict=True) if works)

        assert await reach() == "12 13 21 23 31 32"
        cut = network.apply(Cut.partition([[ONE], [TWO, THREE]]))
        assert await reach() == "23 32"
        network.heal(cut)
        cut = network.apply(Cut.bridge([ONE], TWO, [THREE]))
        assert await reach() == "12 21 23 32"
        network.heal(cut)
        cut = network.apply(Cut.isolate(THREE))
        assert await reach() == "12 21"
        overlapping = network.apply(Cut.partition([[ONE], [TWO, THREE]]))
        assert await reach() == ""
        network.heal(cut)
        assert await reach() == "23 32"
        network.heal(overlapping)
        # One way is enough to break a connect: the answer does not come.
        network.apply(Cut.one_way([ONE], [TWO]))
        assert await reach() == "13 23 31 32"
        network.heal_all()
        assert await reach() == "12 13 21 23 31 32"

    on_hosts(story)


def test_a_one_way_cut_stops_one_direction_only() -> None:
    async def story(hosts: Hosts) -> None:
        near, far = await hosts.connect(ONE, TWO)
        cut = hosts.network.apply(Cut.one_way([ONE], [TWO]))
        near.transport.write(b"request")
        far.transport.write(b"answer")
        await asyncio.sleep(10)
        assert (bytes(near.data), bytes(far.data)) == (b"answer", b"")
        near.transport.write(b" and more")
        hosts.network.heal(cut)
        await asyncio.sleep(1)
        assert bytes(far.data) == b"request and more"
        assert near.log == far.log == []

    on_hosts(story)


def test_a_connection_that_is_broken_off_is_reset_on_both_sides() -> None:
    async def story(hosts: Hosts) -> None:
        near, far = await hosts.connect(ONE, TWO)
        other, _ = await hosts.connect(ONE, THREE)
        near.transport.write(b"lost on the way")
        assert hosts.network.break_off(TWO, ONE) == 1
        await asyncio.sleep(1)
        assert (near.log, far.log, other.log) == (["reset"], ["reset"], [])
        assert far.data == b""
        assert hosts.network.break_off(TWO, ONE) == 0

    on_hosts(story)


def test_a_half_open_connection_is_silent_for_ever() -> None:
    async def story(hosts: Hosts) -> None:
        near, far = await hosts.connect(ONE, TWO)
        assert hosts.network.half_open(ONE, TWO) == 1
        near.transport.write(b"anybody?")
        far.transport.write(b"anybody?")
        near.transport.close()
        await asyncio.sleep(10_000)
        # Closing works, as it does with a real socket; the other side never hears of it.
        assert (near.log, far.log) == (["lost"], [])
        fresh, far = await hosts.connect(ONE, TWO)
        fresh.transport.write(b"new")
        await asyncio.sleep(1)
        assert far.data == b"new"

    on_hosts(story)


def test_a_reset_that_is_lost_leaves_the_other_side_to_find_out_by_writing() -> None:
    async def story(hosts: Hosts) -> None:
        near, far = await hosts.connect(ONE, TWO)
        cut = hosts.network.apply(Cut.isolate(TWO))
        near.transport.abort()
        hosts.network.heal(cut)
        await asyncio.sleep(1000)
        assert (near.log, far.log) == (["lost"], [])
        far.transport.write(b"still there?")
        await asyncio.sleep(1)
        assert far.log == ["reset"]

    on_hosts(story)


def test_an_end_of_file_is_sent_until_it_arrives() -> None:
    async def story(hosts: Hosts) -> None:
        near, far = await hosts.connect(ONE, TWO)
        cut = hosts.network.apply(Cut.isolate(TWO))
        near.transport.write(b"last words")
        near.transport.close()
        await asyncio.sleep(100)
        assert (near.log, far.log) == (["lost"], [])
        hosts.network.heal(cut)
        await asyncio.sleep(1)
        assert (bytes(far.data), far.log) == (b"last words", ["eof", "lost"])

    on_hosts(story)


def test_bytes_on_the_way_count_against_the_writer() -> None:
    async def story(hosts: Hosts) -> None:
        near, far = await hosts.connect(ONE, TWO)
        near.transport.set_write_buffer_limits(high=1000)
        cut = hosts.network.apply(Cut.one_way([ONE], [TWO]))
        near.transport.write(b"x" * 1001)
        await asyncio.sleep(5)
        assert near.log == ["pause"]
        hosts.network.heal(cut)
        await asyncio.sleep(1)
        assert near.log == ["pause", "resume"]
        assert len(far.data) == 1001

    on_hosts(story)


def test_a_slow_host_is_slow_for_everybody() -> None:
    async def story(hosts: Hosts) -> None:
        near, far = await hosts.connect(ONE, TWO)
        other, third = await hosts.connect(ONE, THREE)
        hosts.network.slow_down(TWO, Delay(2.0, 0.0))
        near.transport.write(b"slow")
        other.transport.write(b"fast")
        await asyncio.sleep(1)
        assert (bytes(far.data), bytes(third.data)) == (b"", b"fast")
        await asyncio.sleep(1.1)
        assert bytes(far.data) == b"slow"
        hosts.network.slow_down(TWO, None)
        near.transport.write(b"er")
        await asyncio.sleep(0.1)
        assert bytes(far.data) == b"slower"

    on_hosts(story)


def test_a_cut_may_concern_one_port_only() -> None:
    async def story(hosts: Hosts) -> None:
        hosts.network.listen(hosts.loops[TWO], lambda: Peer(hosts), TWO, 8)
        hosts.network.apply(Cut.isolate(TWO).on_port(8))
        assert await reaches(hosts, ONE, TWO)
        with pytest.raises(TimeoutError):
            await hosts.connect(ONE, TWO, 8)

    on_hosts(story)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.binary(min_size=1, max_size=50)),
        st.tuples(st.just("back"), st.binary(min_size=1, max_size=50)),
        st.tuples(st.just("cut"), st.integers(0, 3)),
        st.tuples(st.just("heal"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.floats(0, 0.1)),
    ),
    max_size=40,
)


@given(steps=STEPS, seed=st.integers(0, 1 << 32))
def test_whatever_is_cut_and_healed_bytes_arrive_once_and_in_order(steps: list[tuple[str, object]], seed: int) -> None:
    async def story(hosts: Hosts) -> None:
        near, far = await hosts.connect(ONE, TWO)
        sent, returned = bytearray(), bytearray()
        kinds = [
            Cut.isolate(TWO),
            Cut.partition([[ONE], [TWO]]),
            Cut.one_way([ONE], [TWO]),
            Cut.one_way([TWO], [ONE, THREE]),
        ]
        for step, value in steps:
            if step == "write":
                near.transport.write(cast(bytes, value))
                sent += cast(bytes, value)
            elif step == "back":
                far.transport.write(cast(bytes, value))
                returned += cast(bytes, value)
            elif step == "cut":
                hosts.network.apply(kinds[cast(int, value)])
            elif step == "heal" and hosts.network.cuts:
                hosts.network.heal(hosts.network.cuts[cast(int, value) % len(hosts.network.cuts)])
            elif step == "wait":
                await asyncio.sleep(cast(float, value))
            assert sent.startswith(far.data)
            assert returned.startswith(near.data)
        hosts.network.heal_all()
        await asyncio.sleep(100)
        assert (bytes(far.data), bytes(near.data)) == (bytes(sent), bytes(returned))

    hosts = Hosts(Delay(0.001, 0.02), seed)
    hosts.loop.run_until_complete(story(hosts))
    hosts.loop.close()
