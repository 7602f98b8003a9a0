"""The reader's side of an incremental fetch session (KIP-227): what the leader knows, and so need not be told again.

A session begins with epoch 0 and every partition. From then on a request carries the next epoch, what changed, and what
is no longer wanted. Whatever goes wrong, the next request begins a new session and names everything.
"""

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from tidelog.core.ids import TopicIdPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1
# Shorter than a leader holds a fetch by default: with little to do, every request is about everything.
SHORTEST_WALK_S: Final = 0.4
# A walk takes some 10 µs for each partition, on both sides: about a hundredth of the time goes into walks.
WALK_A_PARTITION_S: Final = 0.001
LONGEST_WALK_S: Final = 5.0
# A follower's fetches tell when it was caught up (I1): often enough that it is not taken for late when a record comes.
WALKS_IN_LAG_TIME: Final = 4


def walk_interval_s(partitions: int, lag_s: float = float("inf")) -> float:
    """How often both sides of a follower's session go through all of it, and not only what they know to have moved.

    `lag_s` is `replica.lag.time.max.ms`, by which a leader goes.
    """
    longest_s = min(LONGEST_WALK_S, lag_s / WALKS_IN_LAG_TIME)
    return min(max(SHORTEST_WALK_S, WALK_A_PARTITION_S * partitions), longest_s)


class IncrementalFetches:
    """Invariant: `_asked` is what the leader holds once the request under way has reached it."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._asked: dict[TopicIdPartition, FetchPartition] = {}

    @property
    def is_incremental(self) -> bool:
        return self._epoch != INITIAL_EPOCH

    def asked(self, key: TopicIdPartition) -> FetchPartition | None:
        """What the request under way asks of a partition, if it is one of the session's."""
        return self._asked.get(key)

    def is_empty_after(
        self, wanted: Mapping[TopicIdPartition, FetchPartition], gone: Collection[TopicIdPartition]
    ) -> bool:
        """Whether a request that is filled with these would leave nothing to fetch."""
        return not wanted and (not self.is_incremental or self._asked.keys() <= set(gone))

    def fill(
        self,
        request: FetchRequest,
        wanted: Mapping[TopicIdPartition, FetchPartition],
        gone: Collection[TopicIdPartition] = (),
    ) -> None:
        """Names in the request what the leader does not know yet: of what is `wanted` that which changed, and what is
        `gone`. Of partitions in neither it knows enough. A full request names what is wanted, in its order, all of it.
        """
        request.session_id, request.session_epoch = self._session_id, self._epoch
        if not self.is_incremental:
            self._asked.clear()
        topics: dict[UUID, FetchTopic] = {}
        for key, ask in wanted.items():
            if self._asked.get(key) != ask:
                topics.setdefault(key.topic_id, FetchTopic(topic_id=key.topic_id)).partitions.append(ask)
                self._asked[key] = ask
        request.topics = list(topics.values())
        forgotten: dict[UUID, ForgottenTopic] = {}
        for key in gone:
            if self._asked.pop(key, None) is not None:
                forgotten.setdefault(key.topic_id, ForgottenTopic(topic_id=key.topic_id)).partitions.append(
                    key.partition
                )
        for topic in forgotten.values():
            topic.partitions.sort()
        request.forgotten_topics_data = sorted(forgotten.values(), key=lambda topic: topic.topic_id)

    def accept(self, response: FetchResponse) -> str | None:
        """Goes on with the session, or not: then what is wrong with the response, and nothing of it may be used."""
        error = response.error_code
        if error != ErrorCode.NONE:
            if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self.restart()
            return f"the fetch was refused with {error_name(error)}"
        answered = {
            TopicIdPartition(topic.topic_id, data.partition_index)
            for topic in response.responses
            for data in topic.partitions
        }
        if not answered <= self._asked.keys() or (not self.is_incremental and answered != self._asked.keys()):
            self.restart()
            return "the fetch was answered with other partitions than it asked for"
        if response.session_id == NO_SESSION:
            # The leader has no room for a session (any more): everything is named each time.
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return None

    def restart(self) -> None:
        """The next request is a full one; naming the old session closes that."""
        self._epoch = INITIAL_EPOCH


def error_name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error {code}"
