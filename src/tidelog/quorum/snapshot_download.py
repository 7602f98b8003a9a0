"""A snapshot that comes from the leader in pieces (Q6), beside the others until it is whole."""

from tidelog.quorum.snapshot_files import PART_SUFFIX, SnapshotId, SnapshotReader
from tidelog.storage.ports import Disk
from tidelog.wire.buffers import Buffer


class SnapshotDownload:
    """Invariant: the file holds exactly the first `position` bytes of the leader's."""

    def __init__(self, disk: Disk, directory: str, snapshot: SnapshotId) -> None:
        self.snapshot = snapshot
        self.position = 0
        self._disk = disk
        self._path = f"{directory}/{snapshot.file_name}"
        disk.remove(self._path + PART_SUFFIX)
        self._file = disk.open(self._path + PART_SUFFIX, create=True)

    def append(self, data: Buffer) -> None:
        self._file.append(data)
        self.position += len(data)

    def finish(self) -> None:
        """Checks every batch and gives the file its name, durably. QuorumError: it is not a whole, sound snapshot."""
        self._file.fsync()
        self._file.close()
        reader = SnapshotReader(self._disk, self._path + PART_SUFFIX)
        for _ in reader.values():
            pass
        reader.close()
        self._disk.rename(self._path + PART_SUFFIX, self._path)

    def abandon(self) -> None:
        self._file.close()
        self._disk.remove(self._path + PART_SUFFIX)
