"""The process that forks nodes: how they live, end and are told apart."""

import asyncio
import os
import select
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.nursery import Nursery, NurseryChild
from tidelog.cluster.process import last_lines


@asynccontextmanager
async def a_nursery(*, tied: bool = True) -> AsyncIterator[Nursery]:
    nursery = Nursery(tied=tied)
    try:
        yield nursery
    finally:
        await nursery.close()


async def run(nursery: Nursery, output: Path, *arguments: str) -> NurseryChild:
    return await nursery.run(arguments, output=output, name="tidelog-node-7")


async def waiting(nursery: Nursery, tmp_path: Path) -> NurseryChild:
    """A child that stays: it opens a pipe that nobody writes to."""
    fifo = tmp_path / "config"
    os.mkfifo(fifo)
    child = await run(nursery, tmp_path / "console", "--config", str(fifo))
    while name_of(child) != "tidelog-node-7":
        await asyncio.sleep(0.001)
    return child


def name_of(child: NurseryChild) -> str:
    return Path(f"/proc/{child.pid}/comm").read_text().strip()


def output_of(child: NurseryChild) -> Path:
    return Path(f"/proc/{child.pid}/fd/1").readlink()


async def test_what_a_forked_node_says_and_how_it_ends_is_what_a_process_would(tmp_path: Path) -> None:
    async with a_nursery() as nursery:
        child = await run(nursery, tmp_path / "console", "--config", str(tmp_path / "nowhere"))
        assert await child.wait() == 1
        assert last_lines(tmp_path / "console").startswith("tidelog: cannot read ")
        again = await run(nursery, tmp_path / "console", "dance")
        assert await again.wait() == 2
        assert "invalid choice: 'dance'" in last_lines(tmp_path / "console")
        with pytest.raises(ProcessLookupError):
            child.send_signal(signal.SIGTERM)


async def test_a_forked_node_is_a_session_with_a_name_of_its_own_and_can_be_killed(tmp_path: Path) -> None:
    async with a_nursery() as nursery:
        child = await waiting(nursery, tmp_path)
        assert os.getsid(child.pid) == child.pid
        assert output_of(child) == tmp_path / "console"
        child.send_signal(signal.SIGKILL)
        assert await child.wait() == -signal.SIGKILL


async def test_a_forked_node_inherits_what_it_is_given_and_knows_its_number(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    async with a_nursery() as nursery:
        # A node is never told a descriptor as its config, but it reads one like any other.
        child = await nursery.run([], output=tmp_path / "console", name="reader", inherit={"--config": read_end})
        os.close(read_end)
        assert await child.wait() == 1
        assert "cannot read " in last_lines(tmp_path / "console")
        # Nobody else holds the reading end any more.
        with pytest.raises(BrokenPipeError):
            os.write(write_end, b"x")
    os.close(write_end)


@pytest.mark.parametrize("tied", [True, False])
async def test_a_nursery_that_dies_takes_those_with_it_that_are_tied(tmp_path: Path, tied: bool) -> None:
    async with a_nursery(tied=tied) as nursery:
        child = await waiting(nursery, tmp_path)
        end = os.pidfd_open(child.pid)
        nursery.kill()
        if not tied:
            # A process that nobody waits for any more lives on, and is still ours to signal.
            assert not select.select([end], [], [], 0.05)[0]
            child.send_signal(signal.SIGTERM)
        assert await child.wait() == -signal.SIGKILL
        os.close(end)
        # The next one that is asked for starts another.
        other = await run(nursery, tmp_path / "console", "--config", str(tmp_path / "nowhere"))
        assert await other.wait() == 1


async def test_a_nursery_that_cannot_start_is_an_error_and_no_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    async with a_nursery() as nursery:
        with pytest.raises(ClusterError, match="the process that forks the nodes has ended"):
            await run(nursery, tmp_path / "console", "--config", "x")
