"""A1 without Spark: what is wrong with a segment, what may be compared, and how a difference is told."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.cli.app import run
from tidelog.core.ids import TopicPartition
from tidelog.jobs.audit import layout
from tidelog.jobs.audit.compare import (
    Audit,
    Comparison,
    Facts,
    PartitionResult,
    ReplicaBounds,
    Unread,
    comparison_of,
    explain,
    with_unread,
)
from tidelog.jobs.audit.rows import AuditRow, Kind
from tidelog.jobs.audit.segments import OtherDisk, Segment, audit_segment, require_own_disk
from tidelog.jobs.audit.walk import Replica
from tidelog.wire.records.batch import read_header, seal, stamp, write_header
from tidelog.wire.records.plain import Record, encode_batch

TP = TopicPartition("orders", 0)
NAME = f"{0:020}.log"


def batch(base: int, epoch: int, count: int = 2) -> bytearray:
    records = [Record(base + each, 1_700_000_000_000 + base + each, b"key", b"value", ()) for each in range(count)]
    data = bytearray(encode_batch(records))
    stamp(data, base, epoch)
    return data


def write(directory: Path, batches: list[bytearray], name: str = NAME) -> Path:
    directory.mkdir(exist_ok=True, parents=True)
    path = directory / name
    path.write_bytes(b"".join(batches))
    return path


def audited(path: Path, *, next_base: int | None = None, piece: int = 100, **facts: object) -> list[AuditRow]:
    replica = Replica(topic="orders", partition=0, node=1, **({"high_watermark": 100} | facts))  # type: ignore[arg-type]
    segment = Segment(replica=replica, path=str(path), base_offset=0, next_base=next_base)
    return list(audit_segment(segment, piece=piece))


def problems(rows: list[AuditRow]) -> list[tuple[str, int, str]]:
    return [(row.kind, row.base_offset, row.what) for row in rows if row.kind != Kind.BATCH]


GOOD = [batch(0, 0), batch(2, 0), batch(4, 1), batch(6, 1)]


def test_a_good_segment_has_a_row_per_batch_and_nothing_else(tmp_path: Path) -> None:
    rows = audited(write(tmp_path, GOOD), next_base=8, epochs=[(0, 0), (1, 4)])
    assert problems(rows) == []
    assert [(row.base_offset, row.last_offset, row.leader_epoch, row.records) for row in rows] == [
        (0, 1, 0, 2),
        (2, 3, 0, 2),
        (4, 5, 1, 2),
        (6, 7, 1, 2),
    ]
    assert [row.position for row in rows] == [0, *(sum(len(each) for each in GOOD[:n]) for n in (1, 2, 3))]


def flipped() -> bytearray:
    data = batch(2, 0)
    data[-3] ^= 1
    return data


def too_many() -> bytearray:
    data = batch(2, 0)
    header = read_header(data)._replace(record_count=3)
    write_header(data, header)
    seal(data, header)
    return data


def senseless() -> bytearray:
    """A record that is longer than its batch, under a CRC that fits."""
    data = batch(2, 0)
    data[61] = 0x7E
    seal(data, read_header(data))
    return data


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (flipped, "does not match its CRC"),
        (lambda: batch(3, 0), "offsets 2 to 2 are missing"),
        (lambda: batch(1, 0), "begins at offset 1, and offset 1 came before"),
        (too_many, "3 records for 2 offsets"),
        (senseless, "record 0"),
        (lambda: batch(2, 7), "leader epoch 1 comes after epoch 7"),
        (lambda: batch(2, 0)[:-4], "are not a batch: "),
        (lambda: batch(2, 1), "leader epoch 1, where leader-epoch-checkpoint has epoch 0"),
    ],
)
def test_what_is_wrong_with_a_batch(tmp_path: Path, second: Callable[[], bytearray], says: str) -> None:
    whole = [batch(0, 0), second(), *([] if len(second()) < len(batch(2, 0)) else [batch(4, 1)])]
    path = write(tmp_path, whole)
    told = problems(audited(path, epochs=[(0, 0), (1, 4)]))
    assert any(kind == Kind.PROBLEM and says in what for kind, _, what in told), told
    # Above what is committed anything may stand: it is told, and is no fault.
    assert {kind for kind, _, _ in problems(audited(path, high_watermark=0))} <= {Kind.TAIL}


def test_a_segment_is_read_where_the_node_has_its_disk_only(tmp_path: Path) -> None:
    """Under the same path another host has another node's disk, or nothing, which is not the same as deleted."""
    path = write(tmp_path / "data" / "orders-0", GOOD)
    replica = Replica(topic="orders", partition=0, node=1, high_watermark=100)
    segment = Segment(replica=replica, path=str(path), base_offset=0, next_base=None)
    with pytest.raises(OtherDisk, match="belongs to node 1 on the driver, but is no log directory on the executor on"):
        require_own_disk(segment)
    meta = tmp_path / "data" / "meta.properties"
    told = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id="
    meta.write_text(f"{told}2\n")
    with pytest.raises(OtherDisk, match="but is of node 2 on the executor on"):
        require_own_disk(segment)
    meta.write_text(f"{told}1\n")
    require_own_disk(segment)


def test_segments_join_and_compacted_ones_may_have_holes(tmp_path: Path) -> None:
    path = write(tmp_path, [batch(0, 0), batch(6, 0)])
    assert [what for _, _, what in problems(audited(path, next_base=9))] == [
        "offsets 2 to 5 are missing before the batch",
        "offsets 8 to 8 are missing between this segment and the next",
    ]
    assert problems(audited(path, next_base=9, compacted=True)) == []
    path.unlink()
    assert [row.kind for row in audited(path, next_base=9)] == [Kind.GONE]


def test_indexes_are_held_against_the_segment(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    size = len(GOOD[0])

    def index(*entries: tuple[int, int]) -> bytes:
        return b"".join(a.to_bytes(4, "big") + b.to_bytes(4, "big") for a, b in entries)

    path.with_suffix(".index").write_bytes(index((3, size), (7, 3 * size), (0, 0)))
    path.with_suffix(".timeindex").write_bytes((1_700_000_000_003).to_bytes(8, "big") + (3).to_bytes(4, "big"))
    assert problems(audited(path)) == []
    path.with_suffix(".index").write_bytes(index((3, size + 1), (1, 3 * size)))
    path.with_suffix(".timeindex").write_bytes((1_700_000_000_002).to_bytes(8, "big") + (3).to_bytes(4, "big"))
    told = audited(path)
    assert [Path(row.place).suffix for row in told if row.kind == Kind.PROBLEM] == [".index", ".index", ".timeindex"]
    assert "where no batch begins" in problems(told)[0][2]


def test_what_may_be_compared() -> None:
    in_sync = Facts(node=2, log_start=0, high_watermark=90, in_sync=True)
    ahead = Facts(node=1, log_start=10, high_watermark=100, in_sync=True)
    away = Facts(node=3, log_start=0, high_watermark=50, in_sync=False)
    found = comparison_of(TP, [in_sync, ahead, away])
    # Who is in sync has all that is committed, whatever its own checkpoint says; who is not, what it knew of.
    assert found == Comparison(
        tp=TP,
        start=10,
        replicas=[
            ReplicaBounds(node=1, until=100),
            ReplicaBounds(node=2, until=100),
            ReplicaBounds(node=3, until=50),
        ],
    )
    assert (found.end, found.nodes_at(49), found.nodes_at(50)) == (100, [1, 2, 3], [1, 2])
    cleaned = Facts(node=4, log_start=0, high_watermark=100, clean_until=70)
    assert comparison_of(TP, [ahead, cleaned]).start == 70


def row(node: int, base: int = 20, **fields: int) -> AuditRow:
    told = {"last_offset": 29, "leader_epoch": 3, "crc": 0xABCD, "size": 500, "records": 10} | fields
    return AuditRow("orders", 0, node, Kind.BATCH, f"/node-{node}", 7, base, what="", **told)


@pytest.mark.parametrize(
    ("rows", "nodes", "says"),
    [
        (
            [row(1), row(2, crc=1), row(3)],
            [2],
            "node 2 has another batch than nodes 1 and 3: CRC 0x00000001 instead of",
        ),
        ([row(1), row(3)], [2], "node 2 does not have offsets 20 to 29, nodes 1 and 3 do"),
        ([row(2)], [2], "node 2 has offsets 20 to 29, nodes 1 and 3 do not"),
        ([row(1, leader_epoch=4), row(2), row(3)], [1], "leader epoch 4 instead of 3"),
        ([row(1), row(2), row(3, 15, last_offset=24)], [3], "first offset 15 instead of 20, last offset 24 instead of"),
        ([row(1), row(2), row(3), row(3)], [3], "node 3 has offset 20 twice"),
    ],
)
def test_a_difference_in_words(rows: list[AuditRow], nodes: list[int], says: str) -> None:
    bounds = [ReplicaBounds(node=node, until=100) for node in (1, 2, 3)]
    found = explain(Comparison(tp=TP, start=0, replicas=bounds), 20, rows)
    assert list(found.nodes) == nodes
    assert says in found.what
    two = Comparison(tp=TP, start=0, replicas=bounds[:2])
    assert "it is unknown which one is right" in explain(two, 20, [row(1), row(2, crc=5)]).what


def test_directories_of_nodes_are_found_and_told_as_text(tmp_path: Path) -> None:
    with pytest.raises(layout.NoLogs, match=r"meta\.properties is missing"):
        layout.log_directories([tmp_path])
    (tmp_path / "cluster.json").write_text("{}")
    for node in (1, 2):
        data = tmp_path / f"node-{node}" / "data"
        write(data / "orders-0", GOOD)
        write(data / "orders-0", [], f"{8:020}.log")
        write(data / "gone-0.abc-delete", GOOD)
        (data / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 4\n")
        (data / "replication-offset-checkpoint").write_text("0\n1\norders 0 8\n")
        (data / "meta.properties").write_text(
            f"version=1\ncluster.id=c\nnode.id={node}\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
        )
    found = layout.scan(layout.log_directories([tmp_path]))
    assert [(log.tp, log.replica.node, log.high_watermark, log.bases) for log in found.logs] == [
        (TP, 1, 8, [0, 8]),
        (TP, 2, 8, [0, 8]),
    ]
    segments = [segment for log in found.logs for segment in log.segments()]
    assert layout.from_json(layout.to_json(segments)) == segments
    assert segments[0].replica.epochs == [(0, 0), (1, 4)]


def test_a_replica_that_nobody_could_read_is_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = PartitionResult(topic="orders", partition=0, nodes=[1, 2], start=0, end=8)
    unread = [
        Unread(tp=TP, node=3, why="cannot connect to broker-3:9092"),
        Unread(tp=TopicPartition("orders", 1), node=3, why="the partition has no leader"),
    ]
    found = Audit(of="localhost:9092", partitions=with_unread([read], unread))
    monkeypatch.setattr("tidelog.cli.audit.on_spark", lambda *_: found)
    monkeypatch.setattr("tidelog.cli.audit.with_client", lambda *_: None)
    page = tmp_path / "audit.html"
    assert run(["audit", "--bootstrap", "localhost:9092", "--json", "--html", str(page)]) == 1
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert (told["verdict"], told["clean"]) == ("incomplete", False)
    assert [(each["nodes"], [replica["node"] for replica in each["unread"]]) for each in told["partitions"]] == [
        ([1, 2], [3]),
        ([], [3]),
    ]
    words = "the audit is incomplete: replicas on node 3 could not be read (2 in all)"
    assert said.err == f"tidelog: {words}\n"
    html = page.read_text("utf-8")
    assert all(each in html for each in (words, "cannot connect to broker-3:9092", "same, 1 not read"))

    assert run(["audit", "--bootstrap", "localhost:9092"]) == 1
    assert "orders-0 on node 3 was not read: cannot connect to broker-3:9092" in capsys.readouterr().out
