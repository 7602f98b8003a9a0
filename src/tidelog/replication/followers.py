"""What a leader knows of one follower, all of it from the follower's own fetches (F2, I1)."""

from dataclasses import dataclass
from typing import Final

from tidelog.core.ids import NO_OFFSET, BrokerId

NEVER: Final = float("-inf")
UNKNOWN_BROKER_EPOCH: Final = -1


@dataclass(slots=True, kw_only=True)
class FollowerState:
    """One follower in one leader epoch. Offsets are -1 until it has fetched in this epoch.

    Invariant: `last_caught_up_s` only grows while `broker_epoch` stays the same.
    """

    log_end_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    last_fetch_s: float = NEVER
    # Where the leader's log ended at that fetch.
    last_fetch_leader_end: int = NO_OFFSET
    last_caught_up_s: float = NEVER
    # Of the process that fetches; another one's fetches say nothing about what this one has.
    broker_epoch: int = UNKNOWN_BROKER_EPOCH

    def on_fetch(
        self, fetch_offset: int, log_start_offset: int, leader_end: int, broker_epoch: int, now_s: float
    ) -> None:
        """Lag is time (I1): it had everything now, or at its previous fetch, or the instant stays what it was."""
        if broker_epoch != self.broker_epoch and self.broker_epoch != UNKNOWN_BROKER_EPOCH:
            # A new incarnation: what the old one had may be lost, and its instant is not the new one's.
            self.last_fetch_s = self.last_caught_up_s = NEVER
            self.last_fetch_leader_end = NO_OFFSET
        if fetch_offset >= leader_end:
            self.last_caught_up_s = max(self.last_caught_up_s, now_s)
        elif fetch_offset >= self.last_fetch_leader_end:
            self.last_caught_up_s = max(self.last_caught_up_s, self.last_fetch_s)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_s = now_s
        self.last_fetch_leader_end = max(self.last_fetch_leader_end, leader_end)
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end: int, now_s: float, lag_s: float) -> bool:
        return self.log_end_offset == leader_end or now_s - self.last_caught_up_s <= lag_s


def followers_of_new_epoch(
    replicas: tuple[BrokerId, ...], isr: frozenset[BrokerId], local_id: BrokerId, now_s: float
) -> dict[BrokerId, FollowerState]:
    """Who leads a new epoch knows nothing of its followers: those in the ISR count as caught up now, others never.

    Also when this broker led before: another leader may have cut their logs in between, unseen from here.
    """
    return {
        replica: FollowerState(last_caught_up_s=now_s if replica in isr else NEVER)
        for replica in replicas
        if replica != local_id
    }
