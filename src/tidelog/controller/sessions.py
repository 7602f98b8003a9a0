"""Which brokers the controller has heard from lately. Soft state: a new active controller starts it afresh (C2)."""


class BrokerSessions:
    """Times are monotonic seconds. Only brokers that are unfenced, or on their way there, have a session."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._last_contact: dict[int, float] = {}
        # Those of whose process nothing is known: a session runs, but nobody holds it.
        self._unheard: set[int] = set()
        # How far each has said to have applied the metadata log.
        self._metadata_offsets: dict[int, int] = {}
        # What everybody must have applied before a broker that shuts down may stop.
        self._shutdown_offsets: dict[int, int] = {}

    def touch(self, broker_id: int, now_s: float, metadata_offset: int = -1) -> None:
        self._last_contact[broker_id] = now_s
        self._unheard.discard(broker_id)
        self.applied(broker_id, metadata_offset)

    def expect(self, broker_id: int, now_s: float) -> None:
        """It has a full session in which to be heard of, and another process of it may register meanwhile."""
        self._last_contact[broker_id] = now_s
        self._unheard.add(broker_id)

    def applied(self, broker_id: int, metadata_offset: int) -> None:
        """The broker has applied the metadata log up to there."""
        self._metadata_offsets[broker_id] = max(metadata_offset, self._metadata_offsets.get(broker_id, -1))

    def forget(self, broker_id: int) -> None:
        self._last_contact.pop(broker_id, None)
        self._unheard.discard(broker_id)
        self._metadata_offsets.pop(broker_id, None)
        self._shutdown_offsets.pop(broker_id, None)

    def clear(self) -> None:
        self._last_contact.clear()
        self._unheard.clear()
        self._metadata_offsets.clear()
        self._shutdown_offsets.clear()

    def is_valid(self, broker_id: int, now_s: float) -> bool:
        last = self._last_contact.get(broker_id)
        return last is not None and broker_id not in self._unheard and now_s < last + self._timeout_s

    def next_expiry_s(self) -> float | None:
        """When the longest silent broker runs out of time."""
        return min(self._last_contact.values()) + self._timeout_s if self._last_contact else None

    def expired(self, now_s: float) -> list[int]:
        """Longest silent first."""
        by_age = sorted(self._last_contact.items(), key=lambda entry: (entry[1], entry[0]))
        return [broker_id for broker_id, last in by_age if now_s >= last + self._timeout_s]

    # --- controlled shutdown (C9) ---

    def shuts_down(self, broker_id: int, offset: int) -> None:
        """Its leaderships moved by the records up to `offset`."""
        self._shutdown_offsets[broker_id] = offset

    def is_shutting_down(self, broker_id: int) -> bool:
        return broker_id in self._shutdown_offsets

    def may_stop(self, broker_id: int) -> bool:
        """Whether everybody who stays knows of the move: until then clients may be sent to the one that goes."""
        needed = self._shutdown_offsets[broker_id]
        staying = self._last_contact.keys() - self._shutdown_offsets.keys()
        return all(self._metadata_offsets.get(each, -1) >= needed for each in staying)
