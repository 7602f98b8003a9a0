"""The shell around a member of the quorum: what becomes of whoever waits when it fails."""

import asyncio
from typing import Any

import pytest

from tidelog.broker.quorum_shell import QuorumShell
from tidelog.quorum.errors import QuorumError


class Raft:
    """A member whose first turn finds damage."""

    def poll(self, now_s: float) -> Any:
        raise QuorumError("the snapshot is not whole")


class Clock:
    def now_ms(self) -> int:
        return 0


def test_whoever_begins_to_wait_after_a_failure_is_told_too() -> None:
    async def offload(*_: Any) -> None: ...

    async def story() -> None:
        fatal: list[BaseException] = []
        shell = QuorumShell(
            Raft(),  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            offload=offload,  # type: ignore[arg-type]
            wall_clock=Clock(),
            request_timeout_s=1.0,
            on_fatal=fatal.append,
        )
        shell.start()
        assert len(fatal) == 1
        with pytest.raises(QuorumError, match="not whole"):
            await asyncio.wait_for(shell.until(lambda: False), 1.0)

    asyncio.run(story())
