"""The verdict: ok, failed, or too little to tell."""

from pathlib import Path

import pytest
from tests.unit.verify.small_history import history, log, sends

from tidelog.verify import history_file
from tidelog.verify.history import FaultEvent, History
from tidelog.verify.history_file import read_history, write_history
from tidelog.verify.report import check_rows, counted, first_violations, last_line
from tidelog.verify.verdict import Thresholds, Verdict, judge
from tidelog.verify.workload import VerifyError

SMALL = Thresholds(acknowledged=2, faults_of_a_kind=1, leader_changes=1)


def fault(kind: str, began_ms: int = 100, whole_ms: int | None = 200) -> FaultEvent:
    return FaultEvent(kind=kind, node=2, began_ms=began_ms, healed_ms=began_ms + 50, whole_ms=whole_ms)


def sound() -> History:
    made = history([sends(0, 0, 1, "?", "refused")], log("0:0", "0:1"), {0: log("0:0", "0:1")})
    made.faults = [fault("pause"), fault("pause", 300, 400)]
    made.leader_changes = 3
    return made


def test_enough_of_everything_and_nothing_wrong_is_ok() -> None:
    judgement = judge(sound(), SMALL, ("pause",))
    assert (judgement.verdict, judgement.reasons) == (Verdict.OK, ())
    counts = judgement.counts
    assert (counts.sent, counts.acknowledged, counts.refused, counts.unknown, counts.unanswered) == (4, 2, 1, 1, 0)
    assert (counts.read, counts.final, counts.leader_changes, counts.faults) == (2, 2, 3, {"pause": 2})
    assert counted(judgement)[-1] == "faults: 2 pause; 3 leader changes"
    assert last_line(judgement) == "verify ok"
    assert ("lost-write", 0, "an acknowledged value is in the log") in check_rows(judgement)


@pytest.mark.parametrize(
    ("thresholds", "kinds", "reason"),
    [
        (Thresholds(acknowledged=3), (), "2 acknowledged records, fewer than 3"),
        (Thresholds(acknowledged=2, faults_of_a_kind=3), ("pause",), "2 faults of kind pause, fewer than 3"),
        (Thresholds(acknowledged=2), ("pause", "isolate"), "0 faults of kind isolate, fewer than 1"),
        (Thresholds(acknowledged=2, leader_changes=4), (), "3 leader changes, fewer than 4"),
    ],
)
def test_too_little_is_inconclusive(thresholds: Thresholds, kinds: tuple[str, ...], reason: str) -> None:
    judgement = judge(sound(), thresholds, kinds)
    assert (judgement.verdict, judgement.reasons) == (Verdict.INCONCLUSIVE, (reason,))
    assert last_line(judgement) == f"verify inconclusive: {reason}"


def test_a_violation_fails_however_little_there_was() -> None:
    made = history([sends(0, 0, 1)], log("0:0"))
    made.faults = [fault("kill-leader")]
    judgement = judge(made, Thresholds())
    assert (judgement.verdict, judgement.reasons) == (Verdict.FAILED, ("lost-write: 1",))
    assert first_violations(judgement, made) == [
        "lost-write: partition 0, 0.101 s (kill-leader of node 2):"
        " 0:1 was acknowledged at offset 1 and is not in the log"
    ]
    assert judgement.to_json()["checks"]["lost-write"]["violations"] == 1


def test_the_rest_of_many_violations_is_counted() -> None:
    made = history([sends(0, *range(20))], [])
    assert first_violations(judge(made, Thresholds()), made)[-1] == "lost-write: and 15 more"


def test_a_cluster_that_does_not_come_back_fails() -> None:
    made = sound()
    made.not_whole = "broker 3 does not answer"
    judgement = judge(made, SMALL)
    assert judgement.verdict is Verdict.FAILED
    assert judgement.reasons == ("the cluster was not healthy at the end: broker 3 does not answer",)


def test_a_fault_without_an_end_covers_all_that_comes_after() -> None:
    made = sound()
    made.faults.append(fault("isolate", 500, None))
    assert [found and found.kind for found in map(made.fault_at, (50, 350, 450, 9999, None))] == [
        None,
        "pause",
        None,
        "isolate",
        None,
    ]


# --- the file ---


@pytest.mark.parametrize("chunk", [1, 2, 10_000])
def test_a_history_comes_back_from_its_file(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "_CHUNK", chunk)
    skipping = [(0, "0:0"), (1, "0:1"), (5, "1:1"), (2, "foreign"), (3, "0:3")]
    made = history(
        [sends(0, 0, 1, "?", "acked"), sends(1, "refused", "pending", idempotent=False)],
        log("0:0", "0:1", first=3),
        {0: skipping, 1: []},
        end=9,
        incomplete="timed out",
    )
    made.faults, made.leader_changes, made.not_whole = [fault("one-way", 1, None)], 7, "a reason"
    path = tmp_path / "history.jsonl"
    write_history(made, path)
    again = read_history(path)
    assert (again.topic, again.partitions, again.leader_changes, again.not_whole) == ("verify", 1, 7, "a reason")
    assert again.faults == made.faults
    for key, each in made.sends.items():
        assert (again.sends[key].outcomes, again.sends[key].times_ms) == (each.outcomes, each.times_ms)
        assert again.sends[key].idempotent == each.idempotent
    for key, reads in made.reads.items():
        assert list(again.reads[key].runs()) == list(reads.runs())
        assert again.reads[key].values == reads.values
        assert [again.reads[key].time_ms(i) for i in range(len(reads))] == [reads.time_ms(i) for i in range(len(reads))]
    assert again.final[0].reads.values == made.final[0].reads.values
    assert (again.final[0].end_offset, again.final[0].incomplete) == (9, "timed out")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("{}\n", "line 1: not a line of a history"),
        ('{"type":"fault"}\n', "line 1"),
        ("no json\n", "line 1"),
        ('{"type":"run","version":1,"topic":"t","partitions":1,"leader_changes":0,"not_whole":null}\n[]\n', "line 2"),
        (
            '{"type":"run","version":1,"topic":"t","partitions":1,"leader_changes":0,"not_whole":null}\n{"type":"x"}\n',
            "x",
        ),
    ],
)
def test_a_file_that_is_no_history_is_named(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(text)
    with pytest.raises(VerifyError, match=why):
        read_history(path)
