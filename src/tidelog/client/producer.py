"""Sends batches: idempotent, one at a time per partition, tried again until acknowledged or too late."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.client.client import Client
from tidelog.client.connection import DEFAULT_REQUEST_TIMEOUT_S
from tidelog.client.errors import ConnectionFailed, raise_for
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    increment_sequence,
    read_header,
    stamp_producer,
)
from tidelog.wire.records.plain import Record, encode_batch

ACKS_ALL: Final = -1
ACKS_LEADER: Final = 1
ACKS_NONE: Final = 0
UNKNOWN_OFFSET: Final = -1

DEFAULT_DELIVERY_TIMEOUT_S: Final = 120.0
# For the answer to arrive, beyond what the broker may take.
_MARGIN_S: Final = 5.0
_NO_IDS: Final = "the broker has none, and the active controller does not answer"
# From this version a topic is named by its id, which an old broker does not tell.
_FIRST_VERSION_WITH_TOPIC_ID: Final = 13


@dataclass(slots=True)
class _Identity:
    """One producer id and how far each partition has counted under it."""

    producer_id: int = -1
    epoch: int = NO_PRODUCER_EPOCH
    next_sequence: dict[TopicPartition, int] = field(default_factory=dict)


class Producer:
    """With acks=all every batch is written exactly once, in order per partition, however often it had to be sent."""

    def __init__(
        self,
        client: Client,
        *,
        acks: int = ACKS_ALL,
        codec: Codec = Codec.NONE,
        idempotent: bool | None = None,
        delivery_timeout_s: float = DEFAULT_DELIVERY_TIMEOUT_S,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
    ) -> None:
        self._client = client
        self._acks = acks
        self._codec = codec
        # Without acks=all a broker keeps no promise that sequence numbers could protect.
        self._idempotent = acks == ACKS_ALL if idempotent is None else idempotent
        self._delivery_timeout_s = delivery_timeout_s
        self._request_timeout_s = request_timeout_s
        self._identity: _Identity | None = None
        self._identity_lock = asyncio.Lock()
        self._partition_locks: dict[TopicPartition, asyncio.Lock] = {}

    async def send(self, topic: str, partition: int, records: Sequence[Record]) -> int:
        """Writes one batch and returns the offset of its first record (`UNKNOWN_OFFSET` with acks=0)."""
        assert records, "a batch holds at least one record"
        return await self.send_batch(topic, partition, bytearray(encode_batch(records, codec=self._codec)))

    async def send_batch(self, topic: str, partition: int, batch: bytearray) -> int:
        """As `send`, of records that are encoded already. Who sends them and their CRC are written into it here."""
        tp = TopicPartition(topic, partition)
        async with self._partition_locks.setdefault(tp, asyncio.Lock()):
            identity = await self._current_identity()
            sequence = identity.next_sequence.get(tp, 0) if self._idempotent else NO_SEQUENCE
            stamp_producer(batch, identity.producer_id, identity.epoch, sequence)
            try:
                offset = await self._client.retrying(lambda: self._try(tp, batch), timeout_s=self._delivery_timeout_s)
            except (ApiError, ConnectionFailed):
                # The fate of the batch is not known: go on under a new id, or the next would leave a gap.
                if self._identity is identity:
                    self._identity = None
                raise
            if self._idempotent:
                identity.next_sequence[tp] = increment_sequence(sequence, read_header(batch).record_count)
            return offset

    async def _try(self, tp: TopicPartition, batch: bytearray) -> int:
        leader = await self._client.leader_of(tp.topic, tp.partition)
        topic_id = self._client.metadata.topics[tp.topic].topic_id
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=round(1000 * self._request_timeout_s),
            topic_data=[
                TopicProduceData(
                    name=tp.topic,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=tp.partition, records=batch)],
                )
            ],
        )
        connection = await self._client.broker(leader)
        version = connection.version_of(
            ProduceRequest, at_most=None if topic_id.int else _FIRST_VERSION_WITH_TOPIC_ID - 1
        )
        if self._acks == ACKS_NONE:
            await connection.send_unanswered(request, version=version)
            return UNKNOWN_OFFSET
        answer = await connection.request(
            request, ProduceResponse, version=version, timeout_s=self._request_timeout_s + _MARGIN_S
        )
        for topic in answer.responses:
            for partition in topic.partition_responses:
                if partition.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    return UNKNOWN_OFFSET
                raise_for(partition.error_code, partition.error_message, what=str(tp))
                return partition.base_offset
        raise ConnectionFailed(f"{connection.address} answered Produce without a result for {tp}")

    async def _current_identity(self) -> _Identity:
        async with self._identity_lock:
            if self._identity is None:
                self._identity = await self._new_identity() if self._idempotent else _Identity()
            return self._identity

    async def _new_identity(self) -> _Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

        async def attempt() -> _Identity:
            answer = await (await self._client.any_broker()).request(request, InitProducerIdResponse)
            # Brokers return this code while they have no ids from the active controller; there is no group.
            loading = answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            raise_for(answer.error_code, _NO_IDS if loading else None, what="producer id")
            return _Identity(answer.producer_id, answer.producer_epoch)

        return await self._client.retrying(attempt, timeout_s=self._delivery_timeout_s)
