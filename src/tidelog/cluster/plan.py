"""From what was asked to a cluster that can be started: ports held, directories formatted, `cluster.json` written."""

import asyncio
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidelog.cluster.directory_lock import DirectoryLock
from tidelog.cluster.errors import BadRequest, ClusterError
from tidelog.cluster.layout import ClusterDir, ClusterLayout, NodeLayout, roles_of, write_atomic
from tidelog.cluster.nursery import BROKER, Nursery
from tidelog.cluster.orphans import living_nodes
from tidelog.cluster.page import UI_PORT_HINT, Page, kept_token
from tidelog.cluster.platform import ON_LINUX
from tidelog.cluster.ports import Reservations, loopback_hosts
from tidelog.cluster.process import Handle, describe_exit, last_lines
from tidelog.cluster.properties import check_settings, check_together, node_properties, render
from tidelog.cluster.undo import Created
from tidelog.core.ids import random_uuid, uuid_to_text

DEFAULT_PORT: Final = 9092
DEFAULT_BROKERS: Final = 3
ANY_PORT: Final = -1
# One machine runs no more: a typing error should not start a thousand processes.
BROKERS_AT_MOST: Final = 99
# How long the nodes of a supervisor that was just killed may take to let go of their ports.
_PORT_PATIENCE_S: Final = 3.0

# The command of a node, given its server.properties.
NodeCommand = Callable[[Path], list[str]]
# The command that formats the directories of all nodes, given their server.properties, the cluster id, and the first
# voters as id@host:port:directory-id.
FormatCommand = Callable[[Sequence[Path], str, Sequence[str]], list[str]]


def node_command(properties: Path) -> list[str]:
    return [*BROKER, "--config", str(properties)]


def format_command(properties: Sequence[Path], cluster_id: str, controllers: Sequence[str]) -> list[str]:
    # One process for all: to start it takes longer than to format a hundred nodes.
    configs = [argument for path in properties for argument in ("--config", str(path))]
    voters = ["--cluster-id", cluster_id, "--initial-controllers", ",".join(controllers)]
    return [*BROKER, "format", *configs, *voters]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRequest:
    """What `up` or `Cluster` asks for. `None`: as the directory has it, else the default."""

    data: Path
    brokers: int | None = None
    # The first broker's port; free ports when `free_ports` is set and the directory has none.
    port: int | None = None
    free_ports: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    dies_with_us: bool = True
    # Of the live page; 0: there is none; ANY_PORT: a free one.
    ui_port: int = 0
    # The page takes a free port if `ui_port` is in use, because the user did not name one.
    ui_port_may_move: bool = False
    # How a user chooses `port`, for the message that it is in use.
    port_option: str = "--port"
    # Fork from the template that all clusters of this process share, instead of from a process of this cluster's own.
    shares_template: bool = False
    node_command: NodeCommand = node_command
    format_command: FormatCommand = format_command

    @property
    def by_nursery(self) -> bool:
        """Whether one process may fork all nodes: they are our own, and the system can tie their lives together."""
        return ON_LINUX and self.node_command is node_command and self.format_command is format_command


@dataclass(slots=True, kw_only=True)
class PreparedCluster:
    """A cluster that may be started: its lock and ports are ours."""

    directory: ClusterDir
    layout: ClusterLayout
    hosts: tuple[str, ...]
    lock: DirectoryLock
    reservations: Reservations
    page: Page | None
    # None: the directory held a cluster before.
    created: Created | None
    # What `cluster.json` has, as long as a new start may still fail.
    saved: ClusterLayout

    def keep_layout(self) -> None:
        """The cluster serves, on other ports than before perhaps: the next start uses these."""
        if self.layout != self.saved:
            self.directory.save(self.layout)
            self.saved = self.layout

    def release(self, *, undo: bool = False) -> None:
        """Releases the ports and the directory; with `undo` it also takes back what the start has created."""
        if self.page is not None:
            self.page.close()
        self.reservations.close()
        if undo and self.created is not None:
            self.created.remove()
        self.lock.release()
        if undo and self.created is not None:
            self.created.remove_folders()


async def prepare(request: ClusterRequest, nursery: Nursery | None = None) -> PreparedCluster:
    """Everything before the first node starts.

    Nothing is created when a port is in use or the request makes no sense, and nothing is left when the rest fails.
    """
    check_settings(request.settings)
    directory = ClusterDir(request.data)
    if directory.path.exists() and not directory.path.is_dir():
        raise ClusterError(f"{directory} is not a directory")
    existing = directory.load()
    _check_brokers(request, existing)
    DirectoryLock.refuse_if_held(directory.lock_file)
    rng = random.SystemRandom()
    # What is held already is let go when the rest fails.
    with ExitStack() as held:
        reservations = Reservations(loopback_hosts(), rng)
        held.callback(reservations.close)
        layout = await _plan(request, directory, existing, reservations, rng)
        if request.settings:
            check_together(node_properties(directory, layout, layout.nodes[0], reservations.hosts, request.settings))
        page = _page(request, reservations)
        if page is not None:
            held.callback(page.close)
        created = Created(directory) if existing is None else None
        if created is not None:
            held.callback(created.remove_folders)
        try:
            directory.path.mkdir(parents=True, exist_ok=True)
            lock = DirectoryLock.take(directory.lock_file)
        except OSError as error:
            raise ClusterError(f"cannot use {directory}: {error.strerror}") from error
        held.callback(lock.release)
        if created is not None:
            held.callback(created.remove)
            created.remove_unstarted()
        else:
            _check_directories(directory, layout)
        try:
            if created is not None:
                for node in layout.nodes:
                    directory.node_dir(node.id).mkdir()
            _write_properties(request, directory, layout, reservations.hosts)
            if created is not None:
                await _format(request, directory, layout, rng, nursery)
                # Before a node runs: without this file, the next start takes the directories for unused ones.
                directory.save(layout)
        except OSError as error:
            raise ClusterError(f"cannot write {error.filename or directory}: {error.strerror or error}") from error
        if page is not None:
            page.token = kept_token(directory.page_token)
        held.pop_all()
    return PreparedCluster(
        directory=directory,
        layout=layout,
        hosts=reservations.hosts,
        lock=lock,
        reservations=reservations,
        page=page,
        created=created,
        saved=existing or layout,
    )


def _page(request: ClusterRequest, reservations: Reservations) -> Page | None:
    if not request.ui_port:
        return None
    if request.ui_port == ANY_PORT:
        return Page(reservations.reserve_free())
    try:
        if reservations.holds(request.ui_port):
            raise BadRequest(f"port {request.ui_port} is already used by a node: {UI_PORT_HINT}")
        return Page(request.ui_port)
    except ClusterError:
        if not request.ui_port_may_move:
            raise
        return Page(reservations.reserve_free())


def _check_brokers(request: ClusterRequest, existing: ClusterLayout | None) -> None:
    brokers = request.brokers
    if brokers is None:
        return
    if brokers < 1:
        raise BadRequest(f"a cluster needs at least one broker, not {brokers}")
    if brokers > BROKERS_AT_MOST:
        raise BadRequest(f"{brokers} brokers are too many for one machine: at most {BROKERS_AT_MOST}")
    if existing is not None and len(existing.nodes) != brokers:
        raise ClusterError(f"the cluster in {request.data} has {len(existing.nodes)} brokers, not {brokers}")


async def _plan(
    request: ClusterRequest,
    directory: ClusterDir,
    existing: ClusterLayout | None,
    reservations: Reservations,
    rng: random.Random,
) -> ClusterLayout:
    if existing is None:
        return await _plan_new(request, reservations, rng)
    living = living_nodes(directory, existing)
    if living:
        pids = ", ".join(str(pid) for pid in living.values())
        raise ClusterError(
            f"nodes of {directory} are still running without a supervisor (pid {pids}): "
            f"`tidelog down --data {directory}` stops them"
        )
    layout = existing
    if request.port is not None:
        layout = existing.with_ports(_consecutive(request.port, len(existing.nodes)))
    # A socket left behind: the last supervisor was killed, and its nodes may be dying only now.
    patience_s = _PORT_PATIENCE_S if directory.control_socket.exists() else 0.0
    for node in layout.nodes:
        await _reserve(reservations, node.port, patience_s, _others(request))
        fixed = {"controller": node.controller_port, "metrics": node.metrics_port}
        for use, port in fixed.items():
            if port is not None:
                hint = f"{directory.cluster_json} gives it to node {node.id} ({use}); end the program that has it"
                await _reserve(reservations, port, patience_s, hint)
    return layout


async def _plan_new(request: ClusterRequest, reservations: Reservations, rng: random.Random) -> ClusterLayout:
    brokers = DEFAULT_BROKERS if request.brokers is None else request.brokers
    ports: tuple[int, ...]
    if request.free_ports and request.port is None:
        ports = tuple(reservations.reserve_free() for _ in range(brokers))
    else:
        ports = _consecutive(DEFAULT_PORT if request.port is None else request.port, brokers)
        for port in ports:
            await _reserve(reservations, port, 0.0, _others(request))
    nodes = []
    for index, port in enumerate(ports):
        roles = roles_of(index + 1, brokers)
        nodes.append(
            NodeLayout(
                id=index + 1,
                roles=roles,
                port=port,
                controller_port=reservations.reserve_free() if "controller" in roles else None,
                metrics_port=reservations.reserve_free(),
            )
        )
    return ClusterLayout(cluster_id=uuid_to_text(random_uuid(rng)), nodes=tuple(nodes))


def _consecutive(first: int, count: int) -> tuple[int, ...]:
    if not 1 <= first <= 65536 - count:
        brokers = "1 broker does" if count == 1 else f"{count} brokers do"
        raise BadRequest(f"{brokers} not fit between port {first} and port 65535: --port is a number from 1 to 65535")
    return tuple(range(first, first + count))


def _others(request: ClusterRequest) -> str:
    return f"choose other ports with {request.port_option}"


async def _reserve(reservations: Reservations, port: int, patience_s: float, hint: str) -> None:
    """Holds a port, or says what the user can do about it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    while True:
        try:
            reservations.reserve(port)
            return
        except ClusterError as error:
            if loop.time() >= deadline:
                raise ClusterError(f"{error.message}: {hint}") from error
        await asyncio.sleep(0.05)


def _check_directories(directory: ClusterDir, layout: ClusterLayout) -> None:
    for node in layout.nodes:
        # An empty directory would come back as a replica that has forgotten what it acknowledged.
        if not (directory.log_dir(node.id) / "meta.properties").exists():
            raise ClusterError(
                f"{directory.log_dir(node.id)} is missing or empty, but {directory.cluster_json} "
                f"assigns it to node {node.id}: restore it, or start a new cluster in another directory"
            )


def _write_properties(
    request: ClusterRequest, directory: ClusterDir, layout: ClusterLayout, hosts: tuple[str, ...]
) -> None:
    for node in layout.nodes:
        properties = node_properties(directory, layout, node, hosts, request.settings)
        write_atomic(directory.properties(node.id), render(properties))


async def _format(
    request: ClusterRequest,
    directory: ClusterDir,
    layout: ClusterLayout,
    rng: random.Random,
    nursery: Nursery | None,
) -> None:
    # Directory ids are chosen here, since every controller's directory starts with the ids of all.
    controllers = [
        f"{node.id}@127.0.0.1:{node.controller_port}:{uuid_to_text(random_uuid(rng))}" for node in layout.controllers
    ]
    command = request.format_command(
        [directory.properties(node.id) for node in layout.nodes], layout.cluster_id, controllers
    )
    with tempfile.NamedTemporaryFile(prefix="tidelog-format-") as said:
        process: Handle
        if nursery is not None:
            process = await nursery.run(command[len(BROKER) :], output=Path(said.name), name="tidelog-format")
        else:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=said, stderr=asyncio.subprocess.STDOUT
            )
        status = await process.wait()
        words = last_lines(Path(said.name), 1)
    if status != 0:
        # A node's complaint names its program, as ours will.
        reason = words.removeprefix("tidelog: ") or describe_exit(status)
        raise ClusterError(f"formatting failed: {reason}", status=2 if status == 2 else 1)
