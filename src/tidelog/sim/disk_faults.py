"""Operations of a disk that go wrong: the hook of a machine's disk, armed by faults and disarmed by repairs."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# What an operation meets: an errno, or nothing; it may also never return (the process dies inside).
Outcome = Callable[[], int | None]

WRITES: Final = ("append", "pwrite", "write_atomic", "create", "truncate", "make_dirs", "rename")


@dataclass(slots=True, eq=False)
class Trap:
    """Waits for operations on certain files; springs from the `skip`th on, `times` times (None: until removed)."""

    operations: tuple[str, ...]
    path_part: str
    outcome: Outcome
    skip: int = 0
    times: int | None = 1
    sprung: int = 0
    only_if: Callable[[str], bool] | None = None
    """Asked with the path, for what a part of it does not tell."""
    on_spring: Callable[[str], None] | None = None
    """Hears of the first time, with the path, before anything comes of it."""

    def meets(self, operation: str, path: str) -> bool:
        if self.path_part not in path or (self.operations and operation not in self.operations):
            return False
        if self.only_if is not None and not self.only_if(path):
            return False
        if self.skip:
            self.skip -= 1
            return False
        return self.times is None or self.sprung < self.times


class DiskFaults:
    """`MemoryDisk.fault` of one machine. Traps are asked in the order they were set; the first that meets decides."""

    def __init__(self) -> None:
        self._traps: list[Trap] = []

    def __call__(self, operation: str, path: str) -> int | None:
        if not self._traps:
            return None
        for trap in self._traps:
            if trap.meets(operation, path):
                trap.sprung += 1
                if trap.sprung == trap.times:
                    self._traps.remove(trap)
                if trap.sprung == 1 and trap.on_spring is not None:
                    trap.on_spring(path)
                return trap.outcome()
        return None

    def set(self, trap: Trap) -> Trap:
        self._traps.append(trap)
        return trap

    def remove(self, trap: Trap) -> None:
        """Nothing if it has sprung for the last time."""
        if trap in self._traps:
            self._traps.remove(trap)

    def clear(self) -> None:
        self._traps.clear()

    # --- the usual ones -----------------------------------------------------------------------------------------------

    def fail(self, code: int, *operations: str, path_part: str = "", skip: int = 0, times: int | None = 1) -> Trap:
        """Operations (all, if none is named) fail with this errno; half of an append is there nevertheless."""
        return self.set(Trap(operations, path_part, lambda: code, skip, times))

    def fsync_error(self, path_part: str = "") -> Trap:
        return self.fail(errno.EIO, "fsync", "fsync_dir", path_part=path_part)

    def gone(self, directory: str) -> Trap:
        """Every operation in this directory fails until the trap is removed: its disk was pulled out."""
        return self.fail(errno.EIO, path_part=directory, times=None)

    def full(self) -> Trap:
        """Nothing can be written until the trap is removed."""
        return self.fail(errno.ENOSPC, *WRITES, times=None)

    def kill_at(self, kill: Callable[[], BaseException], *operations: str, path_part: str = "", skip: int = 0) -> Trap:
        """The process dies inside this operation, before it has done anything."""

        def die() -> int | None:
            raise kill()

        return self.set(Trap(operations, path_part, die, skip))
