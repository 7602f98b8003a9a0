"""AddOffsetsToTxn (key 25)."""

from tidelog.wire.schema import INT16, INT32, INT64, STRING, f, message, struct


@message(api_key=25, versions="0-4", flexible="3+")
@struct
class AddOffsetsToTxnRequest:
    transactional_id: str = f(STRING)
    producer_id: int = f(INT64)
    producer_epoch: int = f(INT16)
    group_id: str = f(STRING)


@message(api_key=25, versions="0-4", flexible="3+")
@struct
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
