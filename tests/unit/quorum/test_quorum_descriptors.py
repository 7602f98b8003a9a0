"""What is read once, at a start or from a snapshot, gives its descriptor back."""

import random
from pathlib import Path
from uuid import UUID

import pytest

from tidelog.quorum.errors import QuorumError
from tidelog.quorum.integrity import refuse_damage
from tidelog.quorum.metadata_log import MetadataLogConfig
from tidelog.quorum.raft import Raft, RaftConfig
from tidelog.quorum.snapshot_files import SnapshotId, SnapshotReader
from tidelog.quorum.voters import ReplicaKey, Voter, VoterSet
from tidelog.storage.posix import PosixDisk


def _flush(replica: Raft) -> None:
    task = replica.begin_flush()
    task.run()
    replica.on_flushed(task, 1000)


def _with_snapshot(disk: PosixDisk, path: Path) -> Raft:
    replica = Raft.open(
        disk,
        str(path),
        node_id=1,
        directory_id=UUID(int=42),
        config=RaftConfig(),
        log_config=MetadataLogConfig(),
        static_voters=VoterSet.of([Voter(ReplicaKey(1))]),
        rng=random.Random(1),
        now_ms=1000,
        now_s=1.0,
    )
    replica.poll(1.0)
    _flush(replica)
    replica.append([b"a", b"b"], 1000)
    _flush(replica)
    snapshot = SnapshotId(3, 1)
    replica.write_snapshot(snapshot, [b"ab"], last_contained_timestamp=1000, now_ms=1001)
    replica.on_snapshot_written(snapshot, 1001)
    return replica


@pytest.mark.parametrize("is_read", [True, False])
def test_a_snapshot_that_was_loaded(tmp_path: Path, is_read: bool) -> None:
    disk = PosixDisk(max_open_files=100)
    replica = _with_snapshot(disk, tmp_path)
    before = disk.open_files
    loaded = replica.load_snapshot()
    assert loaded is not None
    if is_read:
        assert list(loaded.values) == [b"ab"]
    assert disk.open_files == before


def test_a_snapshot_that_is_none(tmp_path: Path) -> None:
    disk = PosixDisk(max_open_files=100)
    path = f"{tmp_path}/00000000000000000003-0000000001.checkpoint"
    disk.write_atomic(path, b"not a snapshot")
    with pytest.raises(QuorumError):
        SnapshotReader(disk, path)
    assert disk.open_files == 0


def test_segments_that_were_looked_through(tmp_path: Path) -> None:
    disk = PosixDisk(max_open_files=100)
    replica = _with_snapshot(disk, tmp_path)
    directory, segment = replica.log.path, replica.log.log.segments[0].path
    replica.close(1000)
    before = disk.open_files
    refuse_damage(disk, directory, 1)
    assert disk.open_files == before
    # Whole batches behind a bad byte: damage.
    file = disk.open(segment)
    file.pwrite(b"\xff", 30)
    file.close()
    with pytest.raises(QuorumError, match="damaged"):
        refuse_damage(disk, directory, 1)
    assert disk.open_files == before
