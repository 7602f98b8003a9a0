"""The disk of a simulated machine: outlives its processes, and breaks in every way a seed can draw."""

from typing import NoReturn

from tidelog.storage.memory import MemoryDisk


class ProcessGone(BaseException):
    """Raised into the code of a process that is dead already; nothing it does now reaches anything."""


class SimDisk(MemoryDisk):
    """A disk in memory that can be taken out of a dead process's hands."""

    def settle(self) -> None:
        """All there is becomes durable, as when nothing happens for a minute."""
        for inode in self._files.values():
            inode.sync()
        self._durable_files = dict(self._files)
        self._durable_dirs = set(self._dirs)
        self._renamed.clear()

    def hand_over(self) -> "SimDisk":
        """The same contents for the next process; whatever still holds this object can change nothing any more."""
        heir = SimDisk(self.capacity)
        heir._files, self._files = self._files, {}
        heir._dirs, self._dirs = self._dirs, set()
        heir._durable_files, self._durable_files = self._durable_files, {}
        heir._durable_dirs, self._durable_dirs = self._durable_dirs, set()
        heir._renamed, self._renamed = self._renamed, {}
        heir.fault = self.fault
        heir.all_cached = self.all_cached
        heir.fsyncs = self.fsyncs
        self.fault = _gone
        return heir


def _gone(operation: str, path: str) -> NoReturn:
    raise ProcessGone(f"{operation} of {path} by a process that is gone")
