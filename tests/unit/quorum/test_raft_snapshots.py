"""A member too far behind gets a snapshot in pieces, and then the tail; whatever breaks off in between."""

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.quorum.raft_kit import CONFIG, DIR, World, directory_id, dynamic

from tidelog.core.ids import METADATA_TOPIC
from tidelog.quorum.metadata_log import MetadataLogConfig
from tidelog.quorum.raft import Raft
from tidelog.quorum.roles import Follower
from tidelog.quorum.snapshot_files import SnapshotId
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import fetch_snapshot as snap

LOG = f"{DIR}/__cluster_metadata-0"
# Snapshots behind the newest are not kept, and they come in small pieces.
SMALL = {"log_config": MetadataLogConfig(retention_bytes=1), "config": replace(CONFIG, fetch_snapshot_max_bytes=500)}


def snapshot(raft: Raft, values: list[bytes]) -> SnapshotId:
    last = list(raft.committed(raft.high_watermark - 1))[-1]
    written = SnapshotId(last.last_offset + 1, last.epoch)
    raft.write_snapshot(written, values, last_contained_timestamp=1, now_ms=1)
    raft.on_snapshot_written(written, 1)
    return written


def state(raft: Raft) -> list[bytes]:
    """Everything committed: what the snapshot holds, and the tail."""
    loaded = raft.load_snapshot()
    if loaded is None:
        return [value for batch in raft.committed(0) for value in batch.values]
    tail = raft.committed(loaded.snapshot.end_offset)
    return [*loaded.values, *(value for batch in tail for value in batch.values)]


def grow(world: World, leader: Raft, numbers: range) -> list[bytes]:
    values = [b"%03d" % number for number in numbers]
    for value in values:
        leader.append([value], 1)
        world.settle()
    return values


def left_behind() -> tuple[World, Raft, int, list[bytes]]:
    """A leader whose log starts at its second snapshot, and a voter that was away since before the first."""
    world = World([1, 2, 3], dynamic([1, 2, 3]), **SMALL)  # type: ignore[arg-type]
    leader = world.run_until_leader()
    away = next(node for node in world.rafts if node != leader.key.id)
    values = grow(world, leader, range(5))
    world.kill(away)
    values += grow(world, leader, range(5, 20))
    snapshot(leader, values)
    values += grow(world, leader, range(20, 80))
    snapshot(leader, values)
    values += grow(world, leader, range(80, 83))
    assert leader.log.log_start_offset > 50
    return world, leader, away, values


def request(leader: Raft, replica: int = 2, *, position: int = 0, **changes: Any) -> snap.FetchSnapshotRequest:
    newest = changes.pop("snapshot", leader.log.latest_snapshot)
    partition = snap.PartitionSnapshot(
        current_leader_epoch=changes.pop("epoch", leader.epoch),
        snapshot_id=snap.SnapshotId(end_offset=newest.end_offset, epoch=newest.epoch),
        position=position,
        replica_directory_id=directory_id(replica),
    )
    topic = snap.TopicSnapshot(name=changes.pop("topic", METADATA_TOPIC), partitions=[partition])
    made = snap.FetchSnapshotRequest(cluster_id="cluster", replica_id=replica, max_bytes=100, topics=[topic])
    for name, value in changes.items():
        setattr(made, name, value)
    return made


@pytest.mark.rule("Q6")
def test_a_voter_that_was_away_too_long_gets_the_snapshot_and_then_the_tail() -> None:
    world, leader, away, values = left_behind()
    world.start(away)
    world.run(2.0)
    raft = world.rafts[away]
    pieces = [sent for _, _, sent in world.sent if isinstance(sent, snap.FetchSnapshotRequest)]
    assert len(pieces) > 2
    assert state(raft) == values == state(leader)
    assert raft.log.log_start_offset == leader.log.log_start_offset
    assert raft.high_watermark == raft.next_offset == leader.next_offset
    assert raft.voters == leader.voters
    kept = [SnapshotId.parse(name) for name in world.disks[away].list_dir(LOG)]
    assert [each for each in kept if each] == [leader.log.latest_snapshot]
    world.kill(away, power=True)
    world.start(away)
    world.run(2.0)
    assert state(world.rafts[away]) == values


@pytest.mark.rule("Q6")
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_restart_in_the_middle_begins_again(pieces: int) -> None:
    world, _, away, values = left_behind()
    world.start(away)
    before = len(world.sent)

    def asked() -> int:
        return sum(isinstance(sent, snap.FetchSnapshotRequest) for _, _, sent in world.sent[before:])

    while asked() < pieces:
        outbox = world.rafts[away].poll(world.now_s)
        for send in outbox.sends:
            world._deliver(away, send.to, send.request)
        world._act(away)
        world.now_s += 0.01
    world.kill(away, power=True)
    world.start(away)
    world.run(2.0)
    assert state(world.rafts[away]) == values


@pytest.mark.rule("Q6")
@pytest.mark.parametrize("operation", ["rename", "remove", "write_atomic", "fsync_dir", "open"])
@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_at_any_step_of_putting_it_in_place(operation: str, seed: int) -> None:
    """Each step fails in turn; what the disk then holds is enough to start from, and to get there after all."""
    for step in range(12):
        world, _, away, values = left_behind()
        disk = world.disks[away]
        raft = world.start(away)
        count = 0

        def fault(each: str, path: str, step: int = step, raft: Raft = raft) -> int | None:
            nonlocal count
            role = raft.role
            if each != operation or not isinstance(role, Follower) or role.download is None:
                return None
            count += 1
            return 5 if count == step + 1 else None

        disk.fault = fault
        try:
            world.run(2.0)
        except OSError:
            disk.fault = None
            world.kill(away)
            disk.crash(random.Random(seed), lose_entries=True)
            world.start(away)
            world.run(4.0)
        assert state(world.rafts[away]) == values
        if count <= step:
            return


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"topics": []}, ErrorCode.INVALID_REQUEST),
        ({"topic": "orders"}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"snapshot": SnapshotId(7, 1)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"snapshot": SnapshotId(0, 0)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"position": 10**6}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({}, ErrorCode.NONE),
    ],
)
def test_errors(changes: dict[str, Any], error: ErrorCode) -> None:
    world, leader, _, _ = left_behind()
    response = leader.receive(2, request(leader, **changes), world.now_s)
    got = None if response.error_code else response.topics[0].partitions[0]
    assert (response.error_code or (got and got.error_code)) == error
    if error is ErrorCode.NONE:
        assert got is not None and len(got.unaligned_records) == 100 and got.size > 100


@pytest.mark.parametrize("what", ["not found", "another one", "another position", "nothing", "damaged"])
def test_a_piece_that_does_not_fit_is_not_used(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world, leader, away, values = left_behind()
    raft = world.start(away)
    spoiled = 0
    real = leader.receive

    def receive(source: int, sent: Any, now_s: float) -> Any:
        nonlocal spoiled
        response = real(source, sent, now_s)
        if isinstance(sent, snap.FetchSnapshotRequest) and spoiled < 3:
            spoiled += 1
            got = response.topics[0].partitions[0]
            if what == "not found":
                got.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
            elif what == "another one":
                got.snapshot_id.end_offset += 1
            elif what == "another position":
                got.position += 1
            elif what == "nothing":
                got.unaligned_records = b""
            else:
                got.unaligned_records = bytes(100) + bytes(got.unaligned_records)[100:]
        return response

    monkeypatch.setattr(leader, "receive", receive)
    world.run(3.0)
    assert spoiled == 3 and state(raft) == values
    assert bool(raft.take_notes())


def test_a_leader_is_not_cut_off_from_whom_it_feeds() -> None:
    world, leader, away, _ = left_behind()
    for node in list(world.rafts):
        if node != leader.key.id:
            world.kill(node)
    for _ in range(10):
        world.now_s += 1.0
        leader.receive(away, request(leader, away), world.now_s)
        leader.poll(world.now_s)
    assert leader.is_leader


def test_an_empty_log_is_filled_from_a_snapshot_though_the_records_are_there() -> None:
    world = World([1, 2, 3], dynamic([1, 2, 3]))
    leader = world.run_until_leader()
    values = grow(world, leader, range(5))
    snapshot(leader, values)
    world.disks[9] = world.disks[1].__class__()
    world.disks[9].make_dirs(DIR)
    observer = world.start(9)
    world.run(2.0)
    assert leader.log.log_start_offset == 0 and observer.log.log_start_offset > 0
    assert state(observer) == values and observer.voters == leader.voters
