"""Which of several nodes is believed when they tell different things of a partition."""

from tidelog.client.topics import PartitionDescription
from tidelog.testing.witnesses import newest


def described(*, leader: int, epoch: int, isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        replicas=(1, 2, 3),
        isr=isr,
        elr=(),
        last_known_elr=(),
        offline=(),
    )


def test_a_later_epoch_is_believed_whoever_tells_of_it() -> None:
    before, after = described(leader=1, epoch=0, isr=(1, 2, 3)), described(leader=2, epoch=1, isr=(2, 3))
    assert newest({1: before, 2: before, 3: after}) is after


def test_within_an_epoch_the_leader_is_believed() -> None:
    """A follower that is cut off from the controller goes on telling of an ISR that it has left long ago."""
    before, after = described(leader=2, epoch=0, isr=(1, 2, 3)), described(leader=2, epoch=0, isr=(2, 3))
    assert newest({1: before, 2: after, 3: after}) is after
