"""Kafka's text files, byte for byte, and what is refused."""

from uuid import UUID

import pytest

from tidelog.core.ids import TopicPartition
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import CorruptCheckpoint, EpochEntry, MetaProperties, NewerFormat
from tidelog.storage.memory import MemoryDisk

TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")


def test_offset_checkpoint(disk: MemoryDisk) -> None:
    offsets = {TopicPartition("orders", 10): 7, TopicPartition("a.b_c-d", 0): 2**40, TopicPartition("orders", 2): 0}
    checkpoints.write_offsets(disk, "/data/c", offsets)
    assert disk.read_bytes("/data/c") == b"0\n3\na.b_c-d 0 1099511627776\norders 2 0\norders 10 7\n"
    assert checkpoints.read_offsets(disk, "/data/c") == offsets
    assert checkpoints.read_offsets(disk, "/data/missing") == {}


def test_leader_epoch_checkpoint(disk: MemoryDisk) -> None:
    entries = [EpochEntry(0, 0), EpochEntry(3, 17)]
    disk.write_atomic("/data/e", checkpoints.epochs_text(entries))
    assert disk.read_bytes("/data/e") == b"0\n2\n0 0\n3 17\n"
    assert checkpoints.read_epochs(disk, "/data/e") == entries


def test_partition_metadata(disk: MemoryDisk) -> None:
    checkpoints.write_partition_metadata(disk, "/data/p", TOPIC_ID)
    assert disk.read_bytes("/data/p") == b"version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"
    assert checkpoints.read_partition_metadata(disk, "/data/p") == TOPIC_ID
    assert checkpoints.read_partition_metadata(disk, "/data/missing") is None


def test_meta_properties(disk: MemoryDisk) -> None:
    meta = MetaProperties("4L6g3nShT-eMCtK--X86sw", 3, TOPIC_ID)
    checkpoints.write_meta_properties(disk, "/data/m", meta)
    assert disk.read_bytes("/data/m").decode().splitlines()[1:] == [
        "cluster.id=4L6g3nShT-eMCtK--X86sw",
        "directory.id=EjRWeBI0VngSNFZ4EjRWeA",
        "node.id=3",
        "version=1",
    ]
    assert checkpoints.read_meta_properties(disk, "/data/m") == meta
    # As Kafka's own formatter leaves it.
    disk.write_atomic(
        "/data/k",
        b"#\n#Tue Mar 04 10:00:00 UTC 2025\nnode.id=3\nversion=1\n"
        b"directory.id=EjRWeBI0VngSNFZ4EjRWeA\ncluster.id=4L6g3nShT-eMCtK--X86sw\n",
    )
    assert checkpoints.read_meta_properties(disk, "/data/k") == meta
    assert checkpoints.read_meta_properties(disk, "/data/missing") is None


@pytest.mark.rule("C5")
def test_clean_shutdown(disk: MemoryDisk) -> None:
    checkpoints.write_clean_shutdown(disk, "/data/s", 42)
    assert disk.read_bytes("/data/s") == b'{"version":0,"brokerEpoch":42}'
    assert checkpoints.read_clean_shutdown(disk, "/data/s") == 42
    assert checkpoints.read_clean_shutdown(disk, "/data/missing") is None


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (checkpoints.read_offsets, b"1\n0\n"),
        (checkpoints.read_epochs, b"1\n0\n"),
        (checkpoints.read_partition_metadata, b"version: 1\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"),
        (checkpoints.read_meta_properties, b"version=2\ncluster.id=x\nnode.id=1\n"),
        (checkpoints.read_clean_shutdown, b'{"version":1,"brokerEpoch":4}'),
    ],
)
def test_a_newer_format_is_refused_with_one_line(disk: MemoryDisk, read: object, text: bytes) -> None:
    disk.write_atomic("/data/f", text)
    with pytest.raises(NewerFormat) as caught:
        read(disk, "/data/f")  # type: ignore[operator]
    assert str(caught.value).startswith("/data/f has format version ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (checkpoints.read_offsets, b""),
        (checkpoints.read_offsets, b"x\n0\n"),
        (checkpoints.read_offsets, b"0\n2\norders 0 1\n"),
        (checkpoints.read_offsets, b"0\n1\norders 0\n"),
        (checkpoints.read_offsets, b"0\n1\norders zero 1\n"),
        (checkpoints.read_offsets, b"\xff\xfe"),
        (checkpoints.read_epochs, b"-1\n0\n"),
        (checkpoints.read_partition_metadata, b""),
        (checkpoints.read_partition_metadata, b"version: 0\ntopic_id: x"),
        (checkpoints.read_partition_metadata, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"),
        (checkpoints.read_meta_properties, b"version=1\ncluster.id=x\nnode.id=1\n"),
        (checkpoints.read_meta_properties, b"version=0\nbroker.id=1\n"),
        (checkpoints.read_clean_shutdown, b"{}"),
        (checkpoints.read_clean_shutdown, b""),
    ],
)
def test_what_is_no_checkpoint_is_named(disk: MemoryDisk, read: object, text: bytes) -> None:
    disk.write_atomic("/data/f", text)
    with pytest.raises(CorruptCheckpoint) as caught:
        read(disk, "/data/f")  # type: ignore[operator]
    assert str(caught.value).startswith("/data/f is malformed: ")
