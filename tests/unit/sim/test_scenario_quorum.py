"""The world of the quorum: its disk is right about what is durable, and commands that make no sense are refused."""

import random

import pytest

from tidelog.quorum.control_records import LeaderChangeMessage
from tidelog.quorum.metadata_log import LogBatch
from tidelog.sim.scenario.__main__ import main
from tidelog.sim.scenario.arguments import NothingSurvives
from tidelog.sim.scenario.quorum.disk import Batch, WatchedDisk
from tidelog.sim.scenario.quorum.history import CommittedHistory, snapshot_values
from tidelog.sim.scenario.quorum.world import QuorumWorld
from tidelog.sim.scenario.text import Command, ScenarioError
from tidelog.wire.records.plain import Record, encode_batch

SEGMENT = "/log/00000000000000000000.log"


def batch(offset: int, value: bytes = b"a=1") -> bytes:
    return encode_batch([Record(timestamp=0, value=value)], base_offset=offset, leader_epoch=1)


def disk_with_log() -> WatchedDisk:
    disk = WatchedDisk()
    disk.make_dirs("/log")
    disk.fsync_dir("/")
    disk.open(SEGMENT, create=True)
    disk.fsync_dir("/log")
    return disk


def offsets(disk: WatchedDisk) -> list[int]:
    return [each.base_offset for each in disk.durable_batches("/log")]


def test_only_what_was_synced_is_durable() -> None:
    disk = disk_with_log()
    file = disk.open(SEGMENT)
    file.append(batch(0))
    assert offsets(disk) == []
    file.fsync()
    file.append(batch(1))
    assert offsets(disk) == [0]
    file.truncate(0)
    file.append(batch(0, b"b=2"))
    assert offsets(disk) == [], "the old bytes may come back, the new ones may be lost: neither is promised"


def test_a_file_whose_name_was_never_synced_is_not_durable() -> None:
    disk = WatchedDisk()
    disk.make_dirs("/log")
    file = disk.open(SEGMENT, create=True)
    file.append(batch(0))
    file.fsync()
    assert offsets(disk) == []
    disk.fsync_dir("/log")
    assert offsets(disk) == []
    disk.fsync_dir("/")
    assert offsets(disk) == [0]


@pytest.mark.parametrize("seed", range(50))
def test_what_is_durable_survives_every_power_cut(seed: int) -> None:
    rng = random.Random(seed)
    disk = disk_with_log()
    file = disk.open(SEGMENT)
    for offset in range(8):
        file.append(batch(offset))
        if rng.random() < 0.4:
            file.fsync()
    promised = disk.durable_batches("/log")
    disk.crash(rng, lose_entries=True)
    assert disk.durable_batches("/log")[: len(promised)] == promised


def test_the_worst_power_cut_leaves_what_is_durable_and_nothing_else() -> None:
    disk = disk_with_log()
    file = disk.open(SEGMENT)
    file.append(batch(0))
    file.fsync()
    file.append(batch(1))
    disk.crash(NothingSurvives(), lose_entries=True)
    assert disk.read_bytes(SEGMENT) == batch(0)


def test_the_history_is_the_replay_of_everything() -> None:
    history = CommittedHistory()
    history.append(Batch(0, 0, 1, 7), LogBatch(0, 0, 1, 0, (), (LeaderChangeMessage(),)))
    history.append(Batch(1, 2, 1, 8), LogBatch(1, 2, 1, 0, (b"a=1", b"b=1"), ()))
    history.append(Batch(3, 3, 1, 9), LogBatch(3, 3, 1, 0, (b"a=2",), ()))
    assert history.end_offset == 4
    assert [each.batch.base_offset for each in history.since(1)] == [1, 3]
    at_3 = history.ending_at(3)
    assert at_3 is not None and snapshot_values(at_3.state) == [b"a=1", b"b=1"]
    assert history.ending_at(2) is None, "no batch ends there"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("elect 1", "unknown command"),
        ("kill", "one node is needed"),
        ("kill 9", "node 9 does not exist"),
        ("tick", "how long?"),
        ("drop", "name the messages"),
        ("drop 1->2", "no such message is in flight"),
        ("add-voter 1", "name two nodes"),
    ],
)
def test_commands_that_make_no_sense_are_refused(text: str, problem: str) -> None:
    world = QuorumWorld(Command.parse("world quorum nodes=1,2,3", 1))
    with pytest.raises(ScenarioError, match=problem):
        world.execute(Command.parse(text, 7))


def test_unknown_options_of_the_world_are_refused() -> None:
    with pytest.raises(ScenarioError, match="unknown options: node"):
        QuorumWorld(Command.parse("world quorum node=1,2,3", 1))


def test_the_command_line_tells_and_rewrites(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    file = f"{tmp_path}/story.txt"
    with open(file, "w", encoding="utf-8") as story:
        story.write("world quorum nodes=1,2\n\nstart\n----\n")
    assert main([file]) == 1
    assert "+1: starts as unattached in epoch 0; log 0..0" in capsys.readouterr().out
    assert main([file, "--rewrite"]) == 0
    assert main([file]) == 0
    assert "as told" in capsys.readouterr().out
