"""Every check has a history that breaks it and one that does not: the checker can fail."""

import pytest
from tests.unit.verify.small_history import broken, history, log, reads, sends

from tidelog.verify.checks import ALL_CHECKS
from tidelog.verify.history import FinalLog, History
from tidelog.verify.reads import Reads
from tidelog.verify.sends import Sends
from tidelog.verify.values import code_of
from tidelog.verify.verdict import SHOWN, check_history

A_B_C = log("0:0", "0:1", "0:2")


def test_a_sound_history_breaks_nothing() -> None:
    two = [sends(0, 0, 2, "?", 3), sends(1, 1, "refused", 4, "?")]
    final = log("0:0", "1:0", "0:1", "0:3", "1:2", "1:3")
    assert broken(history(two, final, {0: final, 1: final})) == {}


def test_an_empty_history_breaks_nothing() -> None:
    assert broken(History(topic="verify", partitions=0)) == {}
    assert broken(history([], [], {0: []})) == {}


# --- lost-write ---


def test_an_acknowledged_value_that_is_gone_is_a_lost_write() -> None:
    assert broken(history([sends(0, 0, 1, 2)], log("0:0", "0:1"))) == {"lost-write": 1}
    (finding,) = [found for found in check_history(history([sends(0, 0, 1)], log("0:0"))) if found.count]
    (violation,) = finding.first
    assert violation.to_json() == {
        "check": "lost-write",
        "partition": 0,
        "detail": "0:1 was acknowledged at offset 1 and is not in the log",
        "offsets": [1],
        "values": ["0:1"],
        "time_ms": 101,
    }


def test_a_value_acknowledged_without_an_offset_can_be_lost_too() -> None:
    assert broken(history([sends(0, 0, "acked")], log("0:0"))) == {"lost-write": 1}
    assert broken(history([sends(0, 0, "acked")], log("0:0", "0:1"))) == {}


def test_a_value_of_unknown_fate_may_be_missing_or_there() -> None:
    assert broken(history([sends(0, 0, "?")], log("0:0"))) == {}
    assert broken(history([sends(0, 0, "?")], log("0:0", "0:1"))) == {}


def test_a_lost_value_whose_offset_has_another_one_is_inconsistent_as_well() -> None:
    made = history([sends(0, 0, 1), sends(1, 1)], log("0:0", "1:0"))
    assert broken(made) == {"lost-write": 1, "inconsistent-offsets": 1}


# --- aborted-read ---


def test_a_refused_value_in_the_log_is_an_aborted_read() -> None:
    assert broken(history([sends(0, 0, "refused")], log("0:0", "0:1"))) == {"aborted-read": 1}


def test_a_refused_value_that_was_read_and_vanished_is_an_aborted_read() -> None:
    made = history([sends(0, 0, "refused")], log("0:0"), {0: log("0:0", "0:1")})
    assert broken(made) == {"aborted-read": 1, "precommitted-read": 1}


# --- unsent-read ---


@pytest.mark.parametrize("value", ["foreign", "7:0", "0:5"])
def test_a_value_nobody_sent_is_an_unsent_read(value: str) -> None:
    assert broken(history([sends(0, 0)], log("0:0", value))) == {"unsent-read": 1}
    assert broken(history([sends(0, 0)], log("0:0"), {0: log("0:0", value)})) == {"unsent-read": 1}


# --- inconsistent-offsets ---


def test_an_offset_read_with_two_values_is_inconsistent() -> None:
    made = history([sends(0, 0, "?", "?")], log("0:0", "0:2"), {0: log("0:0", "0:1"), 1: log("0:0", "0:2")})
    assert broken(made) == {"inconsistent-offsets": 1, "precommitted-read": 1}


def test_two_readers_that_differ_on_an_offset_that_is_gone_are_inconsistent() -> None:
    made = history([sends(0, 0, "?", "?")], log("0:0"), {0: log("0:0", "0:1"), 1: log("0:0", "0:2")})
    assert broken(made) == {"inconsistent-offsets": 1, "precommitted-read": 2}


def test_an_acknowledged_offset_that_has_another_value_is_inconsistent() -> None:
    made = history([sends(0, 1), sends(1, 0)], log("0:0", "1:0"), {0: log("0:0", "1:0")})
    assert broken(made) == {"inconsistent-offsets": 2, "duplicate": 2}


# --- duplicate ---


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    assert broken(history([sends(0, 0, 1)], log("0:0", "0:1", "0:1"))) == {"duplicate": 1}
    assert broken(history([sends(0, 0, 1)], log("0:0", "0:1", "0:1", "0:1"))) == {"duplicate": 1}


def test_a_value_read_elsewhere_before_is_a_duplicate() -> None:
    made = history([sends(0, "?", "?")], log("0:1", "0:0"), {0: log("0:0")})
    assert broken(made) == {"duplicate": 1, "inconsistent-offsets": 1, "nonmonotonic-send": 1}


def test_a_producer_that_is_not_idempotent_may_repeat_itself_and_change_order() -> None:
    plain = sends(0, 0, 2, 1, idempotent=False)
    assert broken(history([plain], log("0:0", "0:2", "0:1", "0:1"))) == {}


# --- precommitted-read ---


def test_a_value_that_was_read_and_is_gone_was_read_before_it_was_committed() -> None:
    made = history([sends(0, 0, "?")], log("0:0"), {0: log("0:0", "0:1")})
    assert broken(made) == {"precommitted-read": 1}
    assert broken(history([sends(0, 0, "?")], log("0:0", "0:1"), {0: log("0:0", "0:1")})) == {}


# --- poll-skip, nonmonotonic-poll ---


def test_a_consumer_that_leaves_out_a_record_skips() -> None:
    made = history([sends(0, 0, 1, 2)], A_B_C, {0: [(0, "0:0"), (2, "0:2")]})
    assert broken(made) == {"poll-skip": 1, "unseen": 1}


def test_a_consumer_that_begins_behind_the_first_record_skips() -> None:
    assert broken(history([sends(0, 0, 1)], log("0:0", "0:1"), {0: [(1, "0:1")]})) == {"poll-skip": 1, "unseen": 1}


def test_a_hole_in_the_log_is_the_fault_of_the_log() -> None:
    hole = [(0, "0:0"), (2, "0:1")]
    assert broken(history([sends(0, 0, 2)], hole, {0: hole})) == {"dense-offsets": 1}


def test_a_consumer_that_goes_back_is_not_monotonic() -> None:
    back = [(0, "0:0"), (1, "0:1"), (1, "0:1"), (2, "0:2")]
    assert broken(history([sends(0, 0, 1, 2)], A_B_C, {0: back})) == {"nonmonotonic-poll": 1}


# --- nonmonotonic-send ---


def test_a_later_send_with_a_lower_offset_is_not_monotonic() -> None:
    made = history([sends(0, 1, 0)], log("0:1", "0:0"))
    assert broken(made) == {"nonmonotonic-send": 2}, "as it was told, and as it is in the log"


def test_order_in_the_log_counts_when_the_producer_was_told_nothing() -> None:
    assert broken(history([sends(0, "?", "acked")], log("0:1", "0:0"))) == {"nonmonotonic-send": 1}


def test_values_in_between_may_be_missing() -> None:
    assert broken(history([sends(0, 0, "?", "refused", 1)], log("0:0", "0:3"))) == {}


# --- unseen ---


def test_an_acknowledged_value_that_a_consumer_never_got_is_unseen() -> None:
    made = history([sends(0, 0, 1, 2)], A_B_C, {0: A_B_C, 1: A_B_C[:1]})
    assert broken(made) == {"unseen": 2}
    assert broken(history([sends(0, 0, 1, 2)], A_B_C, {0: A_B_C, 1: []})) == {"unseen": 3}


def test_only_acknowledged_values_must_be_seen() -> None:
    assert broken(history([sends(0, 0, "?", "?")], A_B_C, {0: A_B_C[:1]})) == {}


# --- dense-offsets ---


def test_a_log_that_does_not_begin_at_zero_or_ends_late_is_not_dense() -> None:
    assert broken(history([sends(0, 1)], log("0:0", first=1))) == {"dense-offsets": 1}
    assert broken(history([sends(0, 0)], log("0:0"), end=5)) == {"dense-offsets": 1}


def test_an_offset_that_comes_twice_is_not_dense() -> None:
    made = history([sends(0, 0, 1)], [(0, "0:0"), (1, "0:1"), (1, "0:1")])
    assert broken(made) == {"dense-offsets": 1, "nonmonotonic-poll": 1}


# --- liveness ---


def test_a_write_without_an_answer_is_not_live() -> None:
    assert broken(history([sends(0, 0, "pending", "pending")], log("0:0"))) == {"liveness": 1}


def test_a_log_that_cannot_be_read_says_only_that() -> None:
    made = history([sends(0, 0, 1)], log("0:0"), {0: log("0:0", "0:1")}, end=2, incomplete="timed out")
    assert broken(made) == {"liveness": 1}


# --- all of them ---


def test_names_and_statements_are_there_and_unique() -> None:
    assert len({check.name for check in ALL_CHECKS}) == len(ALL_CHECKS)
    assert all(check.statement for check in ALL_CHECKS)


def test_violations_are_counted_and_the_first_few_kept() -> None:
    (finding,) = [found for found in check_history(history([sends(0, *range(20))], [])) if found.count]
    assert finding.count == 20 and len(finding.first) == SHOWN


def test_partitions_are_judged_apart() -> None:
    made = History(topic="verify", partitions=2)
    for partition in range(2):
        made.sends[0, partition] = Sends(0, partition, idempotent=True)
        sequence = made.sends[0, partition].sent(0)
        made.sends[0, partition].acknowledged(sequence, 0, 0)
        made.final[partition] = FinalLog(reads=Reads(partition), end_offset=partition)
    made.final[1].reads.add(0, code_of(0, 0))
    assert broken(made) == {"lost-write": 1}


def test_a_violation_says_when_a_record_was_read() -> None:
    made = reads((0, "0:0"), (1, "0:1"), (5, "0:2"))
    assert [made.time_ms(index) for index in range(3)] == [1000, 1001, 1002]
    assert [(run.offset, run.end, run.expected) for run in made.runs()] == [(0, 2, 0), (5, 6, 2)]
