"""What a cluster's directory holds, and `cluster.json`, which remembers who lives there.

DIR/cluster.json                 ports, node ids, cluster id; written once every node directory is formatted
DIR/control.sock                 how `chaos`, `down` and `status` reach the supervisor (0600)
DIR/page.log                     what the process of the live page printed
DIR/page.token                   what the buttons of the live page need (0600)
DIR/supervisor.lock              held by the supervisor for as long as it lives
DIR/node-1/server.properties     written at every `up`
DIR/node-1/data/                 log.dirs
DIR/node-1/console.log           what the node printed
DIR/node-1/watch.sock            where the node tells how it stands (0600)
DIR/node-1/node.pid              for `status` and `down` when a detached supervisor died
"""

import json
import os
import tempfile
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tidelog.cluster.errors import ClusterError

FORMAT_VERSION: Final = 2
# Had one node, and voters in its server.properties.
_STATIC_VERSION: Final = 1
CONTROLLERS_AT_MOST: Final = 3
WATCH_SOCKET: Final = "watch.sock"


class QuorumKind(StrEnum):
    """Where it stands who votes: what the directories were formatted with, and cannot be told otherwise later."""

    STATIC = "static"  # controller.quorum.voters of every node
    DYNAMIC = "dynamic"  # the metadata log, so that voters come and go (KIP-853)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLayout:
    """One node: its id, its roles, its ports."""

    id: int
    roles: tuple[str, ...]
    port: int
    # None on a node that is not a controller.
    controller_port: int | None
    metrics_port: int

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}/metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """The content of `cluster.json`."""

    cluster_id: str
    quorum: QuorumKind = QuorumKind.DYNAMIC
    nodes: tuple[NodeLayout, ...]

    @property
    def controllers(self) -> tuple[NodeLayout, ...]:
        return tuple(node for node in self.nodes if node.controller_port is not None)

    def node(self, node_id: int) -> NodeLayout:
        for node in self.nodes:
            if node.id == node_id:
                return node
        known = ", ".join(str(node.id) for node in self.nodes)
        raise ClusterError(f"there is no node {node_id} in this cluster (nodes: {known})")

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def with_ports(self, ports: tuple[int, ...]) -> "ClusterLayout":
        """The same cluster with its brokers on other client ports."""
        moved = tuple(replace(node, port=port) for node, port in zip(self.nodes, ports, strict=True))
        return replace(self, nodes=moved)


def roles_of(node_id: int, brokers: int) -> tuple[str, ...]:
    """Nodes 1..3 are the controller quorum; with fewer than three nodes node 1 alone."""
    controllers = CONTROLLERS_AT_MOST if brokers >= CONTROLLERS_AT_MOST else 1
    return ("broker", "controller") if node_id <= controllers else ("broker",)


class ClusterDir:
    """Names of everything in a cluster's directory."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))

    def __str__(self) -> str:
        return str(self.path)

    @property
    def cluster_json(self) -> Path:
        return self.path / "cluster.json"

    @property
    def control_socket(self) -> Path:
        return self.path / "control.sock"

    @property
    def lock_file(self) -> Path:
        return self.path / "supervisor.lock"

    @property
    def supervisor_log(self) -> Path:
        return self.path / "supervisor.log"

    def node_dir(self, node_id: int) -> Path:
        return self.path / f"node-{node_id}"

    def properties(self, node_id: int) -> Path:
        return self.node_dir(node_id) / "server.properties"

    def log_dir(self, node_id: int) -> Path:
        return self.node_dir(node_id) / "data"

    def console(self, node_id: int) -> Path:
        return self.node_dir(node_id) / "console.log"

    def watch_socket(self, node_id: int) -> Path:
        return self.node_dir(node_id) / WATCH_SOCKET

    @property
    def page_log(self) -> Path:
        return self.path / "page.log"

    @property
    def page_token(self) -> Path:
        return self.path / "page.token"

    def pid_file(self, node_id: int) -> Path:
        return self.node_dir(node_id) / "node.pid"

    def load(self) -> ClusterLayout | None:
        """The layout, or None when no cluster was made here; a file we cannot read is refused, never overwritten."""
        try:
            text = self.cluster_json.read_text("utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ClusterError(f"cannot read {self.cluster_json}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise ClusterError(f"{self.cluster_json} is not UTF-8") from error
        try:
            return _from_json(json.loads(text))
        except json.JSONDecodeError as error:
            raise self._refused(f"it is not JSON: {error}") from error
        except ValueError as error:
            raise self._refused(str(error)) from error
        except (KeyError, TypeError, OverflowError, RecursionError) as error:
            raise self._refused(f"a field is missing or has the wrong type ({error})") from error

    def _refused(self, reason: str) -> ClusterError:
        return ClusterError(f"{self.cluster_json} does not describe a cluster: {reason}")

    def save(self, layout: ClusterLayout) -> None:
        content: dict[str, Any] = {"version": FORMAT_VERSION, **asdict(layout)}
        write_atomic(self.cluster_json, json.dumps(content, indent=2) + "\n")


def _from_json(content: Any) -> ClusterLayout:
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    version = content["version"]
    if version not in (_STATIC_VERSION, FORMAT_VERSION):
        raise ValueError(f"version {version} is unknown; this Tidelog knows {_STATIC_VERSION} to {FORMAT_VERSION}")
    quorum = QuorumKind.STATIC if version == _STATIC_VERSION else QuorumKind(content["quorum"])
    nodes = tuple(
        NodeLayout(
            id=int(node["id"]),
            roles=tuple(str(role) for role in node["roles"]),
            port=int(node["port"]),
            controller_port=None if node["controller_port"] is None else int(node["controller_port"]),
            metrics_port=int(node["metrics_port"]),
        )
        for node in content["nodes"]
    )
    if not nodes:
        raise ValueError("it lists no nodes")
    return ClusterLayout(cluster_id=str(content["cluster_id"]), quorum=quorum, nodes=nodes)


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Readers see the old file or the new one, whole; after a power cut too."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
