"""Fencing a broker whose process is gone without waiting for its session to end (rule C2, beyond Kafka).

lost connection   the last one that carried heartbeats of its epoch ended, not by us: suspected, dialled after a grace
taking over       a new active controller suspects every unfenced broker and dials those it has not heard from by then
a heartbeat       ends the suspicion
refused           nobody listens there any more: to be fenced
reached           after a lost connection it is dialled again a few times: its process may be on its way out
silent            it may live: the session timeout decides

If half of the brokers drop together the trouble may be ours: then the session timeout decides for all of them. Soft
state, times in monotonic seconds; the shell dials, and asks for one broker to fence at a time.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

# Long enough for a broker that merely lost its connection to open another, and to notice who else drops. A client asks
# for the new leader a tenth of a second after its connection broke, and should hear of it then.
GRACE_S: Final = 0.02
# A listener that still accepts may be one of a process that is dying: it is asked again after these waits.
REDIAL_S: Final = (0.05, 0.1, 0.2, 0.4)
# Brokers that drop within this time drop together.
TOGETHER_S: Final = 1.0


class BrokerProcess(NamedTuple):
    """One incarnation of a broker."""

    broker_id: int
    epoch: int


class DialOutcome(Enum):
    """What came of connecting to a broker's listener."""

    REFUSED = "refused"
    REACHED = "reached"
    SILENT = "silent"


@dataclass(slots=True)
class _Suspicion:
    """`due_s`: when it is dialled, and once it has refused, when that counts."""

    epoch: int
    due_s: float
    dropped: bool
    dialled: bool = False
    refused: bool = False
    reached: int = 0


class FastFence:
    """Invariant: only brokers that were not heard of since they came under suspicion are suspected."""

    def __init__(self, *, grace_s: float = GRACE_S, together_s: float = TOGETHER_S) -> None:
        self._grace_s = grace_s
        self._together_s = together_s
        self._connections: dict[Hashable, BrokerProcess] = {}
        self._suspected: dict[int, _Suspicion] = {}
        self._fenced_at: dict[int, float] = {}

    # --- what happens ---

    def heard(self, connection: Hashable, process: BrokerProcess) -> None:
        """A heartbeat that was not refused came over `connection`."""
        self._connections[connection] = process
        self.alive(process.broker_id)

    def alive(self, broker_id: int) -> None:
        self._suspected.pop(broker_id, None)

    def connection_lost(self, connection: Hashable, now_s: float) -> None:
        """By EOF or reset."""
        process = self._connections.pop(connection, None)
        if process is None or process in self._connections.values():
            return
        known = self._suspected.get(process.broker_id)
        if known is None or known.epoch < process.epoch:
            self._suspected[process.broker_id] = _Suspicion(process.epoch, now_s + self._grace_s, dropped=True)

    def connection_closed(self, connection: Hashable) -> None:
        """By us: that says nothing of the broker."""
        self._connections.pop(connection, None)

    def is_connected(self, process: BrokerProcess) -> bool:
        """Whether a connection that carried its heartbeats still stands."""
        return process in self._connections.values()

    def took_over(self, processes: Iterable[BrokerProcess], now_s: float) -> None:
        """These are unfenced, and this controller has not heard of them."""
        for broker_id, epoch in processes:
            self._suspected[broker_id] = _Suspicion(epoch, now_s + self._grace_s, dropped=False)

    def forget(self, broker_id: int) -> None:
        """It is fenced, unregistered or registered anew."""
        self.alive(broker_id)

    def clear(self) -> None:
        self._suspected.clear()
        self._fenced_at.clear()

    # --- dialling ---

    def next_due_s(self) -> float | None:
        """When to ask `dials` and `to_fence` again."""
        waiting = [each.due_s for each in self._suspected.values() if each.refused or not each.dialled]
        return min(waiting, default=None)

    def dials(self, now_s: float) -> list[BrokerProcess]:
        """Who is to be connected to now; each once, and each must be answered by `dialled`."""
        due = []
        for broker_id, suspicion in sorted(self._suspected.items()):
            if not suspicion.dialled and now_s >= suspicion.due_s:
                suspicion.dialled = True
                due.append(BrokerProcess(broker_id, suspicion.epoch))
        return due

    def dialled(self, process: BrokerProcess, outcome: DialOutcome, now_s: float) -> None:
        suspicion = self._suspected.get(process.broker_id)
        if suspicion is None or suspicion.epoch != process.epoch or not suspicion.dialled:
            return
        if outcome is DialOutcome.REACHED and suspicion.dropped and suspicion.reached < len(REDIAL_S):
            suspicion.due_s = now_s + REDIAL_S[suspicion.reached]
            suspicion.reached += 1
            suspicion.dialled = False
            return
        if outcome is not DialOutcome.REFUSED:
            self.alive(process.broker_id)
            return
        suspicion.refused = True
        # Without a broken connection the refusal is the first sign: others may be about to refuse as well.
        suspicion.due_s = now_s if suspicion.dropped else now_s + self._grace_s

    # --- deciding ---

    def to_fence(self, unfenced: Mapping[int, int], now_s: float) -> int | None:
        """One broker that is gone, if any. `unfenced` maps the brokers that count as alive to their epochs."""
        for broker_id, suspicion in list(self._suspected.items()):
            if unfenced.get(broker_id) != suspicion.epoch:
                self.forget(broker_id)
        self._fenced_at = {each: at for each, at in self._fenced_at.items() if now_s < at + self._together_s}
        gone = [
            broker_id
            for broker_id, suspicion in sorted(self._suspected.items())
            if suspicion.refused and now_s >= suspicion.due_s
        ]
        if not gone:
            return None
        dropped = [each for each, suspicion in self._suspected.items() if suspicion.dropped or suspicion.refused]
        recently = self._fenced_at.keys() - unfenced.keys()
        if 2 * (len(dropped) + len(recently)) >= len(unfenced) + len(recently):
            for broker_id in dropped:
                self.alive(broker_id)
            return None
        self._fenced_at[gone[0]] = now_s
        self.alive(gone[0])
        return gone[0]
