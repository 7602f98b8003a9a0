"""Incremental fetch sessions (KIP-227): a reader names its partitions once and then only what changed.

Bounded in number (`max.incremental.fetch.session.cache.slots`). When full, the session that was used longest ago makes
room if it has been idle for a while, and a consumer's does for a follower's; else the newcomer gets no session and has
to name everything each time.

A follower's session holds thousands of partitions of which few move. Those with nothing to tell are *settled*: they are
not looked at again until something happens to them (`stir`), until they are asked for anew, or for `walk_interval_s`.
So whoever forgets to stir a partition delays an answer by that long, and does no more harm.
"""

import random
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.core.ids import TopicIdPartition
from tidelog.replication.fetch_session import walk_interval_s
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

INVALID_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICT_AFTER_S: Final = 120.0
MAX_EPOCH: Final = 2**31 - 1

# The topic's id as a number (a UUID is slow to hash), or its name where the reader gave no id; and the partition.
SessionKey = tuple[int | str, int]
# A topic's name by its id; empty when it is not known.
NameOf = Callable[[UUID], str]


@dataclass(slots=True)
class WantedPartition:
    """One partition of a session: what the reader asked, and what it was last told."""

    topic: str
    topic_id: UUID
    ask: FetchPartition
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    key: SessionKey = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.key = _session_key(self.topic_id, self.topic, self.ask.partition)

    def news(self, answer: PartitionData) -> bool:
        """Whether an incremental response has to carry this answer; remembers what it told."""
        changed = (
            answer.error_code != ErrorCode.NONE
            or bool(answer.records)
            or answer.diverging_epoch.epoch >= 0
            or answer.preferred_read_replica >= 0
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.last_stable_offset != self.last_stable_offset
        )
        if answer.error_code != ErrorCode.NONE or answer.diverging_epoch.epoch >= 0:
            # The reader takes no offsets of such an answer.
            self.tell_again()
        else:
            self.high_watermark = answer.high_watermark
            self.last_stable_offset = answer.last_stable_offset
            self.log_start_offset = answer.log_start_offset
        return changed

    def tell_again(self) -> None:
        """The next answer has news, whatever the offsets are."""
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1


class SessionFetch(NamedTuple):
    """Under what a follower's fetch with a session waits: one key for all its partitions."""

    session_id: int


@dataclass(slots=True)
class FetchSession:
    """Invariants: `epoch` is the one the next request must carry; `unsettled` is a part of `wanted`."""

    session_id: int
    epoch: int
    used_at: float
    uses_topic_ids: bool
    of_replica: bool = False
    # both in the order in which they are served
    wanted: "OrderedDict[SessionKey, WantedPartition]" = field(default_factory=OrderedDict)
    unsettled: "OrderedDict[SessionKey, WantedPartition]" = field(default_factory=OrderedDict)
    looked_at_all_s: float = 0.0

    def move_back(self, item: WantedPartition) -> None:
        """It got bytes: next time the others come first, or those behind the response's limit would never come."""
        key = item.key
        if key in self.wanted:
            self.wanted.move_to_end(key)
        if key in self.unsettled:
            self.unsettled.move_to_end(key)

    def settle(self, item: WantedPartition, *, settled: bool) -> None:
        """What a look has found: nothing to tell until it is stirred, or something."""
        key = item.key
        if settled:
            self.unsettled.pop(key, None)
        elif key in self.wanted:
            self.unsettled[key] = item

    def to_look_at(self, now: float, lag_s: float) -> list[WantedPartition]:
        """By a new request: everything that may have something to tell."""
        if self.of_replica and now - self.looked_at_all_s < walk_interval_s(len(self.wanted), lag_s):
            return list(self.unsettled.values())
        self.looked_at_all_s = now
        return list(self.wanted.values())


class FetchSessions:
    """The sessions of all connections."""

    def __init__(self, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._rng = rng
        # oldest use first
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._of_replicas: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, request: FetchRequest, name_of: NameOf, uses_topic_ids: bool, now: float, lag_s: float = float("inf")
    ) -> tuple[FetchSession | None, list[WantedPartition]]:
        """The session of a request (None: sessionless) and the partitions to read. ApiError if it has none."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != INVALID_SESSION:
                self.close(request.session_id)
            wanted = list(_wanted(request, name_of))
            if request.session_epoch == FINAL_EPOCH or not wanted:
                return None, wanted
            return self._open(wanted, uses_topic_ids, replica_of(request) >= 0, now), wanted
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {request.session_id}")
        if session.epoch != request.session_epoch:
            raise ApiError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session.session_id} is at epoch {session.epoch}, not {request.session_epoch}",
            )
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                "the session identifies topics by id and the request by name, or the other way round",
            )
        self._update(session, request, name_of)
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.used_at = now
        self._sessions.move_to_end(session.session_id)
        return session, session.to_look_at(now, lag_s)

    def stir(self, partitions: Iterable[TopicIdPartition]) -> list[Hashable]:
        """Something happened to these: the keys under which fetches may wait for one of them."""
        stirred: list[Hashable] = []
        if not self._of_replicas:
            return stirred
        keys = [(partition.topic_id.int, partition.partition) for partition in partitions]
        for session in self._of_replicas.values():
            wanted, unsettled = session.wanted, session.unsettled
            concerned = False
            for key in keys:
                item = wanted.get(key)
                if item is not None:
                    concerned = True
                    unsettled.setdefault(key, item)
            if concerned:
                stirred.append(SessionFetch(session.session_id))
        return stirred

    def _open(
        self, wanted: list[WantedPartition], uses_topic_ids: bool, of_replica: bool, now: float
    ) -> FetchSession | None:
        if self._slots <= 0:
            return None
        if of_replica:
            self._close_idle_replicas(now)
        if len(self._sessions) >= self._slots:
            leaves = self._least_needed(of_replica, now)
            if leaves is None:
                return None
            self.close(leaves.session_id)
        session_id = self._rng.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._rng.randrange(1, 2**31)
        session = FetchSession(session_id, 1, now, uses_topic_ids, of_replica, looked_at_all_s=now)
        for item in wanted:
            session.wanted[item.key] = item
        session.unsettled.update(session.wanted)
        self._sessions[session_id] = session
        if of_replica:
            self._of_replicas[session_id] = session
        return session

    def _least_needed(self, for_replica: bool, now: float) -> FetchSession | None:
        """Who makes room: whoever is idle, and for a follower the consumer that fetched longest ago (KIP-227)."""
        oldest = next(iter(self._sessions.values()))
        if now - oldest.used_at >= EVICT_AFTER_S:
            return oldest
        if not for_replica:
            return None
        return next((session for session in self._sessions.values() if not session.of_replica), None)

    def _close_idle_replicas(self, now: float) -> None:
        """A follower that is started again begins anew, and every append looks into every session of a follower."""
        for session in list(self._of_replicas.values()):
            if now - session.used_at >= EVICT_AFTER_S:
                self.close(session.session_id)

    def _update(self, session: FetchSession, request: FetchRequest, name_of: NameOf) -> None:
        for item in _wanted(request, name_of):
            key = item.key
            known = session.wanted.setdefault(key, item)
            if known.ask.current_leader_epoch != item.ask.current_leader_epoch:
                # Another leader may have cut both logs in between.
                known.tell_again()
            known.ask = item.ask
            session.unsettled.setdefault(key, known)
        for known in session.unsettled.values():
            if not known.topic:
                # Asked for by an id that meant nothing yet: the topic may have become known here meanwhile.
                known.topic = name_of(known.topic_id)
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                key = _session_key(forgotten.topic_id, forgotten.topic, number)
                session.wanted.pop(key, None)
                session.unsettled.pop(key, None)

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)
        self._of_replicas.pop(session_id, None)


def replica_of(request: FetchRequest) -> int:
    """The follower that fetches, -1 for a consumer: from v15 on the replica stands with its broker epoch."""
    return request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id


def _wanted(request: FetchRequest, name_of: NameOf) -> list[WantedPartition]:
    found: list[WantedPartition] = []
    for topic in request.topics:
        name = topic.topic or name_of(topic.topic_id)
        found.extend(WantedPartition(name, topic.topic_id, ask) for ask in topic.partitions)
    return found


def _session_key(topic_id: UUID, topic: str, partition: int) -> SessionKey:
    # By id where the reader named one: the name behind an id may become known only later.
    return (topic_id.int or topic, partition)
