"""Opening a log: which files are a log, which are left-overs, and where it really ends.

After a clean shutdown files are trusted and indexes sanity-checked. After any other end every batch from the recovery
point's segment on is read and its CRC checked; the log ends at the last whole valid batch, and whatever stands behind
the first doubtful byte goes. Damage *below* the recovery point is no torn tail: those bytes were fsynced, so it is
reported (`CorruptSegment`) and nothing is dropped.
"""

from collections.abc import Generator
from dataclasses import dataclass, field

from tidelog.storage import checkpoints
from tidelog.storage.epoch_cache import EpochCache
from tidelog.storage.ports import Disk
from tidelog.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    CorruptSegment,
    Segment,
)
from tidelog.storage.segments import Segments
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import BATCH_OVERHEAD, crc_ok, read_header

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"

# Bytes read at once while checking batches; a larger batch is read whole.
_CHUNK = 1 << 20


@dataclass(slots=True)
class LoadedLog:
    """What `load` found, and what it did about it (`notes`, one line each)."""

    segments: Segments
    epochs: EpochCache
    log_start_offset: int
    log_end_offset: int
    created: bool
    clean_shutdown: bool
    bytes_cut: int
    notes: list[str] = field(default_factory=list)


def load(
    disk: Disk,
    directory: str,
    *,
    log_start_offset: int,
    recovery_point: int,
    clean_shutdown: bool,
    index_interval: int,
    now_ms: int,
) -> LoadedLog:
    """As `load_stepwise`, at once."""
    steps = load_stepwise(
        disk,
        directory,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        clean_shutdown=clean_shutdown,
        index_interval=index_interval,
        now_ms=now_ms,
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            loaded: LoadedLog = end.value
            return loaded


def load_stepwise(
    disk: Disk,
    directory: str,
    *,
    log_start_offset: int,
    recovery_point: int,
    clean_shutdown: bool,
    index_interval: int,
    now_ms: int,
) -> Generator[None, None, LoadedLog]:
    """Segments and epochs of the log in `directory`, made if it is not there.

    A step is as much as is read at once while batches are checked: a log may be large, and its disk slow to write to.
    """
    created = not disk.is_dir(directory)
    if created:
        disk.make_dirs(directory)
    notes: list[str] = []
    names = _tidy(disk, directory, notes)
    loader = _Loader(disk, directory, recovery_point, clean_shutdown, index_interval, now_ms, notes)
    yield from loader.load_segments(names, log_start_offset)
    start = max(log_start_offset, loader.segments[0].base_offset) if len(loader.segments) else log_start_offset
    if loader.log_end_offset < start and len(loader.segments):
        notes.append(
            f"the log ends at {loader.log_end_offset}, before its start offset {start}; restarting the empty log there"
        )
        for segment in reversed(list(loader.segments)):
            loader.drop(segment)
        # In which epochs the records between were written, nobody here knows any more.
        loader.epochs.clear()
    if not len(loader.segments):
        loader.segments.add(Segment.create(disk, directory, start, now_ms))
        loader.log_end_offset = start
        created = True
    for segment in loader.segments:
        segment.close_files()
    loader.epochs.truncate_from_end(loader.log_end_offset)
    loader.epochs.truncate_from_start(start)
    return LoadedLog(
        loader.segments,
        loader.epochs,
        start,
        loader.log_end_offset,
        created,
        loader.clean_shutdown,
        loader.bytes_cut,
        notes,
    )


def _tidy(disk: Disk, directory: str, notes: list[str]) -> dict[str, int]:
    """Removes what an interrupted deletion, compaction or checkpoint left; returns the log's files and sizes."""
    names = disk.list_dir(directory)
    for name in names:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            disk.remove(f"{directory}/{name}")
    swaps = [name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in swaps:
        _complete_swap(disk, directory, name, notes)
    for name in names:
        if name.endswith(SWAP_SUFFIX):
            disk.remove(f"{directory}/{name}")
    if swaps:
        names = disk.list_dir(directory)
    sized: dict[str, int] = {}
    for name in names:
        if name.endswith((LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)) and name.split(".")[0].isdecimal():
            path = f"{directory}/{name}"
            if disk.exists(path):
                sized[name] = disk.file_size(path)
    return sized


def _complete_swap(disk: Disk, directory: str, name: str, notes: list[str]) -> None:
    """A compacted segment was complete but not yet in place: it takes the place of those it was made from."""
    path = f"{directory}/{name}"
    base = int(name.split(".")[0])
    end = base
    swapped = Segment(disk, directory, base, 0, size=disk.file_size(path))
    swapped.path = path
    try:
        for _, header in swapped.headers():
            end = header.next_offset
    finally:
        swapped.close_files()
    for other in disk.list_dir(directory):
        stem, _, suffix = other.partition(".")
        if stem.isdecimal() and base <= int(stem) < max(end, base + 1) and suffix in _SEGMENT_SUFFIXES:
            disk.remove(f"{directory}/{other}")
    # In this order: what the new segment was made from must not come back beside it.
    disk.fsync_dir(directory)
    disk.rename(path, path.removesuffix(SWAP_SUFFIX))
    notes.append(f"completed the compaction into {name.removesuffix(SWAP_SUFFIX)}")


_SEGMENT_SUFFIXES = tuple(suffix[1:] for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX))


class _Loader:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        recovery_point: int,
        clean_shutdown: bool,
        index_interval: int,
        now_ms: int,
        notes: list[str],
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.recovery_point = recovery_point
        self.clean_shutdown = clean_shutdown
        self.index_interval = index_interval
        self.now_ms = now_ms
        self.notes = notes
        self.segments = Segments()
        self.log_end_offset = 0
        self.bytes_cut = 0
        path = f"{directory}/{checkpoints.LEADER_EPOCH_CHECKPOINT}"
        self.epochs = EpochCache(checkpoints.read_epochs(disk, path))

    def load_segments(self, names: dict[str, int], log_start_offset: int) -> Generator[None, None, None]:
        bases = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if name.endswith(LOG_SUFFIX))
        stems = {f"{base:020d}" for base in bases}
        for name in names:
            if name.split(".")[0] not in stems:
                self.disk.remove(f"{self.directory}/{name}")
        for base in bases:
            stem = f"{base:020d}"
            self.segments.add(self._open(base, names, stem))
        if not bases:
            if self.recovery_point > log_start_offset:
                raise CorruptSegment(f"{self.directory} is empty, but was flushed up to offset {self.recovery_point}")
            return
        if self.clean_shutdown:
            self._doubt_marker(names)
        if self.clean_shutdown:
            for segment in list(self.segments)[:-1]:
                self._check_indexes(segment, names)
            self._complete_epochs(list(self.segments), log_start_offset)
        else:
            unflushed = self.segments.from_offset(self.recovery_point)
            for segment in self.segments:
                if segment.base_offset < unflushed[0].base_offset:
                    self._check_indexes(segment, names)
            yield from self._recover(unflushed, log_start_offset)
        # Below the log start nothing is missed: a log that was about to start anew there (`load`) may have died at it.
        if self.log_end_offset < self.recovery_point and self.recovery_point > log_start_offset:
            raise CorruptSegment(
                f"{self.directory} ends at offset {self.log_end_offset}, but everything below its recovery point "
                f"{self.recovery_point} was flushed: records are missing"
            )

    def _doubt_marker(self, names: dict[str, int]) -> None:
        """Whoever stops in order flushes to the end: a log that goes on is not what the marker was written for.

        A disk that brings an old marker back must not make anybody trust what was never synced.
        """
        active = self.segments.active
        self.log_end_offset = active.base_offset
        problem = ""
        if active.base_offset <= self.recovery_point:
            try:
                self._check_indexes(active, names)
                last = active.last_offset()
                self.log_end_offset = active.base_offset if last is None else last + 1
            except CorruptSegment as error:
                # If it is what had been flushed that is torn, recovery says so.
                problem = str(error)
                active.size = names[f"{active.base_offset:020d}{LOG_SUFFIX}"]
        if self.log_end_offset > self.recovery_point:
            problem = f"the log ends at {self.log_end_offset}"
        if problem:
            self.clean_shutdown = False
            self.notes.append(
                f"the clean-shutdown marker does not match: flushed up to {self.recovery_point}, but {problem}"
            )

    def _open(self, base: int, names: dict[str, int], stem: str) -> Segment:
        return Segment(
            self.disk,
            self.directory,
            base,
            self.now_ms,
            size=names[stem + LOG_SUFFIX],
            index_bytes=names.get(stem + INDEX_SUFFIX, 0),
            time_index_bytes=names.get(stem + TIME_INDEX_SUFFIX, 0),
        )

    def _check_indexes(self, segment: Segment, names: dict[str, int]) -> None:
        """A segment that was closed has both indexes; they are trusted if they are sane."""
        stem = f"{segment.base_offset:020d}"
        problem = segment.offset_index.problem(names.get(stem + INDEX_SUFFIX, 0), segment.size)
        problem = problem or segment.time_index.problem(names.get(stem + TIME_INDEX_SUFFIX, 0))
        if problem is None and segment.size and stem + TIME_INDEX_SUFFIX not in names:
            problem = "it has no time index"
        if problem is None and segment.size and stem + INDEX_SUFFIX not in names:
            problem = "it has no offset index"
        if problem is None and segment.time_index.last is None and segment.first_timestamp() >= 0:
            # Closing a segment writes the largest timestamp there: only records without one leave it empty.
            problem = "its time index is empty"
        if problem is not None:
            self.notes.append(f"rebuilt the indexes of {segment.path}: {problem}")
            segment.rebuild_indexes(self.index_interval)
            segment.become_inactive()
            # The next start trusts them again, however this process ends.
            for sync in segment.index_syncs():
                sync()

    def _complete_epochs(self, trusted: list[Segment], log_start_offset: int) -> None:
        """Reads the epochs from the batches if the checkpoint is gone, or older than these segments.

        A leader that has forgotten where an epoch ended would take a follower's diverging records for its own (E2).
        """
        filled = [segment for segment in trusted if segment.size]
        if not filled:
            return
        last = filled[-1].last_header()
        if last is not None and last.next_offset <= log_start_offset:
            # All of it is deleted, and the checkpoint rightly tells of none of it.
            return
        problem = ""
        if last is not None and last.partition_leader_epoch > self.epochs.latest_epoch:
            problem = f"ends with epoch {self.epochs.latest_epoch}, but the log with {last.partition_leader_epoch}"
        elif self.epochs.entries:
            known_from = self.epochs.entries[0].start_offset
            if known_from > max(filled[0].base_offset, log_start_offset):
                # Behind a hole that compaction left?
                _, first = next(filled[0].headers())
                if known_from > first.last_offset:
                    problem = f"begins at offset {known_from}, but the log at {first.base_offset}"
        if problem:
            self.epochs.clear()
            for segment in filled:
                for _, header in segment.headers():
                    if header.partition_leader_epoch > self.epochs.latest_epoch:
                        self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            self.notes.append(f"rebuilt the leader epochs from the batches: the checkpoint {problem}")

    # -- after an unclean end

    def _recover(self, unflushed: list[Segment], log_start_offset: int) -> Generator[None, None, None]:
        base = unflushed[0].base_offset
        self.epochs.truncate_from_end(base)
        self._complete_epochs([segment for segment in self.segments if segment.base_offset < base], log_start_offset)
        self._distrust_snapshots(base)
        expected: int | None = None
        for number, segment in enumerate(unflushed):
            if expected is not None and segment.base_offset != expected:
                if expected < self.recovery_point:
                    raise CorruptSegment(
                        f"{segment.path} does not continue the log, which ends at {expected}, but was flushed "
                        "up to offset "
                        f"{self.recovery_point}"
                    )
                self._drop_from(
                    unflushed[number:], f"it starts at {segment.base_offset}, but the log ends at {expected}"
                )
                break
            end, cut = yield from self._recover_segment(segment)
            expected = self.log_end_offset = end
            if segment is not unflushed[-1]:
                segment.become_inactive()
            if cut and number + 1 < len(unflushed):
                self._drop_from(unflushed[number + 1 :], "it follows a torn batch")
                break

    def _write_again(self, segment: Segment, chunk: bytes, start: int, first: int, end: int) -> None:
        """What was checked of a chunk that was read at `start`, less what lies before `first`.

        If the last process ended because an fsync had failed, these bytes may be in the page cache alone, in pages that
        count as clean: the next fsync would succeed without them, and a power cut take them nevertheless. From the
        chunk and not from the file once more: such pages may be dropped at any time.
        """
        first = max(first, start)
        if first < end:
            segment.log.pwrite(memoryview(chunk)[first - start : end - start], first)

    def _distrust_snapshots(self, offset: int) -> None:
        """Producer state and aborted transactions are replayed from `offset` on, where every batch is checked."""
        for name in self.disk.list_dir(self.directory):
            stem = name.removesuffix(SNAPSHOT_SUFFIX)
            if stem != name and stem.isdecimal() and int(stem) > offset:
                self.disk.remove(f"{self.directory}/{name}")

    def _drop_from(self, segments: list[Segment], reason: str) -> None:
        # Newest first: were the order reversed, a crash between two removals would leave a gap.
        for segment in reversed(segments):
            if segment.base_offset < self.recovery_point:
                raise CorruptSegment(f"{segment.path} is below the recovery point {self.recovery_point}, but {reason}")
            self.notes.append(f"removed {segment.path} ({segment.size} bytes): {reason}")
            self.bytes_cut += segment.size
            self.drop(segment)

    def drop(self, segment: Segment) -> None:
        self.segments.remove(segment)
        segment.close_files()
        for path in segment.paths():
            self.disk.remove(path)
        self.disk.fsync_dir(self.directory)

    def _recover_segment(self, segment: Segment) -> Generator[None, None, tuple[int, bool]]:
        """Checks every batch, rebuilds the indexes; the offset behind the last good one and whether bytes were cut."""
        file_end = segment.size
        segment.start_rebuild()
        segment.txn_index.reset()
        next_offset = segment.base_offset
        # Behind the last batch that is known to be synced.
        synced_to = 0
        problem = ""
        chunk, start, position = b"", 0, 0
        while position < file_end:
            if position - start + BATCH_OVERHEAD > len(chunk):
                self._write_again(segment, chunk, start, synced_to, position)
                if start < position:
                    yield
                chunk, start = segment.log.pread(min(_CHUNK, file_end - position), position), position
            try:
                header = read_header(chunk, position - start)
            except WireError as error:
                problem = str(error)
                break
            size = header.size_in_bytes
            if size > file_end - position:
                problem = f"a batch of {size} bytes begins {file_end - position} bytes before the end of the file"
                break
            if position - start + size > len(chunk):
                self._write_again(segment, chunk, start, synced_to, position)
                if start < position:
                    yield
                chunk, start = segment.log.pread(max(min(_CHUNK, file_end - position), size), position), position
            epoch = header.partition_leader_epoch
            if not crc_ok(chunk, header, position - start):
                problem = "CRC-32C does not match"
            elif header.base_offset < next_offset or header.last_offset_delta < 0:
                problem = f"offset {header.base_offset} after {next_offset - 1}"
            elif not segment.has_room_for(header.last_offset):
                problem = f"offset {header.last_offset} is too far from the segment's base"
            elif epoch < self.epochs.latest_epoch:
                problem = f"leader epoch {epoch} after {self.epochs.latest_epoch}"
            if problem:
                break
            if epoch > self.epochs.latest_epoch:
                self.epochs.assign(epoch, header.base_offset)
            segment.note_batch(header.base_offset, header.last_offset, size, header.max_timestamp, self.index_interval)
            next_offset = header.next_offset
            position += size
            if next_offset <= self.recovery_point:
                synced_to = position
        self._write_again(segment, chunk, start, synced_to, position)
        if position == file_end:
            return next_offset, False
        if next_offset < self.recovery_point:
            raise CorruptSegment(
                f"{segment.path} at {position}: {problem}, and the log had been flushed up to offset "
                f"{self.recovery_point}"
            )
        segment.cut(position)
        self.bytes_cut += file_end - position
        self.notes.append(f"cut {file_end - position} bytes from {segment.path} at offset {next_offset}: {problem}")
        return next_offset, True
