"""`dump` on files written here, whole and damaged."""

import json
from pathlib import Path
from struct import pack
from uuid import UUID

import pytest

from tidelog.cli.app import run
from tidelog.core.ids import TopicPartition, uuid_to_text
from tidelog.metadata.records.framing import frame
from tidelog.metadata.records.topics import TopicRecord
from tidelog.storage import checkpoints
from tidelog.storage.posix import PosixDisk
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.plain import Record, encode_batch

TOPIC_ID = UUID(int=2**100 + 7)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    path = directory / "00000000000000000005.log"
    first = [Record(timestamp=1000 + n, key=b"k", value=b"v%d" % n, headers=(("h", b"\xff"),)) for n in range(3)]
    second = [Record(timestamp=5000, key=None, value=None)]
    path.write_bytes(
        encode_batch(
            first, base_offset=5, leader_epoch=2, codec=Codec.ZSTD, producer_id=9, producer_epoch=1, base_sequence=0
        )
        + encode_batch(second, base_offset=8, leader_epoch=3)
    )
    return path


def test_a_segment_in_words(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dump", str(segment)]) == 0
    title, first, second = capsys.readouterr().out.splitlines()
    assert title.startswith("segment of orders-0 from offset 5, ")
    assert first.startswith("batch 5..7 at 0: 3 records, ")
    for words in ("leader epoch 2", "zstd", "producer 9 epoch 1 sequence 0..2", "CRC ok", "1970-01-01T00:00:01.002Z"):
        assert words in first
    assert "batch 8..8" in second and "1 record," in second and "leader epoch 3" in second


def test_its_records(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dump", str(segment), "--records"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == '  5: 1000 (1970-01-01T00:00:01.000Z), key "k", value "v0", header h=0xff'
    assert lines[-1].endswith("key null, value null")


def test_as_json(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dump", str(segment), "--records", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[1]["base_offset"] == 5 and rows[1]["crc_ok"] is True
    assert [row["offset"] for row in rows if "offset" in row] == [5, 6, 7, 8]


def test_damage_is_told_and_ends_with_status_one(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-5])
    assert run(["dump", str(segment)]) == 1
    said = capsys.readouterr()
    assert "torn: the batch at" in said.out and said.err.endswith("is damaged\n")
    segment.write_bytes(whole + b"\0" * 30)
    assert run(["dump", str(segment)]) == 1
    assert "torn: 30 bytes" in capsys.readouterr().out
    flipped = bytearray(whole)
    flipped[-1] ^= 1
    segment.write_bytes(flipped)
    assert run(["dump", str(segment), "--records"]) == 1
    assert "CRC WRONG" in capsys.readouterr().out


def test_indexes(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(pack(">iiii", 2, 0, 3, 150) + bytes(16))
    assert run(["dump", str(index)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "offset 7 is in the batch at position 0",
        "offset 8 is in the batch at position 150",
    ]
    index.write_bytes(pack(">iiii", 3, 150, 2, 0))
    assert run(["dump", str(index)]) == 1
    assert "OUT OF ORDER" in capsys.readouterr().out
    times = segment.with_suffix(".timeindex")
    times.write_bytes(pack(">qi", 1002, 2))
    assert run(["dump", str(times)]) == 0
    assert "up to offset 7 no timestamp is later than 1002 (" in capsys.readouterr().out
    times.write_bytes(b"odd")
    assert run(["dump", str(times)]) == 1


def test_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disk = PosixDisk()
    offsets = str(tmp_path / checkpoints.REPLICATION_OFFSET_CHECKPOINT)
    checkpoints.write_offsets(disk, offsets, {TopicPartition("orders", 1): 42})
    assert run(["dump", offsets]) == 0
    assert capsys.readouterr().out == "orders-1: 42\n"
    metadata = str(tmp_path / checkpoints.PARTITION_METADATA)
    checkpoints.write_partition_metadata(disk, metadata, TOPIC_ID)
    assert run(["dump", metadata, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"topic_id": uuid_to_text(TOPIC_ID)}
    epochs = tmp_path / checkpoints.LEADER_EPOCH_CHECKPOINT
    epochs.write_text("0\n1\n3 17\n")
    assert run(["dump", str(epochs)]) == 0
    assert capsys.readouterr().out == "leader epoch 3 starts at offset 17\n"
    epochs.write_text("9\n1\n3 17\n")
    assert run(["dump", str(epochs)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_metadata_log_speaks_for_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    path = directory / "00000000000000000000.log"
    record = Record(timestamp=0, value=frame(TopicRecord(name="orders", topic_id=TOPIC_ID)))
    path.write_bytes(encode_batch([record], base_offset=0))
    assert run(["dump", str(path)]) == 0
    out = capsys.readouterr().out
    assert f"  0: TopicRecord name=orders topic_id={uuid_to_text(TOPIC_ID)}" in out


def test_a_file_of_no_log_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "poem.txt").write_text("roses")
    assert run(["dump", str(tmp_path / "poem.txt")]) == 2
    assert "not a file of a log directory" in capsys.readouterr().err


def test_several_files_are_printed_with_their_names_and_one_that_cannot_be_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "poem.txt").touch()
    last = tmp_path / "replication-offset-checkpoint"
    last.write_text("0\n1\norders 0 7\n")
    files = [str(tmp_path), str(tmp_path / "poem.txt"), str(last)]
    assert run(["dump", *files]) == 1
    said = capsys.readouterr()
    assert said.out == f"==> {last} <==\norders-0: 7\n"
    first, second = said.err.splitlines()
    assert first.startswith(f"tidelog: {files[0]} ") and second.startswith(f"tidelog: {files[1]} ")
    assert run(["dump", str(last), str(last), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"path": str(last)}, {"topic": "orders", "partition": 0, "offset": 7}] * 2
