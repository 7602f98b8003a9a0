"""What a member finds on its disk when it starts, checked. QuorumError, one line, if it must not take part."""

from tidelog.quorum.control_records import VotersRecord
from tidelog.quorum.election_state import QUORUM_STATE, ElectionState, read_election_state
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.metadata_log import MetadataLog, partition_dir
from tidelog.quorum.snapshot_files import list_snapshots
from tidelog.quorum.voter_history import VoterHistory, VotersAt
from tidelog.quorum.voters import VoterSet
from tidelog.storage.ports import Disk
from tidelog.storage.segment import LOG_SUFFIX


def load_election(disk: Disk, metadata_dir: str, *, may_vote: bool = True) -> ElectionState:
    """What was stored. Who never votes has nothing to forget: without the file it starts from its log's epoch."""
    path = f"{partition_dir(metadata_dir)}/{QUORUM_STATE}"
    state = read_election_state(disk, path)
    if state is None and may_vote and _has_history(disk, partition_dir(metadata_dir)):
        # It may have voted in the lost epoch; a second vote there could elect two leaders.
        raise QuorumError(f"{path} is missing beside a metadata log that has records: this voter may not vote again")
    if state is not None:
        # Whoever wrote it may have ended before its name was durable; what is told of it from now on must stay true.
        disk.fsync_dir(partition_dir(metadata_dir))
    return state or ElectionState(0)


def not_behind_its_log(election: ElectionState, log: MetadataLog) -> ElectionState:
    """The file of one that never votes may be lost or old; a voter's is durable before any record of its epoch."""
    return election if election.epoch >= log.latest_epoch else ElectionState(log.latest_epoch)


def refuse_forgotten_vote(disk: Disk, metadata_dir: str) -> None:
    """Of a controller: `format` says that it never voted, so where nothing is said its metadata is lost."""
    path = f"{partition_dir(metadata_dir)}/{QUORUM_STATE}"
    if not disk.exists(path):
        raise QuorumError(
            f"{path} is missing: this controller lost its record of past votes and may not vote again; remove "
            "it from the voters, format "
            "its directory with --no-initial-controllers and add it to the voters again"
        )


def load_voters(log: MetadataLog, static_voters: VoterSet | None, *, may_be_unknown: bool) -> VoterHistory:
    """Those of the snapshot and the log; `static_voters` (`controller.quorum.voters`) hold when they name none."""
    first: VotersAt | None = None
    newest = log.latest_snapshot
    if newest is not None:
        reader = log.open_snapshot(newest)
        if reader.head.voters is not None:
            first = VotersAt(newest.end_offset - 1, reader.head.voters)
        reader.close()
    if first is None and static_voters is not None:
        first = VotersAt(-1, static_voters)
    history = VoterHistory(first or VotersAt(-1, VoterSet.of(())))
    for offset, message in log.control_messages():
        if isinstance(message, VotersRecord) and offset > history.latest_offset:
            history.add(offset, VoterSet.from_record(message))
    if not history.latest.voters and not may_be_unknown:
        raise QuorumError(f"{log.path} names no voters and controller.quorum.voters is not set")
    return history


def _has_history(disk: Disk, directory: str) -> bool:
    """Whether anything was ever written; a snapshot at offset 0 only tells who votes."""
    if not disk.is_dir(directory):
        return False
    logs = (name for name in disk.list_dir(directory) if name.endswith(LOG_SUFFIX))
    if any(disk.file_size(f"{directory}/{name}") for name in logs):
        return True
    return any(snapshot.end_offset for snapshot in list_snapshots(disk, directory))
