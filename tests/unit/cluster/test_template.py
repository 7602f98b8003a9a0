"""The process that imports the node once for all clusters of a process: what they share, and when it ends."""

import asyncio
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from tidelog.broker.template import ImportedFiles
from tidelog.cluster import template
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.nursery import Nursery, NurseryChild
from tidelog.cluster.process import last_lines
from tidelog.cluster.template import FromTemplate

GONE_S = 60.0


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[template.SharedTemplate]:
    """A template of this test's own: other tests of this process keep theirs."""
    own = template.SharedTemplate()
    monkeypatch.setattr(template, "_shared", own)
    yield own
    own.end_idle()


@asynccontextmanager
async def a_nursery() -> AsyncIterator[Nursery]:
    nursery = Nursery(tied=True, breeder=FromTemplate())
    try:
        yield nursery
    finally:
        await nursery.close()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def write_module(path: Path, code: str) -> None:
    """Returns when a template that starts now is sure to import this code: the clock of files has moved on."""
    path.write_text(code)
    clock = path.with_suffix(".clock")
    clock.touch()
    while clock.stat().st_ctime_ns <= path.stat().st_ctime_ns:
        clock.touch()


def has_socket(pid: int) -> bool:
    return any(str(fd.readlink()).startswith("socket:") for fd in Path(f"/proc/{pid}/fd").iterdir())


def blocked_signals(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("SigBlk:")[2].split()[0], 16)


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


_NUMBERS = count()


async def waiting_node(nursery: Nursery, tmp_path: Path) -> tuple[NurseryChild, int]:
    """A child that waits for its config, and its template."""
    fifo = tmp_path / f"config-{os.getpid()}-{next(_NUMBERS)}"
    os.mkfifo(fifo)
    child = await nursery.run(["--config", str(fifo)], output=tmp_path / "console", name="tidelog-node-7")
    return child, parent_of(parent_of(child.pid))


async def template_of(nursery: Nursery, tmp_path: Path) -> int:
    _, found = await waiting_node(nursery, tmp_path)
    return found


def until_gone(pidfd: int) -> None:
    assert select.select([pidfd], [], [], GONE_S)[0], "the process still runs"
    os.close(pidfd)


async def test_clusters_share_a_template_and_nothing_else(shared: template.SharedTemplate, tmp_path: Path) -> None:
    async with a_nursery() as one, a_nursery() as other:
        (node, first), (other_node, second) = await waiting_node(one, tmp_path), await waiting_node(other, tmp_path)
        assert first == second and parent_of(node.pid) != parent_of(other_node.pid)
        assert parent_of(first) == os.getpid()
        one.kill()
        assert await node.wait() == -signal.SIGKILL
        assert other_node.returncode is None
    # Again, after both have ended.
    async with a_nursery() as third:
        assert await template_of(third, tmp_path) == first


async def test_a_node_has_the_environment_and_the_directory_of_the_moment(
    shared: template.SharedTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    # Python imports this module at every start. Its hook runs in each process that is forked.
    write_module(
        tmp_path / "sitecustomize.py",
        "import os\n"
        "def note():\n"
        f"    with open({str(seen)!r}, 'a') as file:\n"
        "        print(os.environ.get('FRUIT'), os.getcwd(), file=file)\n"
        "os.register_at_fork(after_in_child=note)\n",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = []
    for fruit in ("apple", "pear"):
        monkeypatch.setenv("FRUIT", fruit)
        (tmp_path / fruit).mkdir()
        monkeypatch.chdir(tmp_path / fruit)
        async with a_nursery() as nursery:
            found.append(await template_of(nursery, tmp_path))
    monkeypatch.delenv("FRUIT")
    monkeypatch.chdir(tmp_path)
    async with a_nursery() as nursery:
        found.append(await template_of(nursery, tmp_path))
    assert len(set(found)) == 1, "one template for all of them"
    # Of each cluster the second fork is the node; the first one is the nursery, before it takes the environment.
    nodes = [line.split(" ", 1) for line in seen.read_text().splitlines()[1::2]]
    assert nodes == [["apple", f"{tmp_path}/apple"], ["pear", f"{tmp_path}/pear"], ["None", str(tmp_path)]]


async def test_changed_code_gets_a_new_template(
    shared: template.SharedTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code" / "sitecustomize.py"
    code.parent.mkdir()
    code.write_text("")
    os.utime(code, (0, 0))
    monkeypatch.setenv("PYTHONPATH", str(code.parent))
    async with a_nursery() as running:
        node, before = await waiting_node(running, tmp_path)
        old = os.pidfd_open(before)
        code.write_text("x = 1\n")
        async with a_nursery() as nursery:
            assert await template_of(nursery, tmp_path) != before
        assert node.returncode is None, "a running cluster keeps the code that it started with"
    until_gone(old)


@pytest.mark.parametrize("change", ["variable", "umask", "limit"])
async def test_what_a_running_process_cannot_take_over_gets_a_new_template(
    shared: template.SharedTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    async with a_nursery() as nursery:
        before = await template_of(nursery, tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    umask = os.umask(0o22)
    os.umask(umask)
    try:
        match change:
            case "variable":
                monkeypatch.setenv("PYTHONHASHSEED", "7")
            case "umask":
                os.umask(umask ^ 0o2)
            case "limit":
                resource.setrlimit(resource.RLIMIT_NOFILE, (limits[0] - 1, limits[1]))
        async with a_nursery() as nursery:
            assert await template_of(nursery, tmp_path) != before
    finally:
        os.umask(umask)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_a_killed_template_takes_its_clusters_along_and_is_replaced(
    shared: template.SharedTemplate, tmp_path: Path
) -> None:
    async with a_nursery() as nursery:
        node, before = await waiting_node(nursery, tmp_path)
        os.kill(before, signal.SIGKILL)
        assert await node.wait() == -signal.SIGKILL
        # The same cluster and another one: both get the new template.
        after = await template_of(nursery, tmp_path)
        async with a_nursery() as other:
            assert await template_of(other, tmp_path) == after != before


async def test_a_template_that_hangs_is_replaced_and_its_clusters_go_on(
    shared: template.SharedTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "ANSWER_S", 0.2)
    async with a_nursery() as nursery:
        node, before = await waiting_node(nursery, tmp_path)
        hanging = os.pidfd_open(before)
        os.kill(before, signal.SIGSTOP)
        async with a_nursery() as other:
            assert await template_of(other, tmp_path) != before
            os.kill(before, signal.SIGCONT)
            # It obeys the order too late. Its nursery must not take orders of the new one: they share a socket.
            async with asyncio.timeout(GONE_S):
                while has_socket(before) or len(children_of(before)) > 1:
                    await asyncio.sleep(0.001)
            os.kill(before, signal.SIGSTOP)
        assert node.returncode is None and not select.select([hanging], [], [], 0)[0]
    # Its last cluster has ended.
    until_gone(hanging)


async def test_a_fork_that_fails_leaves_the_running_clusters_alone(
    shared: template.SharedTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "no-more-processes"
    write_module(
        tmp_path / "sitecustomize.py",
        "import errno, os, sys\n"
        "fork = os.fork\n"
        "def limited():\n"
        f"    if os.path.exists({str(full)!r}):\n"
        "        raise OSError(errno.EAGAIN, 'no more processes')\n"
        "    return fork()\n"
        "os.fork = limited\n",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with a_nursery() as nursery:
        node, before = await waiting_node(nursery, tmp_path)
        full.touch()
        with pytest.raises(ClusterError, match="no more processes"):
            await waiting_node(nursery, tmp_path)
        async with a_nursery() as other:
            with pytest.raises(ClusterError, match="no more processes"):
                await waiting_node(other, tmp_path)
            full.unlink()
            assert await template_of(other, tmp_path) == before
        assert await template_of(nursery, tmp_path) == before
        assert node.returncode is None


async def test_a_node_does_not_inherit_blocked_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    try:
        own = template.SharedTemplate()
        monkeypatch.setattr(template, "_shared", own)
        async with a_nursery() as nursery:
            node, _ = await waiting_node(nursery, tmp_path)
            blocked = blocked_signals(node.pid)
        own.end_idle()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert blocked == 0


async def test_programs_that_the_user_starts_do_not_inherit_a_nursery(shared: template.SharedTemplate) -> None:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with its:
            forked, pidfd = await shared.fork(its)
        assert not os.get_inheritable(pidfd)
        os.close(pidfd)
    shared.release(forked)


async def test_a_file_that_changes_while_the_template_imports_does_not_prevent_the_start(
    shared: template.SharedTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.utime(__file__)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with a_nursery() as nursery:
        before = await template_of(nursery, tmp_path)
    # Which content it had imported is not certain: the next cluster does not use it.
    async with a_nursery() as nursery:
        assert await template_of(nursery, tmp_path) != before


async def test_a_template_that_cannot_import_the_node_says_why(
    shared: template.SharedTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uvloop.py").write_text("raise ImportError('no loop today')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with a_nursery() as nursery:
        with pytest.raises(ClusterError, match=r"cannot start the process that forks the nodes: .*no loop today"):
            await template_of(nursery, tmp_path)
        monkeypatch.delenv("PYTHONPATH")
        assert (await nursery.run(["dance"], output=tmp_path / "console", name="dance")) is not None


async def test_a_module_in_the_working_directory_does_not_stand_in_for_one_of_pythons(
    shared: template.SharedTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise ImportError('not the one')\n")
    monkeypatch.chdir(tmp_path)
    async with a_nursery() as nursery:
        child = await nursery.run(["dance"], output=tmp_path / "console", name="dance")
        assert await child.wait() == 2
    assert "invalid choice: 'dance'" in last_lines(tmp_path / "console")


async def test_a_cancelled_start_leaves_nothing_behind(shared: template.SharedTemplate, tmp_path: Path) -> None:
    async with a_nursery() as nursery:
        await template_of(nursery, tmp_path)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        starting = asyncio.create_task(shared.fork(its))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    async with a_nursery() as nursery:
        _, found = await waiting_node(nursery, tmp_path)
        children = children_of(found)
    # At most the nursery of this test, and the cancelled one on its way out.
    assert len(children) <= 2
    await asyncio.to_thread(shared.end_idle)
    assert not runs(found)


def test_a_forked_process_has_a_template_of_its_own(shared: template.SharedTemplate, tmp_path: Path) -> None:
    async def found() -> int:
        async with a_nursery() as nursery:
            return await template_of(nursery, tmp_path)

    before = asyncio.run(found())
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            assert template._shared is None
            os.write(write_end, str(asyncio.run(found())).encode())
            template._at_exit()
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end) as answer:
        in_child = int(answer.read())
    os.waitpid(child, 0)
    assert in_child != before and not runs(in_child)
    assert asyncio.run(found()) == before, "the parent's is unharmed"


SCRIPT = """
import asyncio, os, signal, sys
from pathlib import Path
from tidelog.cluster.nursery import Nursery
from tidelog.cluster.template import FromTemplate

async def main():
    nursery = Nursery(tied=True, breeder=FromTemplate())
    os.mkfifo("config")
    child = await nursery.run(["--config", "config"], output=Path("console"), name="node")
    print(child.pid, flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "orderly":
        await nursery.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["orderly", "careless", "killed"])
def test_nothing_outlives_the_process_however_it_ends(tmp_path: Path, end: str) -> None:
    environment = os.environ | {"TIDELOG_TEST_RUN": str(tmp_path)}
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, end], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert script.stdout is not None
    with script, script.stdout:
        # At the end of its output no process that inherited it runs.
        node = int(script.stdout.readline())
        assert node > 0
        script.wait(GONE_S)
    for pidfd in processes_with(f"TIDELOG_TEST_RUN={tmp_path}"):
        until_gone(pidfd)


def processes_with(variable: str) -> list[int]:
    """Pidfds of the processes that started with this variable."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if variable.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(os.pidfd_open(int(entry.name)))
            except (OSError, ProcessLookupError):
                continue  # it has ended
    return found


def test_imported_files_are_compared_by_content_times_and_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "some_module.py"
    file.write_text("x = 1\n")
    module = ModuleType("some_module")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "some_module", module)
    later_ns = file.stat().st_ctime_ns + 3600 * 10**9
    for change in (
        lambda: file.write_text("x = 2\n"),
        lambda: os.utime(file, (1, 1)),
        lambda: (tmp_path / "other.py").rename(file),
        file.unlink,
    ):
        (tmp_path / "other.py").write_text("x = 2\n")
        imported = ImportedFiles(later_ns)
        assert imported.changed() is None
        change()
        assert imported.changed() == str(file)


def test_a_file_that_changes_during_the_import_counts_as_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "some_module.py"
    file.write_text("x = 1\n")
    module = ModuleType("some_module")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "some_module", module)
    assert ImportedFiles(file.stat().st_ctime_ns).changed() == str(file)


def test_a_file_from_the_future_and_one_in_an_archive_are_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "some_module.py"
    file.write_text("x = 1\n")
    for path in (file, tmp_path / "modules.zip" / "other_module.py"):
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, path.stem, module)
    # The clock is an hour behind the time stamps.
    now_ns = file.stat().st_ctime_ns - 3600 * 10**9
    monkeypatch.setattr("time.time_ns", lambda: now_ns)
    assert ImportedFiles(now_ns - 10**9).changed() is None
