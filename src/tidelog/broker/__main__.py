"""A node's own process: ``python -m tidelog.broker --config FILE`` and ``… format --config FILE``.

`tidelog node` and `tidelog format` end up here, and so does the supervisor: argparse, because a node should not pay
for a terminal's comforts. Exit status 2 is a mistake in the config or the command, 1 a node that could not do its work.
"""

import argparse
import asyncio
import os
import random
import re
import signal
import socket
import sys

from tidelog.broker.clock import SystemWallClock
from tidelog.broker.format import FormatError, format_directories
from tidelog.broker.logging_setup import configure_logging
from tidelog.broker.offload import ThreadOffload
from tidelog.core.config.key import ConfigError
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.properties import parse_properties
from tidelog.storage.checkpoints import StorageFormatError
from tidelog.storage.ports import AlreadyLocked, DiskError
from tidelog.storage.posix import PosixDisk, raise_nofile_limit

BAD_USAGE = 2
FAILED = 1


def main(arguments: list[str] | None = None) -> int:
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    try:
        config, warnings = _config(options.config, options.set)
        _check_cluster_id(options.cluster_id)
    except ConfigError as error:
        return _fail(str(error), BAD_USAGE)
    except OSError as error:
        return _fail(f"cannot read {options.config}: {error.strerror}", BAD_USAGE)
    except UnicodeDecodeError:
        return _fail(f"{options.config} is not UTF-8 text", BAD_USAGE)
    disk = PosixDisk(_open_files(config))
    try:
        if options.command == "format":
            return _format(disk, config, options.cluster_id)
        return _run(disk, config, warnings)
    except (FormatError, StorageFormatError, AlreadyLocked, DiskError) as error:
        return _fail(str(error), FAILED)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tidelog.broker", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("run", "format"), default="run")
    parser.add_argument("--config", required=True, metavar="FILE", help="a Kafka-style server.properties")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="overrides one key of the file")
    parser.add_argument("--cluster-id", metavar="ID", help="with format: the cluster's id (default: a new one)")
    return parser.parse_args(arguments)


def _config(path: str, settings: list[str]) -> tuple[NodeConfig, list[str]]:
    with open(path, encoding="utf-8") as file:
        properties = parse_properties(file.read())
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set wants key=value, not {setting!r}")
        properties[key.strip()] = value.strip()
    return NodeConfig.parse(properties)


def _check_cluster_id(cluster_id: str | None) -> None:
    """It is written into every `meta.properties` and told to every client: a word, usually a UUID in base64."""
    if cluster_id is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", cluster_id):
        raise ConfigError(f"--cluster-id wants letters, digits, - and _, not {cluster_id!r}")


def _open_files(config: NodeConfig) -> int:
    """How many descriptors the log may hold: what the config says, within what the system allows."""
    allowed = raise_nofile_limit()
    # Half stays for connections, and for what the interpreter opens.
    return max(16, min(config.tidelog_open_files_max, allowed // 2))


def _format(disk: PosixDisk, config: NodeConfig, cluster_id: str | None) -> int:
    rng = random.Random(os.urandom(16))
    cluster_id, formatted = format_directories(disk, config, cluster_id, rng, SystemWallClock().now_ms())
    for directory in formatted:
        print(f"formatted {directory} for node {config.node_id} of cluster {cluster_id}")  # noqa: T201
    if not formatted:
        print(f"all directories are already formatted for cluster {cluster_id}")  # noqa: T201
    return 0


def _run(disk: PosixDisk, config: NodeConfig, warnings: list[str]) -> int:
    # Half of a start is importing the node, which `format` need not wait for.
    import uvloop

    from tidelog.broker.node import NodeError

    try:
        undo = configure_logging(
            config.log_dirs[0] if os.path.isdir(config.log_dirs[0]) else None,
            max_bytes=config.tidelog_node_log_max_bytes,
            backups=config.tidelog_node_log_files,
            console=True,
        )
    except OSError as error:
        return _fail(f"cannot write {error.filename}: {error.strerror}", FAILED)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(disk, config, warnings))
    except NodeError as error:
        return _fail(str(error), FAILED)
    finally:
        undo()


async def _serve(disk: PosixDisk, config: NodeConfig, warnings: list[str]) -> int:
    from tidelog.broker.node import Node

    loop = asyncio.get_running_loop()
    offload = ThreadOffload()
    node = Node(
        config,
        disk=disk,
        wall_clock=SystemWallClock(),
        offload=offload,
        rng=random.Random(os.urandom(16)),
        warnings=warnings,
        host_name=_host_name(config),
    )
    asked_to_stop = asyncio.Event()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            # The second signal: whoever sends it does not want to wait for an orderly end.
            os._exit(FAILED)
        asked_to_stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await node.start()
    print(f"started node.id={config.node_id} listeners={','.join(node.listeners)}", flush=True)  # noqa: T201
    stopped = asyncio.ensure_future(asked_to_stop.wait())
    failed = asyncio.ensure_future(node.failed.wait())
    await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
    for waiter in (stopped, failed):
        waiter.cancel()
    await node.stop()
    offload.close()
    return FAILED if node.failed.is_set() else 0


def _host_name(config: NodeConfig) -> str:
    """What clients are told where a listener names no host. Asks a name server, so only when somebody needs it."""
    needed = any(not listener.host for listener in config.advertised_broker_listeners)
    return socket.getfqdn() if needed else "localhost"


def _fail(message: str, status: int) -> int:
    print(f"tidelog: {message}", file=sys.stderr)  # noqa: T201
    return status


if __name__ == "__main__":
    sys.exit(main())
