"""What the driver asks the brokers: which partitions there are, where they begin and end, where epochs end.

Spark calls from ordinary threads, so this is the client on a loop of its own, one call at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from tidelog.client.client import Client
from tidelog.client.errors import RETRIABLE_OF_KNOWN_TOPIC, raise_for
from tidelog.client.metadata import ClusterMetadata
from tidelog.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from tidelog.core.ids import TopicPartition
from tidelog.spark.agreement import AGREED_WITHIN_S, agreed
from tidelog.spark.offsets import NO_EPOCH, is_another
from tidelog.spark.options import SourceOptions
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.metadata import MetadataResponseTopic
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

R = TypeVar("R")
CONSUMER: Final = -1


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The largest epoch not above the one asked for, and where it ends; -1 and -1 if there is none."""

    epoch: int
    end_offset: int


def refuse_stale(metadata: ClusterMetadata, epochs: Mapping[TopicPartition, int]) -> None:
    """ApiError, worth another try, if a leader is older than the epoch of what was read: whoever told us of it is cut
    off, and what it says of its log says nothing about what was lost.
    """
    for tp, epoch in epochs.items():
        known = metadata.partition(tp.topic, tp.partition)
        if known is not None and 0 <= known.leader_epoch < epoch:
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{tp} was read in leader epoch {epoch}, and the brokers know of epoch {known.leader_epoch} only",
            )


async def epoch_ends(client: Client, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
    """Where each epoch ends in the leader's history (OffsetForLeaderEpoch), asked once."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for tp in sorted(epochs):
        by_leader.setdefault(await client.leader_of(tp.topic, tp.partition), []).append(tp)
    refuse_stale(client.metadata, epochs)
    found: dict[TopicPartition, EpochEnd] = {}
    for leader, partitions in by_leader.items():
        topics: dict[str, OffsetForLeaderTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic))
            topic.partitions.append(OffsetForLeaderPartition(partition=tp.partition, leader_epoch=epochs[tp]))
        request = OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=list(topics.values()))
        answer = await (await client.broker(leader)).request(request, OffsetForLeaderEpochResponse)
        for answered in answer.topics:
            for each in answered.partitions:
                tp = TopicPartition(answered.topic, each.partition)
                raise_for(each.error_code, what=f"end of epoch {epochs[tp]} of {tp}")
                found[tp] = EpochEnd(each.leader_epoch, each.end_offset)
    missing = epochs.keys() - found.keys()
    if missing:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no answer about epochs of {sorted(missing)[0]}")
    return found


def _described(topics: Iterable[MetadataResponseTopic]) -> dict[TopicPartition, UUID]:
    found: dict[TopicPartition, UUID] = {}
    for topic in topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        raise_for(topic.error_code, what=f"topic {topic.name!r}")
        for partition in topic.partitions:
            found[TopicPartition(topic.name or "", partition.partition_index)] = topic.topic_id
    return dict(sorted(found.items()))


class Brokers:
    """Invariant: `_loop` runs only inside of a call."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._client = Client(
            options.access.bootstrap,
            settings=options.access.connection,
            retry_timeout_s=options.access.question_timeout_s,
            passing=RETRIABLE_OF_KNOWN_TOPIC,
            asks_around=True,
        )
        # For as long as the option partition.metadata.cache.ttl.ms says; by default not at all.
        self._known: dict[TopicPartition, UUID] | None = None
        self._known_at_s = 0.0

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._client.close())
            self._loop.close()

    def now_s(self) -> float:
        """Monotonic."""
        return self._loop.time()

    def sleep(self, seconds: float) -> None:
        self._run(lambda: asyncio.sleep(seconds))

    def _run(self, work: Callable[[], Awaitable[R]]) -> R:
        async def whole() -> R:
            return await work()

        return self._loop.run_until_complete(whole())

    # --- what there is ---

    def partitions(self) -> dict[TopicPartition, UUID]:
        """Of the subscription, as one broker knows it now, with the ids of their topics. A topic that is not there has
        none.
        """
        now_s = self._loop.time()
        if self._known is None or 1000 * (now_s - self._known_at_s) >= self._options.metadata_ttl_ms:
            self._known, self._known_at_s = self._run(lambda: self._client.retrying(self._partitions)), now_s
        return dict(self._known)

    async def _partitions(self) -> dict[TopicPartition, UUID]:
        subscription = self._options.subscription
        if subscription.pattern is not None:
            answer = await self._client.refresh(None)
            skips_internal = self._options.skips_internal
            # An error of a topic that nobody asked for is nobody's.
            topics = [
                each
                for each in answer.topics
                if each.name is not None
                and subscription.matches(each.name)
                and not (each.is_internal and skips_internal)
            ]
        else:
            assigned = sorted(subscription.assigned or ())
            named = list(subscription.topics or dict.fromkeys(tp.topic for tp in assigned))
            topics = list((await self._client.refresh(named)).topics)
        return {tp: topic_id for tp, topic_id in _described(topics).items() if subscription.takes(tp)}

    def of_topics(self, names: Collection[str]) -> dict[TopicPartition, UUID]:
        """Of topics, subscribed to or not, as one broker knows them now."""

        async def attempt() -> dict[TopicPartition, UUID]:
            return _described((await self._client.refresh(sorted(names))).topics)

        return self._run(lambda: self._client.retrying(attempt)) if names else {}

    def agreed(self, names: Collection[str]) -> dict[TopicPartition, UUID]:
        """Of topics, as the brokers say together. ApiError if they do not come to say the same."""
        self._known = None
        if not names:
            return {}
        return self._run(lambda: self._client.retrying(lambda: agreed(self._client, names), timeout_s=AGREED_WITHIN_S))

    # --- where they begin and end ---

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: found.offset for tp, found in self._list(dict.fromkeys(partitions, EARLIEST)).items()}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, FoundOffset]:
        """Up to where a reader sees: the high watermark, or the last stable offset for committed reads."""
        return self._list(dict.fromkeys(partitions, LATEST))

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset at or after each time; -1 where no record is that late."""
        return {tp: found.offset for tp, found in self._list(timestamps).items()}

    def _list(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        if not asked:
            return {}
        return self._run(lambda: list_offsets(self._client, asked, isolation=self._options.isolation))

    # --- epochs ---

    def require_epochs(self, epochs: Mapping[TopicPartition, int]) -> bool:
        """Waits until the brokers know of leaders at least as new as what was read from them. False if one says
        meanwhile that these are not the partitions any more which `partitions` has told: those are asked for anew then.
        """

        async def attempt() -> bool:
            now = _described((await self._client.refresh(sorted({tp.topic for tp in epochs}))).topics)
            known = self._known or {}
            if any(tp in known and (tp not in now or is_another(known[tp], now[tp])) for tp in epochs):
                self._known = None
                return False
            refuse_stale(self._client.metadata, epochs)
            return True

        return self._run(lambda: self._client.retrying(attempt)) if epochs else True

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        if not epochs:
            return {}
        return self._run(lambda: self._client.retrying(lambda: epoch_ends(self._client, epochs)))

    def epochs_before(
        self, offsets: Mapping[TopicPartition, int], newest: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The epoch of the batch that holds the offset before each of these, walking down from the `newest` one.

        The epoch before the newest ends where that begins: if that is not above the offset, the newest it is.
        """
        epochs = {tp: newest[tp] if offset > 0 else NO_EPOCH for tp, offset in offsets.items()}
        unsure = {tp: epoch for tp, epoch in epochs.items() if epoch > 0}
        begins: dict[TopicPartition, int] | None = None
        while unsure:
            before = self.epoch_ends({tp: epoch - 1 for tp, epoch in unsure.items()})
            # Undefined: the leader knows of nothing older.
            unsure = {
                tp: end.epoch for tp, end in before.items() if end.epoch >= 0 and end.end_offset > offsets[tp] - 1
            }
            if unsure and begins is None:
                # Before the first record that is left there is none whose epoch could be told.
                begins = self.earliest(unsure)
                gone = {tp: NO_EPOCH for tp in unsure if offsets[tp] <= begins[tp]}
                epochs |= gone
                unsure = {tp: epoch for tp, epoch in unsure.items() if tp not in gone}
            epochs |= unsure
            unsure = {tp: epoch for tp, epoch in unsure.items() if epoch > 0}
        return epochs
