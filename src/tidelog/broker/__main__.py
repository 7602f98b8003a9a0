"""A node's own process: ``python -m tidelog.broker --config FILE`` and ``… format --config FILE``.

`tidelog node` and `tidelog format` end up here, and so does the supervisor: argparse, because a node should not pay
for a terminal's comforts. Exit status 2 is a mistake in the config or the command, 1 a node that could not do its work.
"""

import argparse
import asyncio
import errno
import json
import os
import random
import re
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial

from tidelog.broker.clock import SystemWallClock
from tidelog.broker.format import FormatError, check_formatted, format_directories
from tidelog.broker.initial_voters import INITIAL, NONE, STANDALONE, VoterFlags, parse_initial_controllers
from tidelog.broker.logging_setup import configure_logging
from tidelog.broker.offload import ThreadOffload
from tidelog.core.config.key import ConfigError
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.properties import parse_properties
from tidelog.core.config.unknown import refuse_unknown
from tidelog.storage.checkpoints import StorageFormatError
from tidelog.storage.ports import AlreadyLocked, DiskError
from tidelog.storage.posix import PosixDisk, raise_nofile_limit

BAD_USAGE = 2
FAILED = 1
# What a disk says that has failed, is full, or was made read-only because of that.
BAD_DISK = (errno.EIO, errno.EROFS, errno.ENOSPC, errno.ENODEV)
_FORMAT_ONLY = ("cluster_id", "standalone", "initial_controllers", "no_initial_controllers", "json", "quiet")


class UnreadableConfig(Exception):
    """A file that is missing or cannot be read: a failure, where a bad key in it is bad usage."""


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        parsed = [_config(path, options.set) for path in options.config]
        if options.command == "format":
            return _format([config for config, _ in parsed], options)
        ((config, warnings),) = parsed
        return _run(PosixDisk(_open_files(config)), config, warnings, options)
    except ConfigError as error:
        return _fail(str(error), BAD_USAGE)
    except (UnreadableConfig, FormatError, StorageFormatError, AlreadyLocked, DiskError) as error:
        return _fail(str(error), FAILED)


@cache
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tidelog.broker", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("run", "format"), default="run")
    parser.add_argument(
        "--config",
        required=True,
        action="append",
        metavar="FILE",
        help="a Kafka-style server.properties; with format, repeat it for several nodes of this machine",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="overrides one key of the file")
    # A socket of the supervisor's, by which it injects faults between nodes.
    parser.add_argument("--links-fd", type=int, help=argparse.SUPPRESS)
    # A listening socket of the supervisor's, for those who watch this node.
    parser.add_argument("--watch-fd", type=int, help=argparse.SUPPRESS)
    # The writing end of a pipe: the node writes one byte when it serves.
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    formatting = parser.add_argument_group("with format")
    formatting.add_argument("--cluster-id", metavar="ID", help="the id of the cluster; every node has the same")
    formatting.add_argument("--json", action="store_true", help="print the change as JSON, one line for each node")
    formatting.add_argument("--quiet", action="store_true", help="do not print what was formatted")
    voters = formatting.add_mutually_exclusive_group()
    voters.add_argument(STANDALONE, action="store_true", help="this controller is the first and only voter")
    voters.add_argument(
        INITIAL, metavar="ID@HOST:PORT:DIRECTORYID,…", help="all first voters; every node has the same list"
    )
    voters.add_argument(NONE, action="store_true", help="this controller joins an existing quorum")
    return parser


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == "run":
        if len(options.config) > 1:
            parser.error("a process runs one node: pass --config once")
        given = next((name for name in _FORMAT_ONLY if getattr(options, name)), None)
        if given is not None:
            parser.error(f"--{given.replace('_', '-')} goes with format")
    return options


def _config(path: str, settings: list[str]) -> tuple[NodeConfig, list[str]]:
    try:
        with open(path, encoding="utf-8") as file:
            properties = parse_properties(file.read())
    except OSError as error:
        raise UnreadableConfig(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text") from error
    given = dict(_setting(text) for text in settings)
    # A file may hold keys of other programs, so there an unknown key is a warning.
    refuse_unknown(given)
    return NodeConfig.parse(properties | given)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set takes key=value, not {text!r}")
    return key.strip(), value.strip()


def _check_cluster_id(cluster_id: str | None) -> None:
    """It is written into every `meta.properties` and told to every client: a word, usually a UUID in base64."""
    if cluster_id is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", cluster_id):
        raise ConfigError(f"--cluster-id takes letters, digits, - and _, not {cluster_id!r}")


def _open_files(config: NodeConfig) -> int:
    """How many descriptors the log may hold: what the config says, within what the system allows."""
    allowed = raise_nofile_limit()
    # Half stays for connections, and for what the interpreter opens.
    return max(16, min(config.tidelog_open_files_max, allowed // 2))


def _format(configs: list[NodeConfig], options: argparse.Namespace) -> int:
    _check_cluster_id(options.cluster_id)
    flags = VoterFlags(
        standalone=options.standalone,
        initial_controllers=parse_initial_controllers(options.initial_controllers)
        if options.initial_controllers is not None
        else (),
        no_initial_controllers=options.no_initial_controllers,
    )
    if options.standalone and sum(config.is_controller for config in configs) > 1:
        raise ConfigError(
            f"{STANDALONE}: only one controller may be formatted with it; several would form separate quorums"
        )
    rng = random.Random(os.urandom(16))
    for config in configs:
        disk = PosixDisk(_open_files(config))
        now_ms = SystemWallClock().now_ms()
        cluster_id, formatted = format_directories(disk, config, options.cluster_id, rng, now_ms, flags)
        if options.json:
            told = {"node_id": config.node_id, "cluster_id": cluster_id, "formatted": formatted}
            print(json.dumps(told))  # noqa: T201
            continue
        if options.quiet:
            continue
        done = f"formatted for cluster {cluster_id}"
        words = f"{done}: {', '.join(formatted)}" if formatted else f"is already {done}"
        print(f"node {config.node_id} {words}")  # noqa: T201
    return 0


def _run(disk: PosixDisk, config: NodeConfig, warnings: list[str], options: argparse.Namespace) -> int:
    # Also the first thing a node does; here so that the one line stands alone, and comes at once.
    readable = [path for path in config.log_dirs if path in check_formatted(disk, config).metas]
    # Half of a start is importing the node, which `format` need not wait for.
    import uvloop

    from tidelog.broker.allocator import keep_freed_memory
    from tidelog.broker.node import NodeError
    from tidelog.broker.server import ListenError

    keep_freed_memory()
    try:
        undo = _log_to_first(readable, config)
    except OSError as error:
        return _fail(f"cannot write {error.filename}: {error.strerror}", FAILED)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(disk, config, warnings, options))
    except (NodeError, ListenError) as error:
        return _fail(str(error), FAILED)
    finally:
        undo()


def _log_to_first(directories: Sequence[str], config: NodeConfig) -> Callable[[], None]:
    """The node's own log, in the first directory whose disk takes it, and on stderr always: a directory of logs may be
    missing (C10). What a user did wrong is an OSError.
    """
    configure = partial(
        configure_logging,
        max_bytes=config.tidelog_node_log_max_bytes,
        backups=config.tidelog_node_log_files,
        console=True,
    )
    for directory in directories:
        try:
            return configure(directory)
        except OSError as error:
            if error.errno not in BAD_DISK:
                raise
            print(f"tidelog: cannot write {error.filename}: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201
    return configure(None)


async def _serve(disk: PosixDisk, config: NodeConfig, warnings: list[str], options: argparse.Namespace) -> int:
    from tidelog.broker.event_log import log_event
    from tidelog.broker.links import Links
    from tidelog.broker.links_control import obey
    from tidelog.broker.metrics_server import MetricsServer
    from tidelog.broker.node import Node
    from tidelog.broker.watch import Watch
    from tidelog.core.events import Event

    loop = asyncio.get_running_loop()
    offload = ThreadOffload()
    wall_clock = SystemWallClock()
    watch = Watch(wall_clock)

    def on_event(event: Event) -> None:
        # Once for both: when a broker goes there may be thousands of them.
        text = event.text()
        log_event(event, text)
        watch.on_event(event, text)

    links: Links | None = None
    obeying: asyncio.Task[None] | None = None
    if options.links_fd is not None:
        links = Links(loop)
        told = asyncio.Event()
        obeying = loop.create_task(obey(links, options.links_fd, told))
        await told.wait()
    node = Node(
        config,
        disk=disk,
        wall_clock=wall_clock,
        offload=offload,
        rng=random.Random(os.urandom(16)),
        warnings=warnings,
        host_name=_host_name(config),
        links=links,
        on_event=on_event,
    )
    watched = loop.create_task(watch.serve(node, options.watch_fd)) if options.watch_fd is not None else None
    asked_to_stop = asyncio.Event()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            # The second signal: whoever sends it does not want to wait for an orderly end.
            os._exit(FAILED)
        asked_to_stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    stopped = asyncio.ensure_future(asked_to_stop.wait())
    metrics: MetricsServer | None = None
    if config.tidelog_metrics_port:
        # Before it starts: recovering logs and waiting for a quorum can take long, and are seen there.
        metrics = MetricsServer(node.measure_stepwise, config.node_id)
        await metrics.listen(config.tidelog_metrics_host, config.tidelog_metrics_port)
    starting = asyncio.ensure_future(node.start())
    await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # It may wait for a quorum that is not there.
        starting.cancel()
        await asyncio.wait([starting])
        if metrics is not None:
            await metrics.close()
        offload.close()
        return 0
    await starting
    print(f"started node.id={config.node_id} listeners={','.join(node.listeners)}", flush=True)  # noqa: T201
    if options.ready_fd is not None:
        _report_ready(options.ready_fd)
    failed = asyncio.ensure_future(node.failed.wait())
    await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
    for waiter in (stopped, failed):
        waiter.cancel()
    await node.stop()
    if metrics is not None:
        await metrics.close()
    for task in (obeying, watched):
        if task is not None:
            task.cancel()
    offload.close()
    return FAILED if node.failed.is_set() else 0


def _report_ready(fd: int) -> None:
    try:
        os.write(fd, b"1")
    except BrokenPipeError:
        # The supervisor stopped waiting, or ended and left this node running.
        return
    finally:
        os.close(fd)


def _host_name(config: NodeConfig) -> str:
    """What others are told where a listener names no host. Asks a name server, so only when somebody needs it."""
    needed = any(not listener.host for listener in config.advertised_listeners)
    return socket.getfqdn() if needed else "localhost"


def _fail(message: str, status: int) -> int:
    print(f"tidelog: {message}", file=sys.stderr)  # noqa: T201
    return status


if __name__ == "__main__":
    sys.exit(main())
