"""Whether what is wrong with a metadata log is a torn tail or damage.

A crash tears the end of a log; recovery may cut that. A bad batch with sound ones behind it is something else: records
that were acknowledged have rotted, and cutting would lose all that follows. Then the node refuses to start.
"""

from tidelog.quorum.errors import QuorumError
from tidelog.storage.ports import Disk, DiskFile
from tidelog.storage.segment import LOG_SUFFIX
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import (
    BATCH_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    crc_ok,
    read_header,
)

_CHUNK = 1 << 20


def refuse_damage(disk: Disk, directory: str, newest_epoch: int) -> None:
    """QuorumError unless every segment is sound up to its end or, the last one, up to a torn tail.

    The CRC covers neither offset nor epoch, but in this log offsets are dense and epochs never go back nor beyond
    `newest_epoch`, the one that `quorum-state` made durable before any record of it was written.
    """
    names = [name for name in disk.list_dir(directory) if name.endswith(LOG_SUFFIX)]
    for name in names:
        path = f"{directory}/{name}"
        file = disk.open(path)
        try:
            walk = _Walk(file, int(name.removesuffix(LOG_SUFFIX)), newest_epoch)
            if walk.sound_prefix():
                continue
            where = f"the metadata log is damaged: {path} at byte {walk.position} (offset {walk.next_offset})"
            if name != names[-1]:
                raise QuorumError(f"{where}, and later segments follow")
            behind = walk.sound_batch_behind()
            if behind is not None:
                raise QuorumError(f"{where}, but the following batch at offset {behind.base_offset} is intact")
        finally:
            file.close()


class _Walk:
    """Over one segment, from its start to the first doubtful byte."""

    def __init__(self, file: DiskFile, base_offset: int, newest_epoch: int) -> None:
        self._file = file
        self._size = file.size()
        self._newest_epoch = newest_epoch
        self._epoch = 0
        self.position = 0
        self.next_offset = base_offset

    def sound_prefix(self) -> bool:
        """Walks as far as batches are sound; whether that was the end."""
        while self.position < self._size:
            chunk = self._file.pread(_CHUNK, self.position)
            header = self._header(chunk, 0, self.position)
            if header is not None and header.size_in_bytes > len(chunk):
                chunk = self._file.pread(header.size_in_bytes, self.position)
            at = 0
            while header is not None and header.base_offset == self.next_offset and crc_ok(chunk, header, at):
                at += header.size_in_bytes
                self.next_offset = header.next_offset
                self._epoch = header.partition_leader_epoch
                header = self._header(chunk, at, self.position + at)
            if at == 0:
                return False
            self.position += at
        return True

    def sound_batch_behind(self) -> BatchHeader | None:
        """The first sound batch behind the doubtful byte, wherever it starts."""
        position = self.position + 1
        while position + BATCH_OVERHEAD <= self._size:
            # Overlapping by a header, so that none is missed at the seam.
            chunk = self._file.pread(_CHUNK + BATCH_OVERHEAD, position)
            magic = chunk.find(MAGIC, MAGIC_POSITION)
            while magic >= 0:
                at = magic - MAGIC_POSITION
                header = self._header(chunk, at, position + at)
                if header is not None and self._is_sound_later(header, position + at):
                    return header
                magic = chunk.find(MAGIC, magic + 1)
            position += _CHUNK
        return None

    def _is_sound_later(self, header: BatchHeader, position: int) -> bool:
        later = header.base_offset > self.next_offset
        return later and crc_ok(self._file.pread(header.size_in_bytes, position), header)

    def _header(self, chunk: bytes, at: int, position: int) -> BatchHeader | None:
        """A header that could stand there; whether the batch is sound its CRC tells."""
        if len(chunk) - at < BATCH_OVERHEAD:
            return None
        try:
            header = read_header(chunk, at)
        except WireError:
            return None
        fits = header.size_in_bytes <= self._size - position and header.last_offset_delta >= 0
        in_order = self._epoch <= header.partition_leader_epoch <= self._newest_epoch
        return header if fits and in_order else None
