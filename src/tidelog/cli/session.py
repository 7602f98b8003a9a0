"""Runs the asynchronous part of a command and turns errors into one line."""

from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from tidelog.cli.output import SLOW_S, TERMINATED, CommandFailed, bad_usage, note

if TYPE_CHECKING:
    from tidelog.client.client import Client
    from tidelog.client.security import Security

T = TypeVar("T")

_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_CLUSTER: Final = "`tidelog up` starts a cluster here, --bootstrap connects to another"


def security_properties(command_config: Path | None) -> dict[str, str]:
    """The client properties for TLS and SASL. Other keys are ignored, as in Kafka's tools."""
    if command_config is None:
        return {}
    from tidelog.client.security import BadSecurity, parse
    from tidelog.core.config.key import ConfigError
    from tidelog.core.config.properties import parse_properties

    try:
        given = parse_properties(command_config.read_text("utf-8"))
        found = {key: value for key, value in given.items() if key.startswith(("security.", "ssl.", "sasl."))}
        parse(found)
    except OSError as error:
        raise CommandFailed(f"--command-config: {command_config}: {error.strerror or error}") from error
    except (ConfigError, BadSecurity, UnicodeDecodeError) as error:
        raise bad_usage(f"--command-config: {command_config}: {error}") from error
    return found


def client_security(command_config: Path | None) -> "Security | None":
    """How those properties have a client connect."""
    from tidelog.client.security import parse

    return parse(security_properties(command_config))


def with_client(
    bootstrap: str,
    work: "Callable[[Client], Awaitable[T]]",
    command_config: Path | None = None,
    *,
    retry_timeout_s: float = 30.0,
    reports_retries: bool = True,
) -> T:
    """Connects as `--command-config` asks, does the work, disconnects.

    A command that draws on the whole terminal leaves `reports_retries` out: a line would break its picture.
    """
    from tidelog.client.addresses import parse_bootstrap
    from tidelog.client.client import Client, one_line
    from tidelog.client.connection import ConnectionSettings
    from tidelog.client.errors import ClientError, ConnectionFailed
    from tidelog.client.security import parse as parse_security
    from tidelog.wire.errors import ApiError, WireError

    try:
        addresses = parse_bootstrap(bootstrap)
    except ClientError as error:
        raise bad_usage(f"--bootstrap: {error}") from error
    security = security_properties(command_config)

    async def session() -> T:
        settings = ConnectionSettings(security=parse_security(security))
        async with Client(addresses, settings=settings, retry_timeout_s=retry_timeout_s) as client:
            if reports_retries:
                notes = _RetryNotes()
                client.on_retry, client.on_slow = notes, notes.slow
            return await work(client)

    try:
        return run_until_told(session())
    except (ApiError, ClientError) as error:
        # On this machine there may be no cluster yet. A refused connection shows only in the text of the error.
        unconnected = isinstance(error, ConnectionFailed) and str(error).startswith("cannot connect")
        refused = unconnected and all(address.host in _THIS_MACHINE for address in addresses)
        raise CommandFailed(one_line(error) + (f" ({_NO_CLUSTER})" if refused else "")) from error
    except WireError as error:
        raise CommandFailed(f"cannot decode the answer of the broker: {error}") from error


class _RetryNotes:
    """Reports on a terminal why a request is retried: once for each reason, when it no longer passes quickly."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def __call__(self, error: Exception, waited_s: float) -> None:
        from tidelog.client.client import one_line

        reason = one_line(error)
        if waited_s >= SLOW_S and reason not in self._reported:
            self._reported.add(reason)
            note(f"retrying: {reason}")

    def slow(self) -> None:
        """The first attempt has no result yet, so there is no reason to report."""
        if not self._reported:
            self._reported.add("")
            note("waiting for the answer of a broker")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run(work)


def run_until_told(work: Coroutine[Any, Any, T]) -> T:
    """SIGTERM ends it as ctrl-C does: open work is completed, and a member leaves its group."""
    import asyncio

    async def cancellable() -> T:
        _cancel_on_sigterm()
        return await work

    try:
        return run_async(cancellable())
    except asyncio.CancelledError:
        raise typer.Exit(TERMINATED) from None


def _cancel_on_sigterm() -> None:
    import asyncio
    import signal
    import threading

    task = asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def cluster_errors(work: Callable[[], T]) -> T:
    """Runs a request to a supervisor; its errors have their own exit status."""
    from tidelog.cluster.errors import ClusterError

    try:
        return work()
    except ClusterError as error:
        raise CommandFailed(error.message, error.status) from error
