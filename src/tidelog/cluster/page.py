"""The live page, seen from the supervisor: its port is ours, its process is started for the first visitor.

The page is a process of its own (`python -m tidelog.web`), so that nothing it does can slow or end the supervisor.
Until somebody opens it there is only a listening socket. Should the process end, the next visitor starts another.
"""

import asyncio
import errno
import logging
import os
import re
import secrets
import signal
import socket
import stat
import sys
from pathlib import Path
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterDir, write_atomic
from tidelog.cluster.ports import listen_on_loopback
from tidelog.cluster.process import NodeProcess, describe_exit

log = logging.getLogger("tidelog.cluster")

_WEB: Final = (sys.executable, "-m", "tidelog.web")
_OPTIONS: Final = {socket.AF_INET: "--listen-v4", socket.AF_INET6: "--listen-v6"}
# A process that cannot start must not be started as fast as the machine can.
_PAUSE_S: Final = 1.0
_TOKEN_BYTES: Final = 18
_TOKEN_LETTERS_AT_MOST: Final = 100
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{24,}\n?")

UI_PORT_HINT: Final = "--ui-port gives the page another port, 0 turns it off"


def kept_token(path: Path) -> str:
    """The token in `path`; a new one if the file is missing, damaged, or was open to others."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise ClusterError(f"cannot read {path}: {error.strerror}") from error
    else:
        with open(fd, encoding="ascii", errors="replace") as file:
            status, text = os.fstat(fd), file.read(_TOKEN_LETTERS_AT_MOST)
        private = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077 and status.st_uid == os.geteuid()
        if private and _TOKEN.fullmatch(text):
            return text.strip()
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    write_atomic(path, token + "\n", 0o600)
    return token


class Page:
    """Listens from the beginning, so that a port in use is found before anything else is done."""

    def __init__(self, port: int) -> None:
        self.port = port
        # Every button needs it. The directory's own replaces it, so that an open page survives a restart.
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        try:
            self._sockets = listen_on_loopback(port)
        except ClusterError as error:
            raise ClusterError(f"{error.message}: {UI_PORT_HINT}") from error
        self._served: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Behind the `#`: a browser sends it to nobody."""
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    def start(self, directory: ClusterDir) -> None:
        self._served = asyncio.create_task(self._serve(directory), name="page")

    async def stop(self) -> None:
        """Ends its process, if there is one."""
        if self._served is not None:
            self._served.cancel()
            await asyncio.wait((self._served,))
            self._served = None

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()

    async def _serve(self, directory: ClusterDir) -> None:
        command = [*_WEB, "--data", str(directory)]
        inherit = {_OPTIONS[sock.family]: sock.fileno() for sock in self._sockets}
        while True:
            await self._visitor()
            try:
                process = await NodeProcess.spawn(command, directory.page_log, dies_with_us=True, inherit=inherit)
            except ClusterError as error:
                log.error("cannot start the page: %s", error.message)
            else:
                await self._attend(process)
            await asyncio.sleep(_PAUSE_S)

    async def _attend(self, process: NodeProcess) -> None:
        waiting = asyncio.ensure_future(process.wait())
        try:
            status = await asyncio.shield(waiting)
            log.error("the process of the page ended (%s): %s", describe_exit(status), process.last_words())
        except asyncio.CancelledError:
            process.signal(signal.SIGKILL)
            await waiting
            raise

    async def _visitor(self) -> None:
        """Until somebody connects; who does is left for the process to accept."""
        loop = asyncio.get_running_loop()
        came = asyncio.Event()
        for sock in self._sockets:
            loop.add_reader(sock, came.set)
        try:
            await came.wait()
        finally:
            for sock in self._sockets:
                loop.remove_reader(sock)
