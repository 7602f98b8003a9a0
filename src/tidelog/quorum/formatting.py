"""What `format` puts into the metadata directory of a new node, as `kafka-storage format` does."""

from collections.abc import Iterable
from typing import Final

from tidelog.quorum.election_state import QUORUM_STATE, ElectionState, read_election_state, write_election_state
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.metadata_log import partition_dir
from tidelog.quorum.snapshot_files import PART_SUFFIX, SnapshotId, SnapshotReader, write_snapshot
from tidelog.quorum.voters import KRAFT_VERSION_RECONFIGURABLE, VoterSet
from tidelog.storage.ports import Disk

BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"
_FORMATTED: Final = SnapshotId(0, 0)
_NEVER_VOTED: Final = ElectionState(0)


def format_metadata_dir(
    disk: Disk, metadata_dir: str, values: Iterable[bytes], *, voters: VoterSet | None, now_ms: int
) -> None:
    """Writes `bootstrap.checkpoint` (the first records the first active controller appends) and who votes.

    `voters` is None, or static, when every node's config names them.
    """
    log_dir = partition_dir(metadata_dir)
    if disk.is_dir(log_dir) and disk.list_dir(log_dir):
        raise QuorumError(f"{log_dir} is not empty and is not formatted: a directory to format must be empty")
    write_snapshot(
        disk, f"{metadata_dir}/{BOOTSTRAP_CHECKPOINT}", values, epoch=0, last_contained_timestamp=0, now_ms=now_ms
    )
    disk.make_dirs(log_dir)
    disk.fsync_dir(metadata_dir)
    dynamic = voters is not None and voters.kraft_version >= KRAFT_VERSION_RECONFIGURABLE
    if dynamic:
        path = f"{log_dir}/{_FORMATTED.file_name}"
        write_snapshot(disk, path, (), epoch=0, last_contained_timestamp=now_ms, now_ms=now_ms, voters=voters)
    # That nothing was voted yet: a controller that finds no such file has lost it, and what it voted with it.
    write_election_state(
        disk,
        f"{log_dir}/{QUORUM_STATE}",
        _NEVER_VOTED,
        voter_ids=() if voters is None else voters.ids,
        kraft_version=KRAFT_VERSION_RECONFIGURABLE if voters is None else voters.kraft_version,
    )


def remove_unfinished_format(disk: Disk, metadata_dir: str) -> None:
    """Undoes a format that was cut short. A log with the first voters, no vote and nothing else was never started:
    whoever opens one writes more beside them.
    """
    log_dir = partition_dir(metadata_dir)
    state = f"{log_dir}/{QUORUM_STATE}"
    leftovers = {_FORMATTED.file_name, _FORMATTED.file_name + PART_SUFFIX, QUORUM_STATE}
    if not disk.is_dir(log_dir) or not leftovers.issuperset(disk.list_dir(log_dir)):
        return
    # A format leaves no unreadable file behind: it is written at once or not at all.
    if read_election_state(disk, state) in (None, _NEVER_VOTED):
        for name in sorted(leftovers):
            disk.remove(f"{log_dir}/{name}")


def read_bootstrap(disk: Disk, metadata_dir: str) -> list[bytes] | None:
    """The records of `bootstrap.checkpoint`; None if there is no such file."""
    path = f"{metadata_dir}/{BOOTSTRAP_CHECKPOINT}"
    if not disk.exists(path):
        return None
    reader = SnapshotReader(disk, path)
    values = list(reader.values())
    reader.close()
    return values
