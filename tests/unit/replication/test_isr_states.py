"""How an in-sync set changes: who joins, who has to go, and what the controller's answers do to a proposal."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.replication.leader_kit import LAG_S, TOPIC_ID, TP, Led, broker, brokers, recovering, registration

from tidelog.core.config.topic import TopicConfig
from tidelog.core.events import IsrChanged
from tidelog.core.ids import BrokerId, LeaderEpoch
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.replication.isr import (
    Committed,
    Pending,
    PendingExpand,
    PendingRecovery,
    PendingShrink,
    Verdict,
    verdict,
)
from tidelog.replication.partition import Partition
from tidelog.replication.refusals import PROBE_S
from tidelog.wire.errors import ApiError, ErrorCode

ISR = frozenset({BrokerId(1), BrokerId(2)})
COMMITTED = Committed(isr=ISR)


def members(proposal: Any) -> dict[int, int]:
    return {each.broker_id: each.broker_epoch for each in proposal.new_isr_with_epochs}


# --- the states (I4)


@pytest.mark.rule("I4")
@pytest.mark.parametrize(
    ("pending", "maximal", "proposed"),
    [
        (PendingExpand(committed=COMMITTED, newcomer=BrokerId(3), reason=""), {1, 2, 3}, {1, 2, 3}),
        (PendingShrink(committed=COMMITTED, leavers=frozenset({BrokerId(2)}), reason=""), {1, 2}, {1}),
        (PendingRecovery(committed=COMMITTED), {1, 2}, {1, 2}),
    ],
)
def test_a_pending_change_counts_the_larger_set(pending: Pending, maximal: set[int], proposed: set[int]) -> None:
    assert (set(pending.isr), set(pending.maximal_isr), set(pending.proposed)) == ({1, 2}, maximal, proposed)


@pytest.mark.rule("I4")
def test_one_change_at_a_time() -> None:
    led = Led(isr=(1,))
    led.write(3)
    led.fetch(2)
    led.fetch(3)
    assert led.maximal_isr == {1, 2}
    led.now_s += LAG_S + 1
    led.partition.check_isr(led.now_s)
    assert members(led.accept()) == {1: 11, 2: 12}
    assert led.request() is None
    # The next one comes with the next fetch.
    led.fetch(3)
    assert members(led.accept()) == {1: 11, 2: 12, 3: 13}
    assert led.isr == {1, 2, 3}


@pytest.mark.rule("I4")
def test_a_shrink_counts_the_leaver_until_it_is_committed() -> None:
    led = Led()
    led.write(3)
    led.fetch(2)
    led.now_s += LAG_S + 0.1
    led.fetch(2)
    assert led.high_watermark == 0
    assert not led.partition.check_isr(led.now_s)
    assert (led.isr, led.maximal_isr, led.high_watermark) == ({1, 2, 3}, {1, 2, 3}, 0)
    assert set(members(led.accept())) == {1, 2}
    # The answer may overtake a raised `min.insync.replicas`, by which who left is still eligible: the metadata counts.
    assert (led.maximal_isr, led.high_watermark) == ({1, 2, 3}, 0)
    led.apply(isr=(1, 2), partition_epoch=1)
    assert (led.isr, led.maximal_isr, led.high_watermark) == ({1, 2}, {1, 2}, 3)


# --- who goes (I2)


@pytest.mark.rule("I2")
def test_the_timer_finds_who_fetches_no_more_and_who_fetches_too_slowly() -> None:
    led = Led()
    led.write(3)
    led.fetch(2)
    led.fetch(3)
    for _ in range(6):
        led.now_s += LAG_S / 5
        led.write(3)
        led.fetch(3, 4)  # it fetches, always too far behind
        led.partition.check_isr(led.now_s)
    assert led.maximal_isr == {1, 2, 3}
    led.now_s += 0.1
    led.partition.check_isr(led.now_s)
    assert set(members(led.proposed())) == {1}


@pytest.mark.rule("I2")
def test_at_the_end_of_a_quiet_log_nobody_goes() -> None:
    led = Led()
    led.write(3)
    led.fetch(2)
    led.fetch(3)
    led.now_s += 100 * LAG_S
    led.partition.check_isr(led.now_s)
    assert led.request() is None


@pytest.mark.rule("I2")
def test_fetches_alone_never_shrink() -> None:
    led = Led()
    led.write(3)
    led.now_s += 10 * LAG_S
    led.fetch(2)
    assert led.request() is None


@pytest.mark.rule("I2")
def test_an_election_gives_the_in_sync_a_full_lag_time() -> None:
    led = Led()
    led.now_s += 10 * LAG_S
    led.apply(leader_epoch=6, partition_epoch=1)
    led.write(1)
    led.now_s += LAG_S
    led.partition.check_isr(led.now_s)
    assert led.request() is None
    led.now_s += 0.1
    led.partition.check_isr(led.now_s)
    assert set(members(led.proposed())) == {1}


# --- who joins (I3)


@pytest.mark.rule("I3")
@pytest.mark.parametrize(
    ("end", "joins"),
    [(0, False), (3, False), (4, True), (6, True)],
    ids=["far", "below the high watermark", "at the high watermark", "at the end"],
)
def test_a_replica_joins_with_all_that_is_committed(end: int, joins: bool) -> None:
    led = Led(isr=(1, 2))
    led.write(6)
    led.fetch(2, 4)
    assert led.high_watermark == 4
    led.fetch(3, end)
    assert (led.maximal_isr == {1, 2, 3}) is joins


@pytest.mark.rule("I3")
@pytest.mark.parametrize(("end", "joins"), [(3, False), (4, False), (5, True)])
def test_a_replica_joins_with_all_of_earlier_epochs(end: int, joins: bool) -> None:
    """The high watermark of a new leader may be far behind what was committed: the epoch's start is not."""
    led = Led(isr=(1, 2))
    led.write(5)
    led.apply(isr=(1, 2), leader_epoch=6, partition_epoch=1)
    assert led.high_watermark == 0
    led.fetch(3, end)
    assert (led.maximal_isr == {1, 2, 3}) is joins


@pytest.mark.rule("I3")
@pytest.mark.parametrize(
    ("change", "fetch"),
    [
        ({"fenced": True}, {}),
        ({"in_controlled_shutdown": True}, {}),
        ({"epoch": 99}, {"broker_epoch": 99}),
    ],
    ids=["fenced", "leaving", "of another epoch than it is registered with now"],
)
def test_a_replica_joins_only_on_an_acceptable_broker(change: dict[str, Any], fetch: dict[str, int]) -> None:
    led = Led(isr=(1, 2))
    led.write(3)
    if "epoch" in change:
        led.fetch(3, 3, **fetch)
    led.context.brokers = {**brokers(1, 2), 3: broker(3, **change)}
    if "epoch" not in change:
        led.fetch(3, 3)
    assert led.request() is None


@pytest.mark.rule("I3")
def test_a_replica_that_is_known_to_leave_is_not_proposed_though_that_waits_to_be_applied() -> None:
    led = Led(isr=(1, 2))
    led.context.announced = {**led.context.brokers, 3: broker(3, in_controlled_shutdown=True)}
    led.fetch(3)
    assert led.request() is None
    led.context.announced = led.context.brokers
    led.fetch(3)
    assert set(members(led.proposed())) == {1, 2, 3}


@pytest.mark.rule("I3", "I5")
def test_whom_the_controller_refused_is_proposed_again_when_the_metadata_tells_of_brokers() -> None:
    led = Led(isr=(1, 2))
    led.fetch(3)
    led.proposed()
    led.answer(ErrorCode.INELIGIBLE_REPLICA)
    led.fetch(3)
    assert led.request() is None
    led.context.brokers = brokers(1, 2, 3)
    led.fetch(3)
    assert set(members(led.proposed())) == {1, 2, 3}


@pytest.mark.rule("I3", "I5")
def test_whom_the_controller_refused_is_tried_once_in_a_while_and_again_by_all_when_it_is_taken() -> None:
    """The metadata may have told of it before the answer came, and will not again."""
    led = Led(isr=(1, 2))
    other = Led(isr=(1, 2), context=led.context)
    led.fetch(3)
    led.proposed()
    led.answer(ErrorCode.INELIGIBLE_REPLICA)
    led.now_s = other.now_s = led.now_s + PROBE_S
    led.fetch(3)
    other.fetch(3)
    assert not other.partition.is_isr_pending()
    led.accept()
    other.fetch(3)
    assert other.partition.is_isr_pending()


@pytest.mark.rule("I3")
def test_a_proposal_names_the_epochs_of_the_fetches() -> None:
    led = Led(isr=(1, 2))
    led.fetch(2)
    led.fetch(3)
    # It has registered again since, and this leader knows: what it has now is not what it had.
    led.context.brokers = {**brokers(1, 3), 2: broker(2, epoch=99)}
    assert members(led.proposed()) == {1: 11, 2: 12, 3: 13}


@pytest.mark.rule("I3")
def test_a_member_that_has_not_fetched_is_named_as_it_is_registered() -> None:
    led = Led(isr=(1, 2))
    led.fetch(3)
    assert members(led.proposed()) == {1: 11, 2: 12, 3: 13}


@pytest.mark.rule("I3")
def test_a_recovering_leader_says_so_first_and_only_then_others_join() -> None:
    led = Led()
    led.partition.apply(recovering(leader_epoch=6, partition_epoch=1), led.now_s)
    led.fetch(2)
    asked = led.proposed()
    assert (members(asked), asked.leader_recovery_state) == ({1: 11}, LeaderRecoveryState.RECOVERED)
    led.fetch(3)
    assert led.maximal_isr == {1}
    led.answer(isr=[1], partition_epoch=2, leader_recovery_state=LeaderRecoveryState.RECOVERED)
    led.fetch(2)
    assert members(led.accept()) == {1: 11, 2: 12}


@pytest.mark.rule("I5")
def test_a_recovery_that_was_taken_back_is_tried_again_by_the_timer() -> None:
    led = Led()
    led.partition.apply(recovering(replicas=(1,), leader_epoch=6, partition_epoch=1, directories=()), led.now_s)
    led.proposed()
    led.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert led.request() is None
    led.partition.check_isr(led.now_s)
    led.accept()
    assert led.partition.require_leader().isr_state == Committed(isr=frozenset({BrokerId(1)}))


# --- what an answer does (I5)

RESETS = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
LEAVES = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NEW_LEADER_ELECTED,
)
RETRIES = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.STALE_BROKER_EPOCH,
)


def pending_expand() -> Led:
    led = Led(isr=(1, 2))
    led.write(3)
    led.fetch(2)
    led.fetch(3)
    led.proposed()
    return led


def pending_shrink() -> Led:
    led = Led(isr=(1, 2))
    led.write(3)
    led.now_s += LAG_S + 1
    led.partition.check_isr(led.now_s)
    led.proposed()
    return led


@pytest.mark.rule("I5")
def test_every_error_has_one_verdict() -> None:
    table = {code: verdict(code) for code in ErrorCode}
    assert [code for code, is_ in table.items() if is_ is Verdict.ACCEPT] == [ErrorCode.NONE]
    assert {code for code, is_ in table.items() if is_ is Verdict.TAKE_BACK} == set(RESETS)
    assert {code for code, is_ in table.items() if is_ is Verdict.LEAVE_PENDING} == set(LEAVES)
    assert verdict(31_999) is Verdict.RETRY


@pytest.mark.rule("I5")
@pytest.mark.parametrize("error", RESETS)
def test_only_these_take_a_proposal_back(error: ErrorCode) -> None:
    for led in (pending_expand(), pending_shrink()):
        assert not led.answer(error)
        assert led.partition.require_leader().isr_state == COMMITTED
        assert led.request() is None


@pytest.mark.rule("I5")
@pytest.mark.parametrize("error", LEAVES)
def test_what_may_have_been_committed_stays_pending_until_metadata_tells(error: ErrorCode) -> None:
    led = pending_expand()
    assert not led.answer(error)
    assert (led.isr, led.maximal_isr) == ({1, 2}, {1, 2, 3})
    led.write(2)
    led.fetch(2)
    assert led.high_watermark == 3  # broker 3 counts: the controller may have it in
    assert led.request() is None
    led.apply(isr=(1, 2, 3), partition_epoch=1)
    assert led.partition.require_leader().isr_state == Committed(isr=frozenset(map(BrokerId, (1, 2, 3))))


@pytest.mark.rule("I4", "W1")
def test_an_expansion_that_nobody_answers_counts_the_newcomer_however_long() -> None:
    """Also when it has fallen behind again: the controller may have it in, and may elect it."""
    led = pending_expand()
    led.now_s += 10 * LAG_S
    led.write(2)
    led.fetch(2)
    led.partition.check_isr(led.now_s)
    assert (led.high_watermark, led.maximal_isr) == (3, {1, 2, 3})


@pytest.mark.rule("I5")
@pytest.mark.parametrize("error", RETRIES)
def test_anything_else_is_asked_again_unchanged(error: ErrorCode) -> None:
    for led in (pending_expand(), pending_shrink()):
        state = led.partition.require_leader().isr_state
        assert led.answer(error)
        assert led.partition.require_leader().isr_state is state
        assert led.proposed().partition_epoch == 0


@pytest.mark.rule("I5")
def test_newer_metadata_overtakes_a_proposal_and_its_answer_is_stale() -> None:
    led = pending_expand()
    led.apply(isr=(1, 2), partition_epoch=4)
    assert led.partition.require_leader().isr_state == COMMITTED
    led.answer(isr=[1, 2, 3], partition_epoch=1)
    assert (led.isr, led.partition.require_leader().partition_epoch) == ({1, 2}, 4)
    led.fetch(3)
    assert led.proposed().partition_epoch == 4


@pytest.mark.rule("I5")
@pytest.mark.parametrize("error", [*RESETS, ErrorCode.NONE])
def test_an_answer_to_an_older_proposal_does_nothing_to_the_newer_one(error: ErrorCode) -> None:
    led = pending_expand()
    led.apply(isr=(1, 2), partition_epoch=4)
    led.fetch(3)
    newer = led.partition.require_leader().isr_state
    led.answer(error, isr=[1, 2], partition_epoch=5)
    assert led.partition.require_leader().isr_state is newer
    assert led.proposed().partition_epoch == 4


@pytest.mark.rule("I5")
@pytest.mark.parametrize(
    "fields",
    [{"leader_epoch": 6, "partition_epoch": 9}, {"leader_epoch": 4, "partition_epoch": 9}, {"partition_epoch": -1}],
)
def test_an_accepted_answer_about_another_state_is_left_to_the_metadata(fields: dict[str, Any]) -> None:
    led = pending_expand()
    assert not led.answer(isr=[1, 2, 3], **fields)
    assert (led.isr, led.maximal_isr) == ({1, 2}, {1, 2, 3})


@pytest.mark.rule("I5")
def test_an_answer_about_the_same_partition_epoch_says_that_nothing_had_to_change() -> None:
    led = pending_expand()
    led.answer(isr=[1, 2, 3], partition_epoch=0)
    assert led.isr == {1, 2, 3}


@pytest.mark.rule("I5")
def test_metadata_that_the_answer_had_told_already_brings_the_assignment_only() -> None:
    led = pending_expand()
    led.answer(isr=[1, 2, 3], partition_epoch=1)
    led.now_s += 1
    led.apply(replicas=(1, 3), isr=(1, 2, 3), partition_epoch=1)
    role = led.partition.require_leader()
    assert (role.replicas, set(role.followers), led.isr) == ((1, 3), {3}, {1, 2, 3})


# --- what is told of it (O2)


@pytest.mark.rule("O2")
def test_every_change_is_told_with_its_reason_and_its_offsets() -> None:
    led = Led(isr=(1, 2))
    led.write(3)
    led.fetch(2)
    led.fetch(3)
    led.accept()
    led.now_s += LAG_S + 1
    led.write(1)
    led.fetch(2)
    led.partition.check_isr(led.now_s)
    # The metadata is faster than the answer, and says the same.
    led.proposed()
    led.apply(isr=(1, 2), partition_epoch=2)
    led.apply(isr=(1,), partition_epoch=3)
    told = [event for event in led.events if isinstance(event, IsrChanged)]
    assert [(each.old_isr, each.new_isr, each.log_end_offset, each.high_watermark) for each in told] == [
        ((1, 2), (1, 2, 3), 3, 3),
        ((1, 2, 3), (1, 2), 4, 3),
        ((1, 2), (1,), 4, 4),
    ]
    assert [each.reason for each in told] == [
        "broker 3 has caught up at offset 3",
        "broker 3 at offset 3 is 31.0 s behind",
        "the controller's decision",
    ]
    assert told[0].text().startswith(f"{TP}: ISR [1,2] to [1,2,3] in epoch 5, LEO 3, HW 3: broker 3 has caught up")
    counters = led.context.counters
    assert (counters.isr_expands, counters.isr_shrinks, counters.failed_isr_updates) == (1, 2, 0)


@pytest.mark.rule("O2")
def test_a_proposal_and_its_refusal_are_told() -> None:
    led = Led(isr=(1, 2))
    led.write(3)
    led.fetch(2)
    led.events.clear()
    led.fetch(3)
    led.proposed()
    led.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert [event.text() for event in led.events] == [
        f"{TP}: proposes ISR [1,2,3] instead of [1,2] in epoch 5, LEO 3, HW 3: broker 3 has caught up at offset 3",
        f"{TP}: ISR [1,2,3] instead of [1,2] in epoch 5 refused with INELIGIBLE_REPLICA: the committed ISR stays",
    ]
    assert led.context.counters.failed_isr_updates == 1


@pytest.mark.rule("O2")
def test_who_the_controller_took_out_by_itself_is_told_with_what_the_metadata_shows() -> None:
    led = Led()
    led.context.brokers = {1: broker(1), 2: broker(2, in_controlled_shutdown=True)}
    led.apply(isr=(1,), partition_epoch=1)
    (told,) = [event for event in led.events if isinstance(event, IsrChanged)]
    assert told.reason == ("the controller's decision; broker 2 is shutting down; broker 3 is no longer registered")


# --- a leader that is none any more (E5, E6)


@pytest.mark.rule("E5")
def test_a_deposed_leaders_proposal_is_dropped_and_its_followers_leave_it() -> None:
    led = pending_expand()
    led.context.changes.on_failure()
    led.partition.apply(registration(leader=2, isr=(2, 3), leader_epoch=6, partition_epoch=1), led.now_s)
    assert led.request() is None
    assert led.partition.acknowledged(LeaderEpoch(5), 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    led.partition.check_isr(led.now_s)
    assert (led.request(), len(led.context.changes)) == (None, 0)


@pytest.mark.rule("E5")
def test_a_leader_that_has_not_heard_of_its_end_commits_nothing_alone() -> None:
    """Cut off: its followers follow another one, its proposals are refused. It may write; nothing is acknowledged."""
    led = Led(replace(TopicConfig(), min_insync_replicas=2))
    led.write(2)
    led.fetch(2)
    led.fetch(3)
    led.now_s += LAG_S + 1
    end = led.write(3, acks=-1)
    led.partition.check_isr(led.now_s)
    assert set(members(led.proposed())) == {1}
    led.answer(ErrorCode.FENCED_LEADER_EPOCH)
    led.now_s += 100 * LAG_S
    led.partition.check_isr(led.now_s)
    assert (led.high_watermark, led.maximal_isr, led.request()) == (2, {1, 2, 3}, None)
    assert led.partition.acknowledged(led.partition.leader_epoch, end) is None
    led.partition.apply(registration(leader=2, isr=(2, 3), leader_epoch=6, partition_epoch=1), led.now_s)
    assert led.partition.acknowledged(LeaderEpoch(5), end) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.rule("E6")
@pytest.mark.parametrize("epoch", [4, 5])
def test_an_epoch_that_has_begun_here_before_is_not_led_again(epoch: int) -> None:
    led = Led()
    led.write(2)
    # A new process on the same log: what the old one had in memory and lost nobody knows.
    again = Partition(TP, TOPIC_ID, BrokerId(1), led.log)
    assert again.apply(registration(leader_epoch=epoch, partition_epoch=9), led.now_s).leadership
    with pytest.raises(ApiError) as error:
        again.require_leader()
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
