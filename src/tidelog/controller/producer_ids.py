"""AllocateProducerIds: blocks of ids, each given out once in the life of a cluster."""

from typing import Final

from tidelog.controller.brokers import check_broker_epoch
from tidelog.controller.decision import Decision, Situation
from tidelog.metadata.records import ProducerIdsRecord
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_SIZE: Final = 1000
_MAX_ID: Final = 2**63 - 1


def allocate_producer_ids(
    situation: Situation, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """The next block, for a broker that is registered under that epoch."""
    check_broker_epoch(situation.image, request.broker_id, request.broker_epoch)
    start = situation.image.next_producer_id
    if start > _MAX_ID - BLOCK_SIZE:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "no producer ids are left")
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + BLOCK_SIZE
    )
    response = AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK_SIZE)
    return Decision(response=response, records=[record])
