"""Who was in sync, by the metadata logs on the disks: the one that reaches furthest counts."""

from collections.abc import Sequence
from pathlib import Path

from tidelog.metadata.image import ClusterImage, Provenance
from tidelog.metadata.loader import MetadataLoader
from tidelog.metadata.records.framing import unframe
from tidelog.metadata.replay import ReplayError
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.snapshot_files import SnapshotReader, list_snapshots
from tidelog.storage.ports import DiskError
from tidelog.storage.posix import PosixDisk
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import iter_headers
from tidelog.wire.records.plain import decode_batch


def newest_image(directories: Sequence[str], notes: list[str]) -> ClusterImage | None:
    """None if there is no metadata log that can be read. Records at its end may not be committed: for who was in sync
    last that is near enough.
    """
    newest: ClusterImage | None = None
    for directory in directories:
        try:
            image = read_image(directory)
        except (WireError, QuorumError, ReplayError, DiskError, OSError) as error:
            notes.append(f"{directory} cannot be read: {error}")
            continue
        if newest is None or image.provenance.offset > newest.provenance.offset:
            newest = image
    return newest


def read_image(directory: str) -> ClusterImage:
    disk, loader = PosixDisk(), MetadataLoader()
    snapshots = list_snapshots(disk, directory)
    if snapshots:
        newest = max(snapshots)
        reader = SnapshotReader(disk, str(Path(directory) / newest.file_name))
        try:
            records = [unframe(value) for value in reader.values()]
        finally:
            reader.close()
        loader.load_snapshot(records, Provenance(newest.end_offset - 1, newest.epoch))
    for path in sorted(Path(directory).glob("*.log")):
        data = path.read_bytes()
        for pos, header in iter_headers(data, partial_tail=True):
            if header.last_offset <= loader.image.provenance.offset or header.is_control:
                continue
            _, decoded = decode_batch(data[pos : pos + header.size_in_bytes])
            values = [unframe(record.value) for record in decoded if record.value is not None]
            loader.load_batch(values, Provenance(header.last_offset, header.partition_leader_epoch))
    return loader.image
