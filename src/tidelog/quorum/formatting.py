"""What `format` puts into the metadata directory of a new node, as `kafka-storage format` does."""

from collections.abc import Iterable
from typing import Final

from tidelog.quorum.errors import QuorumError
from tidelog.quorum.metadata_log import partition_dir
from tidelog.quorum.snapshot_files import PART_SUFFIX, SnapshotId, SnapshotReader, write_snapshot
from tidelog.quorum.voters import KRAFT_VERSION_RECONFIGURABLE, VoterSet
from tidelog.storage.ports import Disk

BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"
_FORMATTED: Final = SnapshotId(0, 0)


def format_metadata_dir(
    disk: Disk, metadata_dir: str, values: Iterable[bytes], *, voters: VoterSet | None, now_ms: int
) -> None:
    """Writes `bootstrap.checkpoint` (the first records the first active controller appends) and who votes.

    `voters` is None, or static, when every node's config names them.
    """
    log_dir = partition_dir(metadata_dir)
    if disk.is_dir(log_dir) and disk.list_dir(log_dir):
        raise QuorumError(f"{log_dir} is not empty: it will not be formatted over")
    write_snapshot(
        disk, f"{metadata_dir}/{BOOTSTRAP_CHECKPOINT}", values, epoch=0, last_contained_timestamp=0, now_ms=now_ms
    )
    if voters is not None and voters.kraft_version >= KRAFT_VERSION_RECONFIGURABLE:
        disk.make_dirs(log_dir)
        disk.fsync_dir(metadata_dir)
        path = f"{log_dir}/{_FORMATTED.file_name}"
        write_snapshot(disk, path, (), epoch=0, last_contained_timestamp=now_ms, now_ms=now_ms, voters=voters)


def remove_unfinished_format(disk: Disk, metadata_dir: str) -> None:
    """Undoes a format that was cut short. A log with the first voters and nothing else was never started: whoever
    opens one writes more beside them.
    """
    log_dir = partition_dir(metadata_dir)
    path = f"{log_dir}/{_FORMATTED.file_name}"
    leftovers = {_FORMATTED.file_name, _FORMATTED.file_name + PART_SUFFIX}
    if disk.is_dir(log_dir) and leftovers.issuperset(disk.list_dir(log_dir)):
        disk.remove(path + PART_SUFFIX)
        disk.remove(path)


def read_bootstrap(disk: Disk, metadata_dir: str) -> list[bytes] | None:
    """The records of `bootstrap.checkpoint`; None if there is no such file."""
    path = f"{metadata_dir}/{BOOTSTRAP_CHECKPOINT}"
    if not disk.exists(path):
        return None
    reader = SnapshotReader(disk, path)
    values = list(reader.values())
    reader.close()
    return values
