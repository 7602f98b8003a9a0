"""`Cluster`: a cluster for the length of a `with` block."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

from tidelog.client import topics
from tidelog.client.client import Client, one_line
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.plan import ClusterRequest
from tidelog.cluster.process import last_lines
from tidelog.cluster.properties import check_settings
from tidelog.cluster.run import stop_or_kill, supervised
from tidelog.cluster.states import NodeState
from tidelog.cluster.supervisor import Supervisor
from tidelog.testing import leftovers
from tidelog.testing.loop_thread import LoopThread
from tidelog.testing.node_log import last_lines_folded
from tidelog.testing.witnesses import ReplicaView, Witnesses
from tidelog.wire.errors import ApiError

T = TypeVar("T")

DEFAULT_TIMEOUT_S: Final = 30.0
CLUSTERS_VARIABLE: Final = "TIDELOG_CLUSTERS"
_POLL_S: Final = 0.02
_KNOWN_S: Final = 5.0
# A request that a paused broker swallowed is asked of another, while there is time.
_SETTINGS: Final = ConnectionSettings(client_id="tidelog-testing", connect_timeout_s=2.0, request_timeout_s=10.0)
_LOG_LINES: Final = 40


def kept_clusters() -> Path | None:
    """The directory for temporary clusters, which is also where those of failed tests are kept.

    None: the system's directory for temporary files.
    """
    name = os.environ.get(CLUSTERS_VARIABLE)
    if not name:
        return None
    Path(name).mkdir(parents=True, exist_ok=True)
    return Path(name).resolve()


class Cluster:
    """Brokers on free ports of this machine; started on enter, stopped and removed on exit.

    One broker unless more are asked for: most suites test a client, and a cluster of one starts in half the time.

    `config` holds Kafka's keys for every broker; an unknown key or a bad value is a `BadConfig`.
    With `data` the directory is used and kept, and a cluster found there goes on; without it everything is temporary
    and kept only when the block fails (see `directory`).
    All methods block; they may be called from any thread. `async with` works too, and starts and stops without holding
    up the event loop; there the others are called as `await asyncio.to_thread(cluster.kill, 1)`.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        config: Mapping[str, str] | None = None,
        data: str | Path | None = None,
        port: int | None = None,
    ) -> None:
        self.brokers = brokers
        self.keep = False
        self._config = dict(config or {})
        check_settings(self._config)
        self._data = Path(data) if data is not None else None
        self._port = port
        self._temporary: Path | None = None
        self._thread: LoopThread | None = None
        self._supervisor: Supervisor | None = None
        # What `_start` has opened so far, and how its nodes end.
        self._opened = AsyncExitStack()
        self._ends_in_order = True
        # Set by ctrl-C while the nodes stop: kills them.
        self._force = asyncio.Event()
        # The process that entered the block.
        self._owner = -1
        self._client: Client | None = None
        self._witnesses: Witnesses | None = None

    def __enter__(self) -> "Cluster":
        if self._thread is not None:
            raise ClusterError("this cluster is already running")
        if self._data is None:
            leftovers.remove_old_once()
            self._temporary = Path(tempfile.mkdtemp(prefix=leftovers.PREFIX, dir=kept_clusters()))
        self._owner = os.getpid()
        self._force = asyncio.Event()
        self._thread = LoopThread("tidelog-cluster")
        try:
            self._thread.call(self._start())
        except BaseException as error:
            if isinstance(error, ClusterError) and self._supervisor is not None:
                error.add_note(self.logs())
            self._close(failed=False)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owner != os.getpid():
            # A process that the user forked inside the block: the cluster goes on, and belongs to the parent.
            return
        if self._thread is None:
            # It has been closed already.
            return
        if error is not None and self._temporary is not None:
            self.keep = True
            error.add_note(f"the cluster's data and logs are kept in {self._temporary}")
        self._close(failed=error is not None)

    async def __aenter__(self) -> "Cluster":
        starting = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A thread cannot be cancelled: what it has started is stopped again.
            await asyncio.wait([starting])
            if starting.exception() is None:
                await asyncio.to_thread(self._close, failed=False)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    @property
    def nodes(self) -> list[int]:
        """Their ids."""
        return [node.id for node in self._running().layout.nodes]

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, as a Kafka client takes them."""
        return self._running().bootstrap

    @property
    def directory(self) -> Path:
        """Where the cluster lives; `tidelog chaos … --data DIR` works on it too."""
        return self._running().directory.path

    def metrics_url(self, node: int) -> str:
        """Where Prometheus reads a node's numbers."""
        return self._running().layout.node(node).metrics_url

    def log(self, node: int, lines: int = _LOG_LINES, *, internal: bool = False) -> str:
        """The last lines of a node's log. Lines of internal topics are folded into one unless `internal` is true."""
        console = self._running().directory.console(node)
        return last_lines(console, lines) if internal else last_lines_folded(console, lines)

    def logs(self, lines: int = _LOG_LINES, *, internal: bool = False) -> str:
        """The last lines of each node's log, as `log` returns them."""
        return "\n".join(f"--- node {node} ---\n{self.log(node, lines, internal=internal)}" for node in self.nodes)

    def pid(self, node: int) -> int | None:
        """The process of a node, None while it is down."""
        return self._running().node(node).status().pid

    # --- faults ---

    def kill(self, node: int) -> None:
        """SIGKILL; returns when the process is gone."""
        self._call(self._running().kill(node))

    def stop(self, node: int) -> None:
        """A controlled shutdown."""
        self._call(self._running().stop(node))

    def start(self, node: int) -> None:
        """Starts a node that is down and waits until it serves, unless too few controllers run for anyone to serve."""
        self._call(self._running().start(node))

    def pause(self, node: int) -> None:
        """SIGSTOP: the node freezes, its connections stay open."""
        supervisor = self._running()

        async def pause() -> None:
            supervisor.pause(node)

        self._call(pause())

    def resume(self, node: int) -> None:
        """SIGCONT after `pause`."""
        supervisor = self._running()

        async def resume() -> None:
            supervisor.resume(node)

        self._call(resume())

    def isolate(self, node: int, *, from_nodes: Sequence[int] | None = None) -> None:
        """Cuts a node off from the others, silently and both ways; clients still reach it.

        With `from_nodes` only what these send does not arrive.
        """
        self._call(self._running().isolate(node, from_nodes))

    def slow(self, node: int, *, ms: int) -> None:
        """Delays what a node says to the others; 0 ends it."""
        self._call(self._running().slow(node, ms))

    def heal(self) -> None:
        """Ends every `isolate` and `slow`."""
        self._call(self._running().heal())

    def restore(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Undoes every fault: links are healed, paused nodes go on, those that are down are started."""
        self.heal()
        for node in self._running().status():
            if node.state == NodeState.PAUSED.value:
                self.resume(node.id)
            elif node.pid is None:
                self.start(node.id)
        # Those that were started before there was a majority of controllers serve only now.
        self._until(self._states, lambda states: states == {NodeState.RUNNING.value}, "all nodes to run", timeout)

    async def _states(self) -> set[str]:
        return {node.state for node in self._running().status()}

    # --- topics and partitions ---

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Creates a topic; every replica on its own broker, by default as many as `default.replication.factor` says.

        Whichever broker is asked next knows it, unless that one is cut off.
        """
        self._call(
            topics.create_topic(
                self._connected(),
                name,
                partitions=partitions,
                replication_factor=topics.BROKER_DEFAULT if replication_factor is None else replication_factor,
                config=config,
            )
        )

        self._call(self._wait_known(name))

    def delete_topic(self, name: str) -> None:
        self._call(topics.delete_topic(self._connected(), name))

    async def _wait_known(self, topic: str) -> None:
        """A topic is there when the controller says so; brokers hear of it behind that, and one that is cut off does
        not: for that one nobody waits longer.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_KNOWN_S):
                while not await self._asked().all_know(self._answering(), topic):
                    await asyncio.sleep(_POLL_S)

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; an error when none does."""
        found = self._partition(topic, partition).leader
        if found < 0:
            raise ClusterError(f"{topic}-{partition} has no leader now")
        return found

    def wait_leader(
        self, topic: str, partition: int, *, not_in: Collection[int] = (), timeout: float = DEFAULT_TIMEOUT_S
    ) -> int:
        """Waits until a broker outside `not_in` leads, and returns it."""
        return self._until(
            lambda: self._describe(topic, partition),
            lambda found: found.leader >= 0 and found.leader not in not_in,
            f"a leader of {topic}-{partition} other than {sorted(not_in)}"
            if not_in
            else f"a leader of {topic}-{partition}",
            timeout,
        ).leader

    def wait_isr(self, topic: str, partition: int, isr: Collection[int], *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Waits until exactly these brokers are in sync."""
        self._until(
            lambda: self._describe(topic, partition),
            lambda found: set(found.isr) == set(isr),
            f"the ISR of {topic}-{partition} to be {sorted(isr)}",
            timeout,
        )

    def replicas(self, topic: str, partition: int) -> list[ReplicaView]:
        """LEO, HW, lag, ISR membership and epoch of each replica, asked from the replicas themselves."""
        return self._call(self._replicas(topic, partition))

    # --- inside ---

    async def _start(self) -> None:
        data = self._data if self._data is not None else self._temporary
        assert data is not None
        request = ClusterRequest(
            data=data,
            # A directory that holds a cluster knows how many brokers it has, and must agree.
            brokers=self.brokers,
            port=self._port,
            port_option="port=",
            free_ports=True,
            settings=self._config,
            shares_template=True,
        )
        self._supervisor = await self._opened.enter_async_context(supervised(request, end=self._end_nodes))
        if self._temporary is not None:
            leftovers.mark(self._temporary)
        await self._supervisor.start_all()
        self._witnesses = Witnesses(self._supervisor.layout)
        self._opened.push_async_callback(self._witnesses.close)
        self._client = Client(self._supervisor.bootstrap, settings=_SETTINGS, retry_timeout_s=DEFAULT_TIMEOUT_S)
        self._opened.push_async_callback(self._client.close)

    async def _end_nodes(self, supervisor: Supervisor) -> None:
        if self._ends_in_order:
            await stop_or_kill(supervisor, self._force)
        else:
            await supervisor.kill_all()

    def _close(self, *, failed: bool) -> None:
        assert self._thread is not None
        # Temporary data that is removed at once needs no orderly end.
        self._ends_in_order = failed or self._temporary is None
        if self._temporary is not None and self.keep:
            leftovers.unmark(self._temporary)
        try:
            self._thread.call(self._opened.aclose(), on_interrupt=self._force.set)
        finally:
            self._thread.close()
            self._thread = self._supervisor = self._client = self._witnesses = None
            if self._temporary is not None and self.keep:
                _remove_sockets(self._temporary)
            elif self._temporary is not None:
                _remove(self._temporary)
            self._temporary = None

    async def _describe(self, topic: str, partition: int) -> topics.PartitionDescription:
        return await self._asked().partition(self._answering(), topic, partition)

    def _partition(self, topic: str, partition: int) -> topics.PartitionDescription:
        return self._call(self._describe(topic, partition))

    async def _replicas(self, topic: str, partition: int) -> list[ReplicaView]:
        return await self._asked().replicas(self._answering(), topic, partition)

    def _answering(self) -> list[int]:
        """Nodes that can be asked: a paused one takes a question and keeps it."""
        return [node.id for node in self._running().status() if node.state == NodeState.RUNNING.value]

    def _until(self, look: Callable[[], Awaitable[T]], done: Callable[[T], bool], what: str, timeout: float) -> T:
        async def wait() -> T:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + timeout
            last = "no node answered"
            while True:
                try:
                    found = await look()
                    if done(found):
                        return found
                    last = f"last seen: {found}"
                except (ApiError, ClientError) as error:
                    last = one_line(error)
                if loop.time() > deadline:
                    raise ClusterError(f"waited {timeout:g} s for {what}; {last}")
                await asyncio.sleep(_POLL_S)

        return self._call(wait())

    def _call(self, work: "Awaitable[T]") -> T:
        async def run() -> T:
            return await work

        return self._of_owner(self._thread).call(run())

    def _running(self) -> Supervisor:
        return self._of_owner(self._supervisor)

    def _asked(self) -> Witnesses:
        return self._of_owner(self._witnesses)

    def _connected(self) -> Client:
        return self._of_owner(self._client)

    def _of_owner(self, part: T | None) -> T:
        """A part of a running cluster, for the process that started it."""
        if part is None:
            raise ClusterError("the cluster is not running: use it inside `with Cluster() as cluster:`")
        if self._owner != os.getpid():
            raise ClusterError(
                f"this cluster belongs to process {self._owner}, which forked this one: "
                "read `cluster.bootstrap` before the fork, or start a cluster here"
            )
        return part


def _remove(directory: Path) -> None:
    try:
        shutil.rmtree(directory)
    except KeyboardInterrupt:
        # Nothing removes half of it later: its mark may be gone.
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _remove_sockets(directory: Path) -> None:
    """A killed node leaves its sockets, and the upload of a CI job fails on them."""
    for path in list(directory.rglob("*")):
        if path.is_socket():
            path.unlink()
