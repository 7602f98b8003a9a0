"""What the demo draws, on the terminal and in its report."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tidelog.cli.demo.journal import Event, Journal, Look, Outage
from tidelog.cli.demo.pipeline import Sold, SparkAct
from tidelog.cli.demo.report import page_of
from tidelog.cli.demo.screen import picture
from tidelog.cli.demo.writing import Counted, Score, Wait
from tidelog.client.replicas import IsrMembership, PartitionView, ReplicaStatus, ReplicaView
from tidelog.jobs.pipeline.parsing import load


def replica(broker: int, status: ReplicaStatus, end: int | None, hw: int | None = None) -> ReplicaView:
    return ReplicaView(
        broker=broker,
        status=status,
        membership=IsrMembership.OUT if end is None else IsrMembership.IN,
        leader_epoch=3,
        log_start_offset=0,
        high_watermark=hw,
        log_end_offset=end,
        fetched_to=end,
        lag=0,
        last_caught_up_ms=0,
        last_fetch_ms=0,
    )


def look(at_s: float, acknowledged: int) -> Look:
    view = PartitionView(
        topic="orders",
        partition=0,
        leader=2,
        leader_epoch=3,
        isr=(2, 3),
        maximal_isr=(2, 3),
        replicas=(
            replica(1, ReplicaStatus.OFFLINE, None),
            replica(2, ReplicaStatus.LEADER, 100, 90),
            replica(3, ReplicaStatus.FOLLOWER, 50, 80),
        ),
    )
    return Look(at_s=at_s, acknowledged=acknowledged, partitions=(view,))


def drawn(seen: Look, width: int = 200) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(picture(seen, width))
    return out.getvalue().splitlines()


def test_the_terminal_shows_leader_epoch_isr_and_how_far_each_replica_is() -> None:
    headings, row, total = drawn(look(0.5, 90))
    assert headings.split() == ["PARTITION", "LEADER", "EPOCH", "ISR", "HW", "NODE", "1", "NODE", "2", "NODE", "3"]
    assert row.split() == ["orders-0", "2", "3", "2,3", "90", "offline", "█" * 24 + "★", "█" * 12]
    assert total.split() == ["90", "acknowledged"]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_bars_and_marks_fit_into_the_terminal(width: int) -> None:
    seen = look(0.5, 123_456)
    _, row, _ = lines = drawn(seen, width)
    assert "★" in row and "…" not in "".join(lines) and max(map(len, lines)) <= width
    assert row.count("█") >= 9


def test_the_high_watermark_of_the_topic_is_what_is_committed() -> None:
    assert (look(0, 0).committed, look(0, 0).smallest_isr) == (90, 2)


def test_the_report_tells_what_happened_and_draws_it() -> None:
    outage = Outage(node=1, killed_s=1.0, started_s=1.5, in_sync_s=1.6)
    journal = Journal(
        [look(at / 10, at * 50) for at in range(20)], [Event(1.0, "SIGKILL to node 1")], [outage], began_s=100.0
    )
    waits = [Wait(0, 100 + at / 10, 100 + at / 10 + 0.02) for at in range(10)]
    score = Score([950, 0, 0, 0], [*waits, Wait(0, 101.0, 101.4), Wait(1, 101.9, 101.95)])
    sold = Sold(rows=950, distinct=950, items={"tea": (475, 1_662.5), "soup": (475, 3_277.5)})
    html = page_of(journal, score, Counted(found=950, missing=0, doubled=0), sold, "").html()
    assert "950 records were acknowledged and 950 read back: 0 are missing" in html
    assert html.count("<svg") == 5 and html.count(">node 1 down, 0.5 s</text>") == 3
    assert ">400 ms</text>" in html and ">20 ms</text>" not in html, "the longest wait of a writer"
    assert ">500</text>" in html, "fifty each tenth of a second"
    assert 'class="bad"' not in html


def test_what_is_wrong_is_said_to_be_wrong() -> None:
    journal = Journal([look(0, 0), look(1, 10)])
    html = page_of(journal, Score([10, 0, 0, 0]), Counted(found=9, missing=1, doubled=0), None, "no Java").html()
    assert 'class="bad">10 records were acknowledged and 9 read back: 1 are missing' in html
    assert "Left out: no Java." in html


def test_the_pipeline_of_the_act_on_spark_has_no_mistake(tmp_path: Path) -> None:
    folder = SparkAct.prepared(tmp_path / "pipeline")
    pipeline = load(folder / "pipeline.toml", bootstrap="127.0.0.1:1")
    assert [each.name for each in pipeline.sinks] == ["table"] and "spark.driver.extraJavaOptions" in pipeline.spark
