"""InitProducerId (key 22)."""

from tidelog.wire.schema import BOOL, INT16, INT32, INT64, STRING, f, message, struct


@message(api_key=22, versions="0-6", flexible="2+")
@struct
class InitProducerIdRequest:
    transactional_id: str | None = f(STRING, nullable="0+")
    transaction_timeout_ms: int = f(INT32)
    producer_id: int = f(INT64, "3+", default=-1)
    producer_epoch: int = f(INT16, "3+", default=-1)
    enable2_pc: bool = f(BOOL, "6+")
    keep_prepared_txn: bool = f(BOOL, "6+")


@message(api_key=22, versions="0-6", flexible="2+")
@struct
class InitProducerIdResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    producer_id: int = f(INT64, default=-1)
    producer_epoch: int = f(INT16)
    ongoing_txn_producer_id: int = f(INT64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = f(INT16, "6+", default=-1)
