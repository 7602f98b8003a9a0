"""Clusters in states that are hard to reach and to hold: boards filled by hand, served as the live page is served."""

import asyncio
import random
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import uvicorn

from tidelog.cluster.errors import ClusterError
from tidelog.metadata.names import GROUP_OFFSETS_TOPIC
from tidelog.web.app import Live, Page
from tidelog.web.audience import Audience
from tidelog.web.board import Board
from tidelog.web.guard import Guard
from tidelog.web.sources import Sources
from tidelog.web.trace import Playback
from tidelog.web.watching import Watching

TOKEN: Final = "token-of-the-tests"
START_MS: Final = 1_763_596_800_000
LONG_TOPIC: Final = (
    "warehouse.inventory.reconciliation.events.enriched.with.customer.segments.v2-compacted_and_tiered" * 2
)
CONFIGS: Final = [
    ["min.insync.replicas", "2", "DYNAMIC_TOPIC_CONFIG"],
    ["cleanup.policy", "compact,delete", "DYNAMIC_TOPIC_CONFIG"],
    [
        "follower.replication.throttled.replicas",
        ",".join(f"{n}:{n % 3 + 1}" for n in range(40)),
        "DYNAMIC_TOPIC_CONFIG",
    ],
    ["leader.replication.throttled.replicas", "", "DEFAULT_CONFIG"],
    ["message.timestamp.difference.max.ms", "9223372036854775807", "DEFAULT_CONFIG"],
    ["unclean.leader.election.enable", "false", "STATIC_BROKER_CONFIG"],
    ["segment.index.bytes", "10485760", "DEFAULT_CONFIG"],
    ["retention.ms", "604800000", "DYNAMIC_DEFAULT_BROKER_CONFIG"],
    ["tidelog.record.validation", "as-configured", "DEFAULT_CONFIG"],
    *([f"made.up.config.number.{n}", str(n), "DEFAULT_CONFIG"] for n in range(20)),
]


class State:
    """A board, filled with the rows that nodes and the supervisor send."""

    def __init__(self, nodes: int = 3) -> None:
        self.board = Board()
        self.watching = Watching(self.board)
        self.now_ms = START_MS
        self.ids = list(range(1, nodes + 1))
        self.states = dict.fromkeys(self.ids, "running")
        self.links: dict[int, dict[str, Any]] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        self.random = random.Random(7)
        self.supervisor()
        for node in self.ids:
            self.line(node, quorum=["leader" if node == 2 else "follower", 3, 2, 1_250, 1_249, True], first=True)
        self.line(1, brokers=[[node, 10 + node, "unfenced"] for node in self.ids])

    def line(self, node: int, *, first: bool = False, **fields: Any) -> None:
        self.watching.node_line({"node": node, "time": self.now_ms, **fields}, first=first, now_ms=self.now_ms)

    def supervisor(self, **states: str) -> None:
        self.states |= {int(name.removeprefix("node")): state for name, state in states.items()}
        healed = {"deaf": [], "mute": [], "delay_ms": 0}
        told = [
            {
                "id": node,
                "state": self.states[node],
                "roles": ["broker", "controller"],
                "port": 9091 + node,
                "pid": node,
            }
            | {"links": healed | self.links.get(node, {})}
            for node in self.ids
        ]
        self.watching.supervisor_line({"nodes": told}, self.now_ms)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.watching.tick(self.now_ms)

    def topic(self, name: str, partitions: int, replicas: int = 3, end: int | None = None) -> None:
        for number in range(partitions):
            ids = [self.ids[(number + place) % len(self.ids)] for place in range(min(replicas, len(self.ids)))]
            self.partition(name, number, ids, ids, end=self.random.randrange(900, 4_000) if end is None else end)

    def partition(
        self, topic: str, number: int, replicas: Sequence[int], isr: Sequence[int], *, end: int, **more: Any
    ) -> None:
        """`leader`, `hw`, `ends` (by node), `elr` where they differ from the defaults."""
        leader = more.get("leader", isr[0] if isr else -1)
        epoch = self.epochs[topic, number] = self.epochs.get((topic, number), -1) + 1
        row = [
            topic,
            f"id-{topic}",
            number,
            leader,
            epoch,
            epoch,
            list(replicas),
            list(isr),
            more.get("elr", []),
            False,
        ]
        self.line(self.ids[0], metadata=[row])
        for node in replicas:
            role = "leader" if node == leader else "follower"
            log_end = more.get("ends", {}).get(node, end)
            hw = min(more.get("hw", end), log_end)
            minimum = more.get("min_isr", 2) if role == "leader" else None
            if self.states[node] != "killed":
                replica = [topic, number, role, epoch, more.get("start", 0), hw, hw - more.get("open", 0), log_end]
                self.line(node, replicas=[[*replica, minimum, more.get("asked") if role == "leader" else None]])

    def event(self, node: int, kind: str, text: str, **fields: Any) -> None:
        self.line(node, events=[{"event": kind, "time": self.now_ms, "text": text, **fields}])

    def group(self, name: str, topic: str, partitions: int, *, lag: int, client: str = "consumer-1") -> None:
        groups = {each["id"]: each for each in self.board.groups}
        offsets: list[list[Any]] = []
        for number in range(partitions):
            partition = self.board.partitions.get((topic, number))
            assert partition is not None
            end = max(replica.high_watermark for replica in partition.held.values())
            offsets.append([topic, number, max(0, end - lag), client])
        groups[name] = {"id": name, "state": "Stable", "members": 2, "offsets": offsets}
        self.board.put_groups(groups)

    def write(self) -> None:
        """Some records to each of the first partitions, where they can be committed."""
        for partition in list(self.board.partitions)[:60]:
            leading = partition.leading
            if leading is None or leading.high_watermark < leading.log_end_offset:
                continue
            end = leading.log_end_offset + self.random.randrange(4)
            for node in partition.isr:
                role = "leader" if node == partition.leader else "follower"
                told = [partition.topic, partition.number, role, partition.leader_epoch, leading.log_start_offset]
                self.line(node, replicas=[[*told, end, end, end, partition.min_isr, None]])


def _usual(state: State) -> State:
    state.topic("orders", 6)
    state.topic("payments", 3)
    state.topic(GROUP_OFFSETS_TOPIC, 50, end=40)
    state.group("billing", "orders", 6, lag=0)
    state.group("fraud-detection", "payments", 3, lag=1_204)
    return state


def healthy() -> State:
    state = _usual(State())
    state.event(2, "topic_created", "topic orders (x) created, partitions 6, replication factor 3", topic="orders")
    return state


def killed() -> State:
    """Fifty partitions; node 1 was killed while it led a third of them."""
    state = State()
    state.topic("orders", 30)
    state.topic("payments", 20)
    state.topic(GROUP_OFFSETS_TOPIC, 50, end=40)
    state.group("billing", "orders", 30, lag=37)
    state.wait(1_000)
    state.supervisor(node1="killed")
    state.watching.node_lost(1, state.now_ms)
    state.line(2, brokers=[[1, 11, "fenced"]])
    reason = "its connections ended and its listener refuses"
    text = f"broker 1 with epoch 11 fenced: {reason}"
    state.event(2, "broker_fenced", text, broker_id=1, broker_epoch=11, reason=reason)
    for topic, partitions in (("orders", 30), ("payments", 20), (GROUP_OFFSETS_TOPIC, 50)):
        for number in range(partitions):
            known = state.board.partitions.get((topic, number))
            assert known is not None
            isr = [node for node in known.replicas if node != 1]
            end = known.held[isr[0]].log_end_offset + 45
            state.partition(topic, number, known.replicas, isr, end=end)
            where = {"topic": topic, "partition": number, "leader": isr[0], "reason": "broker 1 is fenced"}
            name = f"{topic}-{number}"
            if known.leader == 1:
                text = f"{name}: leader 1 to {isr[0]} in epoch 1, ISR [1,2,3] to [2,3], ELR []: broker 1 is fenced"
                state.event(2, "leader_elected", text, **where)
            text = f"{name}: ISR [1,2,3] to [2,3] in epoch 1, LEO {end}, HW {end}: broker 1 is fenced"
            state.event(2, "isr_changed", text, old_isr=[1, 2, 3], new_isr=[2, 3], **where)
    return state


def stalled() -> State:
    """Node 3 is isolated and late, node 1 paused: every kind of trouble at once."""
    state = _usual(State())
    state.wait(500)
    state.links = {3: {"deaf": [1, 2], "mute": [1, 2], "delay_ms": 200}}
    state.supervisor(node1="paused")
    state.partition("orders", 0, [1, 2, 3], [2, 1, 3], end=4_120, hw=3_900, ends={1: 3_900, 3: 4_000}, min_isr=2)
    state.partition("orders", 1, [2, 3, 1], [2], end=3_300, hw=3_280, elr=[3], ends={1: 3_200}, min_isr=2)
    state.partition("orders", 2, [3, 1, 2], [], end=2_000, leader=-1, elr=[3])
    state.partition("orders", 3, [1, 2, 3], [1, 2, 3], end=1_999_000, start=120_000, hw=1_998_000, open=500)
    state.partition("orders", 4, [2, 3, 1], [2, 3], end=2_900, asked=[1, 2, 3], open=20)
    text = "orders-2: leader 3 to none in epoch 1, ISR [3] to [], ELR [] to [3]: broker 3 is fenced"
    state.event(2, "leader_elected", text, leader=-1, topic="orders", partition=2, reason="broker 3 is fenced")
    state.wait(2_500)
    return state


def thousand() -> State:
    state = State(5)
    state.topic("events", 1_000, end=1_234_567)
    state.topic(GROUP_OFFSETS_TOPIC, 50, end=40)
    for number in range(60):
        state.topic(f"topic-{number:03}", 1)
        state.group(f"group-{number:03}", f"topic-{number:03}", 1, lag=number)
    state.watching.board.groups_total = 120
    for number in range(200):
        state.now_ms += 1_500
        text = f"events-{number}: ISR [1,2,3] to [2,3] in epoch 0, LEO 1234567, HW 1234567: broker 1 is behind"
        where = {"topic": "events", "partition": number, "reason": "broker 1 is behind"}
        state.event(2, "isr_changed", text, old_isr=[1, 2, 3], new_isr=[2, 3], **where)
    return state


def long_names() -> State:
    """Names as long as Kafka allows them, large numbers, nine nodes."""
    state = State(9)
    topic = LONG_TOPIC[:249]
    state.topic(topic, 4, replicas=5, end=98_765_432_109)
    state.topic("a" * 249, 2, end=5)
    state.group("consumer-group." * 16, topic, 4, lag=1_234_567_890, client="client-" + "x" * 120)
    state.links = {4: {"deaf": [1, 2, 3, 5, 6, 7, 8, 9], "mute": [1, 2, 3, 5, 6, 7, 8, 9], "delay_ms": 60_000}}
    state.supervisor(node5="crashed", node6="starting")
    isr, where = {"old_isr": [1, 2, 3, 4, 5], "new_isr": [1, 2]}, {"topic": topic, "partition": 0}
    text = f"{topic}-0: ISR [1,2,3,4,5] to [1,2] in epoch 0, LEO 98765432109, HW 98765432109: too far behind"
    state.event(2, "isr_changed", text, reason="too far behind", **isr, **where)
    return state


def silent() -> State:
    """No node runs, no topic is known."""
    state = State()
    state.supervisor(node1="killed", node2="stopped", node3="crashed")
    for node in state.ids:
        state.watching.node_lost(node, state.now_ms)
    return state


STATES: Final[dict[str, Callable[[], State]]] = {
    "healthy": healthy,
    "killed": killed,
    "stalled": stalled,
    "thousand": thousand,
    "long-names": long_names,
    "silent": silent,
}


@dataclass(frozen=True, slots=True)
class Served:
    """The addresses of the pages, with their tokens: one for each state, and "trace"."""

    urls: dict[str, str]


class _Supervisor:
    """Takes commands in place of a supervisor, and refuses those for node 3."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def command(self, request: dict[str, Any]) -> None:
        self.asked.append(request)
        if request.get("node") == 3:
            raise ClusterError("node 3 is not running")


@contextmanager
def serve_states(trace: Sequence[str], states: Sequence[str] = tuple(STATES)) -> Iterator[Served]:
    """Serves the states from one thread, each on its own port, and the trace if it has lines. Records keep flowing."""
    servers: list[tuple[uvicorn.Server, socket.socket]] = []
    urls: dict[str, str] = {}
    flows: list[tuple[State, Audience]] = []
    for name in (*states, *(("trace",) if trace else ())):
        sock = socket.create_server(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        live = None
        if name != "trace":
            state = STATES[name]()
            audience = Audience(state.board)
            flows.append((state, audience))
            live = Live(
                board=state.board,
                audience=audience,
                sources=cast(Sources, _Supervisor()),
                cluster_id="tests",
                bootstrap="127.0.0.1:9092",
            )
        page = Page(live, Playback(trace) if live is None else None)
        app = page.application(Guard(port, TOKEN))
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        servers.append((uvicorn.Server(config), sock))
        urls[name] = f"http://127.0.0.1:{port}/#token={TOKEN}"

    async def flow() -> None:
        while True:
            await asyncio.sleep(0.25)
            for state, audience in flows:
                state.now_ms += 250
                state.board.now_ms = state.now_ms
                state.write()
                audience.changed()

    async def run() -> None:
        flowing = asyncio.create_task(flow())
        await asyncio.gather(*(server.serve([sock]) for server, sock in servers))
        flowing.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield Served(urls)
    finally:
        for server, _ in servers:
            server.should_exit = True
        thread.join()
