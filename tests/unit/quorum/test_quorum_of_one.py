"""A quorum of one over a real log: epochs, durability, restarts, and what it refuses to start from."""

import errno
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.quorum.control_records import LeaderChangeMessage
from tidelog.quorum.election_state import ElectionState, read_election_state
from tidelog.quorum.errors import BatchTooLarge, NotLeader, QuorumError
from tidelog.quorum.formatting import format_metadata_dir, read_bootstrap
from tidelog.quorum.metadata_log import MetadataLogConfig
from tidelog.quorum.raft import Raft, RaftConfig
from tidelog.quorum.recovery import refuse_forgotten_vote
from tidelog.quorum.roles import Unattached
from tidelog.quorum.snapshot_files import SnapshotId
from tidelog.quorum.voters import ReplicaKey, Voter, VoterSet
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.ports import DiskError

DIR = "/data"
LOG = f"{DIR}/__cluster_metadata-0"
STATE = f"{LOG}/quorum-state"
SEGMENT = f"{LOG}/00000000000000000000.log"
DIRECTORY_ID = UUID(int=42)
STATIC = VoterSet.of([Voter(ReplicaKey(1))])
DYNAMIC = VoterSet.of([Voter(ReplicaKey(1, DIRECTORY_ID), (("CONTROLLER", "localhost", 9093),))], 1)


def opened(
    disk: MemoryDisk,
    *,
    voters: VoterSet | None = STATIC,
    config: MetadataLogConfig | None = None,
    directory_id: UUID = DIRECTORY_ID,
) -> Raft:
    disk.make_dirs(DIR)
    disk.fsync_dir("/")
    return Raft.open(
        disk,
        DIR,
        node_id=1,
        directory_id=directory_id,
        config=RaftConfig(),
        log_config=config or MetadataLogConfig(),
        static_voters=voters,
        rng=random.Random(1),
        now_ms=1000,
        now_s=1.0,
    )


@contextmanager
def failing(disk: MemoryDisk, operation: str, path: str) -> Iterator[None]:
    """The operation on that path fails, and says so."""
    disk.fault = lambda each, where: errno.EIO if (each, where) == (operation, path) else None
    with pytest.raises(DiskError):
        yield
    disk.fault = None


def flush(replica: Raft) -> bool:
    task = replica.begin_flush()
    task.run()
    return replica.on_flushed(task, 1000)


def elected(disk: MemoryDisk, *, voters: VoterSet | None = STATIC, config: MetadataLogConfig | None = None) -> Raft:
    replica = opened(disk, voters=voters, config=config)
    replica.poll(1.0)
    assert flush(replica)
    return replica


def values(replica: Raft, start: int = 0) -> list[bytes]:
    return [value for batch in replica.committed(start) for value in batch.values]


def state(disk: MemoryDisk) -> dict[str, object]:
    content: dict[str, object] = json.loads(disk.read_bytes(STATE))
    return content


@pytest.mark.rule("Q1")
def test_the_first_start_opens_epoch_1_with_a_leader_change() -> None:
    disk = MemoryDisk()
    replica = elected(disk)
    assert replica.is_leader and replica.epoch == 1 and replica.high_watermark == 1
    assert disk.read_bytes(STATE) == (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    (batch,) = replica.committed(0)
    (message,) = batch.control
    assert isinstance(message, LeaderChangeMessage)
    assert (message.version, message.leader_id, [v.voter_id for v in message.voters]) == (0, 1, [1])
    assert (batch.epoch, batch.base_offset, batch.last_offset) == (1, 0, 0)


@pytest.mark.rule("Q1")
def test_every_start_is_a_new_epoch_that_is_on_disk_before_the_log_hears_of_it() -> None:
    disk = MemoryDisk()
    seen: list[int] = []
    for start in range(1, 4):
        replica = opened(disk)
        replica.poll(1.0)
        seen.append(replica.epoch)
        assert state(disk)["leaderEpoch"] == start
        # nothing was flushed: the log may lose the epoch, the file may not
        disk.crash(random.Random(start), lose_entries=True)
        assert state(disk)["leaderEpoch"] == start
    assert seen == [1, 2, 3]


def test_a_vote_that_cannot_be_made_durable_elects_nobody() -> None:
    disk = MemoryDisk()
    replica = opened(disk)
    with failing(disk, "write_atomic", STATE):
        replica.poll(1.0)
    assert not replica.is_leader and replica.next_offset == 0


@pytest.mark.rule("Q4")
def test_an_append_counts_once_it_is_flushed() -> None:
    replica = elected(MemoryDisk())
    assert replica.append([b"a", b"b"], 1001) == 2
    assert replica.high_watermark == 1 and values(replica) == []
    task = replica.begin_flush()
    replica.append([b"c"], 1001)
    task.run()
    assert replica.on_flushed(task, 1002)
    # what came after the flush began is not covered by it
    assert replica.high_watermark == 3 and values(replica) == [b"a", b"b"]
    assert flush(replica) and values(replica) == [b"a", b"b", b"c"]
    assert not flush(replica)


@pytest.mark.rule("Q4")
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(["append", "flush", "crash"]), max_size=30))
def test_what_was_committed_survives_any_crash(seed: int, steps: list[str]) -> None:
    rng = random.Random(seed)
    disk = MemoryDisk()
    replica = elected(disk)
    written: list[bytes] = []
    committed = 0
    epochs = [replica.epoch]
    for number, step in enumerate(steps):
        if step == "append":
            batch = [f"{number}-{n}".encode() for n in range(rng.randint(1, 3))]
            written += batch
            replica.append(batch, 1000)
        elif step == "flush":
            flush(replica)
            committed = len(written)
        else:
            disk.crash(rng, lose_entries=True)
            replica = elected(disk)
            kept = values(replica)
            assert kept[:committed] == written[:committed]
            assert kept == written[: len(kept)]
            written, committed = kept, len(kept)
            epochs.append(replica.epoch)
    assert epochs == sorted(set(epochs))
    flush(replica)
    assert values(replica) == written


def test_a_flush_that_fails_commits_nothing_and_stops_appends() -> None:
    disk = MemoryDisk()
    replica = elected(disk)
    replica.append([b"a"], 1000)
    task = replica.begin_flush()
    with failing(disk, "fsync", SEGMENT):
        task.run()
    assert replica.high_watermark == 1
    with pytest.raises(DiskError):
        replica.append([b"b"], 1000)


def test_only_the_leader_appends_and_only_what_fits() -> None:
    disk = MemoryDisk()
    with pytest.raises(NotLeader):
        opened(disk).append([b"a"], 1000)
    replica = elected(disk, config=MetadataLogConfig(max_batch_bytes=200))
    with pytest.raises(BatchTooLarge):
        replica.append([b"x" * 200], 1000)
    assert replica.next_offset == 1


def test_a_node_that_is_no_voter_does_not_stand() -> None:
    replica = opened(MemoryDisk(), voters=VoterSet.of([Voter(ReplicaKey(7))]))
    for now_s in range(1, 100):
        replica.poll(float(now_s))
    assert isinstance(replica.role, Unattached) and replica.epoch == 0


class TestDynamicVoters:
    """kraft.version 1: the voters stand in the log, with directory ids."""

    def formatted(self) -> MemoryDisk:
        disk = MemoryDisk()
        disk.make_dirs(DIR)
        format_metadata_dir(disk, DIR, [b"first", b"second"], voters=DYNAMIC, now_ms=5)
        return disk

    def test_formatting_says_who_votes_and_what_comes_first(self) -> None:
        disk = self.formatted()
        assert read_bootstrap(disk, DIR) == [b"first", b"second"]
        assert read_bootstrap(disk, "/nowhere") is None
        with pytest.raises(QuorumError, match="is not empty"):
            format_metadata_dir(disk, DIR, [], voters=DYNAMIC, now_ms=5)

    def test_the_first_leader_writes_the_voters_into_the_log_once(self) -> None:
        disk = self.formatted()
        replica = elected(disk, voters=None)
        assert replica.voters == DYNAMIC
        assert [type(m).__name__ for b in replica.committed(0) for m in b.control] == [
            "LeaderChangeMessage",
            "KRaftVersionRecord",
            "VotersRecord",
        ]
        assert disk.read_bytes(STATE) == (
            b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAKg","data_version":1}'
        )
        again = elected(disk, voters=None)
        assert again.voters == DYNAMIC
        assert [type(m).__name__ for b in again.committed(3) for m in b.control] == ["LeaderChangeMessage"]

    def test_a_vote_carries_the_directory(self) -> None:
        disk = self.formatted()
        replica = opened(disk, voters=None)
        with failing(disk, "append", SEGMENT):
            replica.poll(1.0)
        assert state(disk)["leaderEpoch"] == 1

    @pytest.mark.rule("Q1")
    def test_a_node_that_lost_its_disk_is_another_voter(self) -> None:
        disk = self.formatted()
        replica = opened(disk, voters=None, directory_id=UUID(int=99))
        for now_s in range(1, 100):
            replica.poll(float(now_s))
        assert not replica.is_voter and replica.epoch == 0 and isinstance(replica.role, Unattached)


class TestRefusals:
    def started(self, batches: int = 5) -> MemoryDisk:
        disk = MemoryDisk()
        replica = elected(disk)
        for number in range(batches):
            replica.append([f"record {number}".encode() * 5], 1000)
            flush(replica)
        return disk

    @pytest.mark.rule("Q1")
    def test_a_missing_quorum_state_beside_a_log(self) -> None:
        disk = self.started()
        disk.remove(STATE)
        with pytest.raises(QuorumError, match="may not vote again"):
            opened(disk)

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            (b"", "malformed"),
            (b"[]", "malformed"),
            (b'{"data_version":2}', "data version 2"),
            (b'{"leaderId":1,"leaderEpoch":-4,"votedId":-1,"data_version":0}', "malformed"),
            (b'{"leaderId":1,"leaderEpoch":"4","votedId":-1,"data_version":0}', "malformed"),
        ],
    )
    def test_a_quorum_state_that_is_not_one(self, content: bytes, complaint: str) -> None:
        disk = self.started()
        disk.write_atomic(STATE, content)
        with pytest.raises(QuorumError, match=complaint):
            opened(disk)

    @pytest.mark.rule("Q1")
    def test_a_vote_whose_name_was_not_synced_outlives_whoever_has_read_it(self) -> None:
        """The last process was killed before it could: what this one read, and may tell others, a power cut took."""
        for seed in range(10):
            disk = self.started()
            voted = {"leaderId": -1, "leaderEpoch": 7, "votedId": 2, "data_version": 0}
            disk.write_atomic(STATE, json.dumps(voted).encode(), durable=False)
            disk.open(STATE).fsync()
            assert opened(disk).epoch == 7
            disk.crash(random.Random(seed), lose_entries=True)
            assert read_election_state(disk, STATE) == ElectionState(7, voted=ReplicaKey(2)), seed

    def test_no_voters_anywhere(self) -> None:
        with pytest.raises(QuorumError, match="names no voters"):
            opened(MemoryDisk(), voters=None)

    def flip(self, disk: MemoryDisk, position: int) -> None:
        file = disk.open(SEGMENT)
        file.pwrite(bytes([file.pread(1, position)[0] ^ 0x40]), position)
        file.fsync()

    @pytest.mark.rule("Q1")
    def test_damage_with_sound_records_behind_it(self) -> None:
        whole = self.started()
        size = whole.file_size(SEGMENT)
        last = size - 200
        for position in range(0, last, 7):
            disk = self.started()
            self.flip(disk, position)
            with pytest.raises(QuorumError, match="damaged"):
                elected(disk)

    def test_a_torn_tail_is_cut(self) -> None:
        disk = self.started()
        file = disk.open(SEGMENT)
        file.truncate(file.size() - 3)
        file.fsync()
        replica = elected(disk)
        assert len(values(replica)) == 4
        # the first epoch ends where the second begins, without a gap
        assert [b.base_offset for b in replica.committed(0)] == list(range(6))

    def test_what_a_clean_stop_left_must_be_there(self) -> None:
        disk = self.started()
        replica = elected(disk)
        replica.close(1000)
        file = disk.open(SEGMENT)
        file.truncate(file.size() - 3)
        file.fsync()
        with pytest.raises(QuorumError, match="damaged"):
            opened(disk)


class TestSnapshots:
    def with_snapshot(self, disk: MemoryDisk, config: MetadataLogConfig | None = None) -> Raft:
        replica = elected(disk, config=config)
        replica.append([b"a", b"b"], 1000)
        flush(replica)
        snapshot = SnapshotId(3, 1)
        replica.write_snapshot(snapshot, [b"ab"], last_contained_timestamp=1000, now_ms=1001)
        replica.on_snapshot_written(snapshot, 1001)
        return replica

    @pytest.mark.rule("Q6")
    def test_a_start_takes_the_snapshot_and_then_the_tail(self) -> None:
        disk = MemoryDisk()
        replica = self.with_snapshot(disk)
        assert disk.exists(f"{LOG}/00000000000000000003-0000000001.checkpoint")
        replica.append([b"c"], 1000)
        flush(replica)
        disk.crash(random.Random(1))
        again = elected(disk)
        loaded = again.load_snapshot()
        assert loaded is not None
        assert loaded.snapshot == SnapshotId(3, 1) and loaded.last_contained_timestamp == 1000
        assert list(loaded.values) == [b"ab"]
        assert values(again, loaded.snapshot.end_offset) == [b"c"]

    @pytest.mark.rule("Q6")
    def test_a_crash_while_one_is_written_leaves_the_one_before(self) -> None:
        disk = MemoryDisk()
        replica = self.with_snapshot(disk)
        replica.append([b"c"], 1000)
        flush(replica)
        for operation in ("append", "fsync", "rename"):
            with failing(disk, operation, f"{LOG}/00000000000000000004-0000000001.checkpoint.part"):
                replica.write_snapshot(SnapshotId(4, 1), [b"abc"], last_contained_timestamp=1, now_ms=1)
            disk.crash(random.Random(1))
            again = opened(disk)
            assert again.log.latest_snapshot == SnapshotId(3, 1)
            assert not [name for name in disk.list_dir(LOG) if name.endswith(".part")]

    def test_when_one_is_due(self) -> None:
        config = MetadataLogConfig(max_bytes_between_snapshots=500, max_snapshot_interval_ms=1000)
        disk = MemoryDisk()
        replica = self.with_snapshot(disk, config)
        assert not replica.is_snapshot_due(0, 99_999), "nothing new to put into one"
        replica.append([b"c"], 1000)
        flush(replica)
        assert not replica.is_snapshot_due(5000, 5999)
        assert replica.is_snapshot_due(5000, 6000), "by time"
        replica.append([b"x" * 500], 1000)
        flush(replica)
        assert replica.is_snapshot_due(5000, 5000), "by bytes"
        assert elected(disk, config=config).is_snapshot_due(5000, 5000), "bytes count over a restart"

    @pytest.mark.rule("Q6")
    def test_the_log_before_a_snapshot_goes_when_it_is_more_than_is_kept(self) -> None:
        disk = MemoryDisk()
        config = MetadataLogConfig(retention_bytes=1500)
        replica = elected(disk, config=config)
        for number in range(1, 12):
            replica.append([bytes(200)], 1000)
            flush(replica)
            snapshot = SnapshotId(replica.high_watermark, 1)
            replica.write_snapshot(snapshot, [b"%d" % number], last_contained_timestamp=1000, now_ms=1000)
            replica.on_snapshot_written(snapshot, 1000)
        kept = [name for name in disk.list_dir(LOG) if name.endswith(".checkpoint")]
        assert 1 <= len(kept) < 11
        assert replica.log.log_start_offset == SnapshotId.parse(kept[0]).end_offset  # type: ignore[union-attr]
        again = elected(disk, config=config)
        loaded = again.load_snapshot()
        assert loaded is not None and list(loaded.values) == [b"11"]
        assert again.log.log_start_offset == replica.log.log_start_offset
        # by age as well
        again.append([b"x"], 10**12)
        flush(again)
        snapshot = SnapshotId(again.high_watermark, 2)
        again.write_snapshot(snapshot, [b"12"], last_contained_timestamp=10**12, now_ms=10**12)
        again.on_snapshot_written(snapshot, 10**12)
        again.on_snapshot_written(snapshot, 2 * 10**12)
        assert [name for name in disk.list_dir(LOG) if name.endswith(".checkpoint")] == [snapshot.file_name]

    def test_a_log_without_its_snapshot_is_refused(self) -> None:
        disk = MemoryDisk()
        config = MetadataLogConfig(retention_bytes=1)
        replica = self.with_snapshot(disk, config)
        replica.append([b"c"], 1000)
        flush(replica)
        replica.write_snapshot(SnapshotId(4, 1), [b"abc"], last_contained_timestamp=1, now_ms=1)
        replica.on_snapshot_written(SnapshotId(4, 1), 1)
        disk.remove(f"{LOG}/{SnapshotId(4, 1).file_name}")
        with pytest.raises(QuorumError, match="no snapshot covers"):
            opened(disk, config=config)

    @pytest.mark.parametrize("damage", ["cut", "flip", "headless", "footless"])
    def test_a_damaged_snapshot_is_refused(self, damage: str) -> None:
        disk = MemoryDisk()
        self.with_snapshot(disk)
        path = f"{LOG}/{SnapshotId(3, 1).file_name}"
        data = bytearray(disk.read_bytes(path))
        if damage == "cut":
            data = data[:-5]
        elif damage == "flip":
            data[len(data) // 2] ^= 1
        elif damage == "headless":
            data = data[83:]
        else:
            data = data[:-75]
        disk.write_atomic(path, bytes(data))
        with pytest.raises(QuorumError):
            loaded = elected(disk).load_snapshot()
            assert loaded is not None
            list(loaded.values)


@pytest.mark.parametrize(
    "name", ["quorum-state", "1-1.checkpoint", "00000000000000000003-0000000001.checkpoint.part", "x-y.checkpoint"]
)
def test_names_that_are_no_snapshots(name: str) -> None:
    assert SnapshotId.parse(name) is None


@pytest.mark.rule("Q1")
def test_a_formatted_controller_without_its_vote_has_lost_it() -> None:
    disk = MemoryDisk()
    disk.make_dirs(DIR)
    format_metadata_dir(disk, DIR, [], voters=DYNAMIC, now_ms=5)
    refuse_forgotten_vote(disk, DIR)
    disk.remove(STATE)
    with pytest.raises(QuorumError, match="quorum-state is missing: this controller lost its record of past votes"):
        refuse_forgotten_vote(disk, DIR)
