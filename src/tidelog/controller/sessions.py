"""Which brokers the controller has heard from lately. Soft state: a new active controller starts it afresh (C2)."""


class BrokerSessions:
    """Times are monotonic seconds. Only brokers that are unfenced, or on their way there, have a session."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._last_contact: dict[int, float] = {}

    def touch(self, broker_id: int, now_s: float) -> None:
        self._last_contact[broker_id] = now_s

    def forget(self, broker_id: int) -> None:
        self._last_contact.pop(broker_id, None)

    def clear(self) -> None:
        self._last_contact.clear()

    def is_valid(self, broker_id: int, now_s: float) -> bool:
        last = self._last_contact.get(broker_id)
        return last is not None and now_s < last + self._timeout_s

    def next_expiry_s(self) -> float | None:
        """When the longest silent broker runs out of time."""
        return min(self._last_contact.values()) + self._timeout_s if self._last_contact else None

    def expired(self, now_s: float) -> list[int]:
        """Longest silent first."""
        by_age = sorted(self._last_contact.items(), key=lambda entry: (entry[1], entry[0]))
        return [broker_id for broker_id, last in by_age if now_s >= last + self._timeout_s]
