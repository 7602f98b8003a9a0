"""EndTxn (key 26)."""

from tidelog.wire.schema import BOOL, INT16, INT32, INT64, STRING, f, message, struct


@message(api_key=26, versions="0-5", flexible="3+")
@struct
class EndTxnRequest:
    transactional_id: str = f(STRING)
    producer_id: int = f(INT64)
    producer_epoch: int = f(INT16)
    committed: bool = f(BOOL)


@message(api_key=26, versions="0-5", flexible="3+")
@struct
class EndTxnResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    producer_id: int = f(INT64, "5+", default=-1)
    producer_epoch: int = f(INT16, "5+", default=-1)
