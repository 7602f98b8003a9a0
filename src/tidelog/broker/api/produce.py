"""Produce (0), versions 3 to 13; 0 to 2 are advertised for old librdkafka and refused (KIP-896 keeps them listed).

P1 acks, P2 and P3 in the partition and here, P5 in storage, P6 the current leader from v10 (KIP-951), topic ids
from v13 (KIP-516). Records are appended before this returns; only the answer waits.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tidelog.broker.appends import append_as_leader
from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import CloseConnection, RequestContext
from tidelog.broker.endpoints import endpoint_of
from tidelog.broker.lookups import absent_partition_error, topic_name
from tidelog.core.ids import BrokerId, LeaderEpoch, TopicPartition
from tidelog.metadata.names import is_internal
from tidelog.replication.partition import Partition
from tidelog.storage.validation import RecordsRejected
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ZSTD_SINCE = 7
TRANSACTIONAL_BIT = 0x10
ATTRIBUTES_LOW_BYTE = 22


@dataclass(slots=True)
class _Waiting:
    """A partition whose records are written and not yet acknowledged."""

    partition: Partition
    epoch: LeaderEpoch
    required_offset: int
    answer: PartitionProduceResponse


def handle(
    broker: Broker, ctx: RequestContext, request: ProduceRequest
) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
    response = ProduceResponse()
    waiting: list[_Waiting] = []
    failed: ApiError | None = None
    for topic in request.topic_data:
        name = topic.name or topic_name(broker.image, topic.topic_id)
        answers = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        response.responses.append(answers)
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index)
            answers.partition_responses.append(answer)
            try:
                _produce(broker, ctx, request, topic, name, data, answer, waiting)
            except ApiError as error:
                failed = error
                _refuse(broker, ctx, response, TopicPartition(name, data.index), answer, error)
    if request.acks == 0:
        if failed is not None:
            # P1: without an answer, a closed connection is the only way to tell.
            raise CloseConnection(f"produce with acks=0 failed: {failed}")
        return None
    if not waiting:
        return response
    delayed = DelayedProduce(broker, ctx, response, waiting)
    cancel = broker.produce_purgatory.try_complete_else_watch(
        delayed, (item.partition.topic_partition for item in waiting), request.timeout_ms / 1000
    )
    if cancel is not None:
        # The records are written; without a client nobody waits to hear how it went with them. So what waits is
        # bounded by what connections may have in flight, however often a client comes back.
        delayed.forget = ctx.connection.on_close(cancel)
    return delayed.future


def _produce(
    broker: Broker,
    ctx: RequestContext,
    request: ProduceRequest,
    topic: TopicProduceData,
    name: str,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    waiting: list[_Waiting],
) -> None:
    if request.acks not in (-1, 0, 1):
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}; 0, 1 and -1 are known")
    if not name and not topic.name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic.topic_id}")
    if is_internal(name) and ctx.client_id != "__admin_client":
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic; only brokers write to it")
    if data.records is None or len(data.records) == 0:
        raise ApiError(ErrorCode.INVALID_RECORD, "no records")
    records = data.records if isinstance(data.records, memoryview) else memoryview(bytearray(data.records))
    if request.transactional_id is not None or (
        len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT
    ):
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not supported yet")
    partition = broker.replicas.get(TopicPartition(name, data.index))
    if partition is None:
        raise ApiError(
            absent_partition_error(broker.image, name, data.index), f"this broker has no replica of {name}-{data.index}"
        )
    if not topic.name and topic.topic_id != partition.topic_id:
        # Deleted and made again under its name, which the image does not know yet.
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {name} does not have the id {topic.topic_id}")
    info = append_as_leader(broker, partition, records, request.acks, allow_zstd=ctx.api_version >= ZSTD_SINCE)
    answer.base_offset = info.first_offset
    answer.log_append_time_ms = info.log_append_time
    answer.log_start_offset = partition.log.log_start_offset
    if request.acks == -1:
        # Also for a retried duplicate: it is acknowledged when the first one is (P4).
        epoch, required = partition.leader_epoch, info.last_offset + 1
        code = partition.acknowledged(epoch, required)
        if code is None:
            waiting.append(_Waiting(partition, epoch, required, answer))
        elif code is not ErrorCode.NONE:
            raise ApiError(code)


def _refuse(
    broker: Broker,
    ctx: RequestContext,
    response: ProduceResponse,
    topic_partition: TopicPartition,
    answer: PartitionProduceResponse,
    error: ApiError,
) -> None:
    answer.error_code = error.code
    answer.base_offset = -1
    answer.error_message = error.message or None
    if isinstance(error, RecordsRejected):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in error.record_errors
        ]
    if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        registration = broker.image.partition(topic_partition)
        if registration is not None:
            leader, epoch = BrokerId(registration.leader), LeaderEpoch(registration.leader_epoch)
            _name_leader(broker, ctx, response, answer, leader, epoch)


def _name_leader(
    broker: Broker,
    ctx: RequestContext,
    response: ProduceResponse,
    answer: PartitionProduceResponse,
    leader: BrokerId,
    epoch: LeaderEpoch,
) -> None:
    """P6: so that the client need not ask for metadata first."""
    answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    endpoint = endpoint_of(broker.image, leader, ctx.listener_name)
    if endpoint is not None and all(known.node_id != leader for known in response.node_endpoints):
        response.node_endpoints.append(
            NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port, rack=endpoint.rack)
        )


class DelayedProduce:
    """An acks=all write that waits for the high watermark (P3). Completed by HW, by lost leadership, or by time."""

    __slots__ = ("_broker", "_ctx", "_response", "_waiting", "forget", "future")

    def __init__(self, broker: Broker, ctx: RequestContext, response: ProduceResponse, waiting: list[_Waiting]) -> None:
        self._broker = broker
        self._ctx = ctx
        self._response = response
        self._waiting = waiting
        # Once it is answered: nobody has to be told any more that the client went away.
        self.forget: Callable[[], None] | None = None
        self.future: asyncio.Future[ProduceResponse] = broker.loop.create_future()

    def try_complete(self) -> bool:
        still = []
        for item in self._waiting:
            code = item.partition.acknowledged(item.epoch, item.required_offset)
            if code is None:
                still.append(item)
            elif code is not ErrorCode.NONE:
                where = item.partition.topic_partition
                _refuse(self._broker, self._ctx, self._response, where, item.answer, ApiError(code))
        self._waiting = still
        if still:
            return False
        self._answer()
        return True

    def expire(self) -> None:
        for item in self._waiting:
            item.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            item.answer.base_offset = -1
        self._answer()

    def _answer(self) -> None:
        if not self.future.done():
            self.future.set_result(self._response)
        if self.forget is not None:
            self.forget()
