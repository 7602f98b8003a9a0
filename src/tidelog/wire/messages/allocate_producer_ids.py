"""AllocateProducerIds (key 67)."""

from tidelog.wire.schema import INT16, INT32, INT64, f, message, struct


@message(api_key=67, versions="0-0", flexible="0+")
@struct
class AllocateProducerIdsRequest:
    broker_id: int = f(INT32)
    broker_epoch: int = f(INT64, default=-1)


@message(api_key=67, versions="0-0", flexible="0+")
@struct
class AllocateProducerIdsResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    producer_id_start: int = f(INT64)
    producer_id_len: int = f(INT32)
