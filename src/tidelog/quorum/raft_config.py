"""How patient a member of the quorum is: Kafka's `controller.quorum.*` keys, and the waits of fast elections."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """Times in milliseconds; the ones without a key of Kafka's are Kafka's constants, or Q5's."""

    fetch_timeout_ms: int = 2000
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    # How long the leader may keep a fetch that finds nothing new.
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    # A follower whose leader refuses connections, and a voter that starts, ask for pre-votes within these (Q5).
    refused_wait_ms: int = 100
    start_wait_ms: int = 150
    # Observers that are silent for so long are forgotten, and no more than so many are kept.
    observer_timeout_ms: int = 300_000
    max_observers: int = 1000
    # The listener under which the members of the quorum reach each other; empty when the world is smaller than that.
    listener_name: str = ""

    @property
    def check_quorum_timeout_s(self) -> float:
        """Half as long again as followers wait: who is cut off learns of it a little after the others (Q3)."""
        return 1.5 * self.fetch_timeout_ms / 1000

    @property
    def fetch_timeout_s(self) -> float:
        return self.fetch_timeout_ms / 1000
