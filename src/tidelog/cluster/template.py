"""The template of this process (`tidelog.broker.template`): it imports the node once, for all its clusters.

`SharedTemplate` gives each cluster a nursery that is forked from the template. One thread starts the template, talks to
it and reaps it. The kernel kills the template when that thread ends, and the thread lives as long as this process. So
nothing outlives this process, however it ends.

A template is replaced if it has died or hangs, or if a file that it imported has changed. It is also replaced if a new
child of this process would now inherit something else (`process_state`). A replaced one ends with its last cluster.
"""

import asyncio
import atexit
import errno
import json
import os
import queue
import selectors
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.nursery import PidfdProcess
from tidelog.cluster.process_state import environment, inherited, package_root

# The first answer waits for the imports. A template that is slower than this on a busy machine hangs.
FIRST_ANSWER_S: Final = 60.0
ANSWER_S: Final = 20.0
_EXIT_S: Final = 2.0
_MAX_ANSWER_BYTES: Final = 64 * 1024
# The order that `tidelog.broker.template` expects: its data comes as descriptors.
_ORDER: Final = b"fork"
# -P: a module in the working directory must not replace one of Python's. The root is needed where `tidelog` is
# importable only from the path of this process.
_START: Final = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.append(root); "
    "from tidelog.broker.template import main; main()"
)


class _Replaced(Exception):
    """This template can fork no nursery; the message is the reason."""


class _Template:
    """One process. All methods are called by the thread that made it."""

    def __init__(self) -> None:
        self.inherited = inherited()
        self.nurseries = 0
        self.orders, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.orders.settimeout(FIRST_ANSWER_S)
        # Its error messages. A file, so that the template never waits for a reader.
        self._said = os.memfd_create("tidelog-template-stderr")
        command = [sys.executable, "-P", "-c", _START, package_root(), str(its.fileno()), str(os.getpid())]
        try:
            with its:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._said,
                    start_new_session=True,
                    pass_fds=(its.fileno(),),
                )
        except OSError as error:
            self.orders.close()
            os.close(self._said)
            raise ClusterError(f"cannot start {command[0]}: {error.strerror}") from error
        self.pidfd = os.pidfd_open(self.process.pid)

    def fork(self, order: "_Order") -> int:
        """A pidfd of the new nursery. Raises `_Replaced` if the template cannot fork one."""
        try:
            socket.send_fds(self.orders, [_ORDER], [order.socket_fd, order.environment, order.directory])
            answer, pidfds, _, _ = socket.recv_fds(self.orders, _MAX_ANSWER_BYTES, 1)
        except TimeoutError as error:
            raise _Replaced(f"it did not answer within {self.orders.gettimeout():g} s") from error
        except (BrokenPipeError, ConnectionResetError) as error:
            raise _Replaced(self._last_words()) from error
        if not answer:
            raise _Replaced(self._last_words())
        self.orders.settimeout(ANSWER_S)
        match json.loads(answer):
            case {"nursery": _} if pidfds:
                # `recv_fds` ignores flags that say so.
                os.set_inheritable(pidfds[0], False)
                self.nurseries += 1
                return pidfds[0]
            case {"stale": path}:
                raise _Replaced(f"{path} has changed")
            case {"failed": reason}:
                raise ClusterError(f"cannot fork the process that forks the nodes: {reason}")
            case _:
                # The nursery sees the end of its socket.
                raise ClusterError(f"cannot watch the process that forks the nodes: {os.strerror(errno.EMFILE)}")

    def _last_words(self) -> str:
        said = os.pread(self._said, _MAX_ANSWER_BYTES, max(0, os.fstat(self._said).st_size - _MAX_ANSWER_BYTES))
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a message"

    def retire(self) -> None:
        """It forks no more, and ends with its last nursery."""
        self.orders.close()

    def close(self) -> None:
        """After its end."""
        self.process.wait()
        self.orders.close()
        os.close(self.pidfd)
        os.close(self._said)

    def forget(self) -> None:
        """In a forked child: this template belongs to the parent."""
        self.orders.close()
        os.close(self.pidfd)
        os.close(self._said)
        # `Popen` would warn about a process that still runs, and wait for it, but it is no child of this process.
        self.process.returncode = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What a new nursery gets. The thread that obeys it closes the descriptors."""

    socket_fd: int
    environment: int
    directory: int
    # The template that forked the nursery, and a pidfd of the nursery.
    done: "Future[tuple[_Template, int]]"

    @classmethod
    def of_this_moment(cls, orders: socket.socket, done: "Future[tuple[_Template, int]]") -> "_Order":
        with ExitStack() as opened:
            variables = os.memfd_create("tidelog-environment")
            opened.callback(os.close, variables)
            with open(variables, "wb", closefd=False) as file:
                file.write(environment())
            directory = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, directory)
            order = cls(socket_fd=os.dup(orders.fileno()), environment=variables, directory=directory, done=done)
            opened.pop_all()
        return order

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        for descriptor in (self.socket_fd, self.environment, self.directory):
            os.close(descriptor)


class SharedTemplate:
    """The templates of this process: one in use, and replaced ones whose clusters still run."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[_Order | _Template | None] = queue.SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._idle_ended = threading.Event()
        self._current: _Template | None = None
        self._replaced: set[_Template] = set()
        self._thread = threading.Thread(target=self._run, name="tidelog-template", daemon=True)
        self._thread.start()

    async def fork(self, orders: socket.socket) -> tuple[_Template, int]:
        """A pidfd of a new nursery, with the environment and working directory of this moment."""
        done: Future[tuple[_Template, int]] = Future()
        self._send(_Order.of_this_moment(orders, done))
        try:
            return await asyncio.shield(asyncio.wrap_future(done))
        except asyncio.CancelledError:
            if not done.cancel():
                done.add_done_callback(self._give_back)
            raise

    def _give_back(self, done: "Future[tuple[_Template, int]]") -> None:
        """Nothing waits for this nursery any more, and its socket is closed: it ends by itself."""
        if done.exception() is None:
            template, pidfd = done.result()
            os.close(pidfd)
            self.release(template)

    def release(self, template: _Template) -> None:
        """One of its nurseries has ended."""
        self._send(template)

    def end_idle(self) -> None:
        """When this process exits. If clusters still run, the kernel ends their template with this process."""
        self._send(None)
        self._idle_ended.wait(_EXIT_S)

    def forget(self) -> None:
        """In a forked child: the thread and the templates are those of the parent."""
        self._selector.close()
        os.close(self._wake)
        for template in (self._current, *self._replaced):
            if template is not None:
                template.forget()

    def _send(self, what: "_Order | _Template | None") -> None:
        self._orders.put(what)
        os.eventfd_write(self._wake, 1)

    # --- the thread

    def _run(self) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if isinstance(key.data, _Template):
                    self._on_end(key.data)
                else:
                    os.eventfd_read(self._wake)
                    self._take_orders()

    def _take_orders(self) -> None:
        while not self._orders.empty():
            order = self._orders.get_nowait()
            if order is None:
                self._end_idle()
            elif isinstance(order, _Template):
                order.nurseries -= 1
                self._kill_if_useless(order)
            else:
                with order:
                    self._obey(order)

    def _obey(self, order: _Order) -> None:
        if not order.done.set_running_or_notify_cancel():
            return
        try:
            order.done.set_result(self._fork(order))
        except Exception as error:  # noqa: BLE001 - raised again where the order came from
            order.done.set_exception(error)

    def _fork(self, order: _Order) -> tuple[_Template, int]:
        if self._current is not None and self._current.inherited != inherited():
            self._replace(self._current)
        if self._current is not None:
            try:
                return self._current, self._current.fork(order)
            except _Replaced:
                # A new template helps in every case. If that one fails too, the caller gets the reason.
                self._replace(self._current)
        self._current = template = _Template()
        self._selector.register(template.pidfd, selectors.EVENT_READ, template)
        try:
            return template, template.fork(order)
        except _Replaced as error:
            self._replace(template)
            raise ClusterError(f"cannot start the process that forks the nodes: {error}") from error

    def _replace(self, template: _Template) -> None:
        self._current = None
        self._replaced.add(template)
        template.retire()
        self._kill_if_useless(template)

    def _kill_if_useless(self, template: _Template) -> None:
        """A replaced template that hangs would never see that it is not needed any more."""
        if template in self._replaced and template.nurseries == 0:
            template.process.kill()

    def _on_end(self, template: _Template) -> None:
        self._selector.unregister(template.pidfd)
        self._replaced.discard(template)
        if self._current is template:
            self._current = None
        template.close()

    def _end_idle(self) -> None:
        if self._current is not None:
            self._replace(self._current)
        for template in self._replaced:
            if template.nurseries == 0:
                template.process.wait()
        self._idle_ended.set()


class FromTemplate:
    """A `Breeder`: the nursery is forked from the template of this process."""

    def __init__(self) -> None:
        self._shared: SharedTemplate | None = None
        self._template: _Template | None = None

    async def start(self, orders: socket.socket) -> PidfdProcess:
        self._shared = shared_template()
        self._template, pidfd = await self._shared.fork(orders)
        return PidfdProcess(pidfd)

    def release(self) -> None:
        if self._shared is not None and self._template is not None:
            self._shared.release(self._template)
            self._shared = self._template = None


_shared: SharedTemplate | None = None
_creating = threading.Lock()


def shared_template() -> SharedTemplate:
    """Of this process; made at the first call."""
    global _shared
    with _creating:
        if _shared is None:
            _shared = SharedTemplate()
        return _shared


def _after_fork_in_child() -> None:
    global _shared, _creating
    _creating = threading.Lock()
    if _shared is not None:
        _shared.forget()
        _shared = None


def _at_exit() -> None:
    if _shared is not None:
        _shared.end_idle()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
