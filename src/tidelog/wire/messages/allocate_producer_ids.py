"""AllocateProducerIds (key 67)."""

from dataclasses import dataclass

from tidelog.wire.schema import INT16, INT32, INT64, f, message


@message(api_key=67, versions="0-0", flexible="0+")
@dataclass(slots=True, kw_only=True)
class AllocateProducerIdsRequest:
    broker_id: int = f(INT32)
    broker_epoch: int = f(INT64, default=-1)


@message(api_key=67, versions="0-0", flexible="0+")
@dataclass(slots=True, kw_only=True)
class AllocateProducerIdsResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    producer_id_start: int = f(INT64)
    producer_id_len: int = f(INT32)
