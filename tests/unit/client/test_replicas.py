"""The views of several brokers put together: who is believed, and what is not known."""

from tidelog.client.addresses import Address
from tidelog.client.replicas import BrokerAnswer, IsrMembership, ReplicaStatus, put_together
from tidelog.wire.messages.describe_log_dirs import FollowerProgress, ReplicaRole, ReplicaState
from tidelog.wire.messages.metadata import MetadataResponsePartition

BROKERS = {broker: Address("h", 9000 + broker) for broker in (1, 2, 3)}


def answer(
    state: ReplicaState | None, *, leader: int = 1, epoch: int = 5, isr: tuple[int, ...] = (1, 2, 3), offline: int = 0
) -> BrokerAnswer:
    partition = MetadataResponsePartition(
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2, 3],
        isr_nodes=list(isr),
        offline_replicas=[offline] if offline else [],
    )
    return BrokerAnswer(brokers=BROKERS, partitions={0: partition}, states={} if state is None else {0: state})


def leads(*, epoch: int = 5, end: int = 10, isr: tuple[int, ...] = (1, 2, 3), me: int = 1) -> ReplicaState:
    return ReplicaState(
        role=ReplicaRole.LEADER,
        leader_id=me,
        leader_epoch=epoch,
        log_start_offset=0,
        high_watermark=8,
        log_end_offset=end,
        isr=list(isr),
        maximal_isr=list(isr),
        followers=[
            FollowerProgress(broker_id=each, log_end_offset=8, last_fetch_age_ms=5, last_caught_up_age_ms=40)
            for each in (1, 2, 3)
            if each != me
        ],
    )


def follows(*, leader: int = 1, epoch: int = 5, end: int = 10) -> ReplicaState:
    return ReplicaState(
        role=ReplicaRole.FOLLOWER,
        leader_id=leader,
        leader_epoch=epoch,
        log_start_offset=0,
        high_watermark=7,
        log_end_offset=end,
    )


def test_each_replica_in_its_own_words_and_in_its_leaders() -> None:
    (view,) = put_together("t", {1: answer(leads()), 2: answer(follows()), 3: answer(follows(end=6))})
    assert (view.leader, view.leader_epoch, view.isr, view.maximal_isr) == (1, 5, (1, 2, 3), (1, 2, 3))
    one, two, three = view.replicas
    assert (one.status, one.lag, one.last_caught_up_ms) == (ReplicaStatus.LEADER, 0, None)
    # By now it has more than the leader knows of.
    assert (two.log_end_offset, two.fetched_to, two.lag, two.high_watermark) == (10, 8, 0, 7)
    assert (three.lag, three.last_caught_up_ms, three.last_fetch_ms) == (4, 40, 5)


def test_a_follower_that_is_ahead_of_what_its_leader_said_lags_by_nothing() -> None:
    (view,) = put_together("t", {1: answer(leads(end=10)), 2: answer(follows(end=12))})
    assert view.replicas[1].lag == 0


def test_who_does_not_answer_is_told_of_by_the_leader_alone() -> None:
    (view,) = put_together("t", {1: answer(leads(), offline=3)})
    _, two, three = view.replicas
    assert (two.status, three.status) == (ReplicaStatus.SILENT, ReplicaStatus.OFFLINE)
    assert (two.log_end_offset, two.high_watermark, two.fetched_to, two.lag) == (None, None, 8, 2)


def test_a_change_that_is_pending_is_neither_in_nor_out() -> None:
    joining = leads(isr=(1, 2))
    joining.maximal_isr, joining.proposed_isr = [1, 2, 3], [1, 2, 3]
    (view,) = put_together("t", {1: answer(joining, isr=(1, 2))})
    assert [each.membership.value for each in view.replicas] == ["yes", "yes", "joining"]
    assert [each.in_isr for each in view.replicas] == [True, True, False]
    assert view.maximal_isr == (1, 2, 3)
    leaving = leads()
    leaving.proposed_isr = [1, 2]
    (view,) = put_together("t", {1: answer(leaving)})
    assert [each.membership.value for each in view.replicas] == ["yes", "yes", "leaving"]
    assert view.replicas[2].in_isr


def test_a_leader_that_was_cut_off_is_not_believed() -> None:
    cut_off = answer(leads(epoch=5, end=20), epoch=5)
    successor = answer(leads(epoch=6, end=10, isr=(2, 3), me=2), leader=2, epoch=6, isr=(2, 3))
    (view,) = put_together("t", {1: cut_off, 2: successor})
    assert (view.leader, view.leader_epoch, view.isr) == (2, 6, (2, 3))
    one, two, _ = view.replicas
    assert (one.status, one.leader_epoch, one.membership) == (ReplicaStatus.DEPOSED, 5, IsrMembership.OUT)
    assert two.status is ReplicaStatus.LEADER


def test_within_an_epoch_a_follower_that_was_cut_off_is_not_believed() -> None:
    """An ISR that shrinks does not end the epoch: only the leader's word tells the two apart."""
    cut_off, leader = answer(None, leader=2), answer(None, leader=2, isr=(2, 3), offline=1)
    (view,) = put_together("t", {1: cut_off, 2: leader, 3: cut_off})
    assert view.isr == (2, 3)
    assert [each.in_isr for each in view.replicas] == [False, True, True]


def test_while_nobody_leads_there_is_no_lag() -> None:
    (view,) = put_together("t", {2: answer(follows(leader=-1, epoch=6), leader=-1, epoch=6, isr=(), offline=1)})
    one, two, _ = view.replicas
    assert (view.leader, view.isr) == (-1, ())
    assert (one.status, two.status, two.lag, two.last_caught_up_ms) == (
        ReplicaStatus.OFFLINE,
        ReplicaStatus.FOLLOWER,
        None,
        None,
    )


def test_brokers_that_do_not_know_the_tag_tell_what_the_metadata_has() -> None:
    (view,) = put_together("t", {1: answer(None), 2: answer(None)})
    assert [each.status.value for each in view.replicas] == ["leader", "follower", "silent"]
    assert all(each.log_end_offset is None and each.in_isr for each in view.replicas)
