"""ListTransactions (key 66)."""

from tidelog.wire.schema import INT16, INT32, INT64, STRING, Array, f, message, struct


@message(api_key=66, versions="0-2", flexible="0+")
@struct
class ListTransactionsRequest:
    state_filters: list[str] = f(Array(STRING))
    producer_id_filters: list[int] = f(Array(INT64))
    duration_filter: int = f(INT64, "1+", default=-1)
    transactional_id_pattern: str | None = f(STRING, "2+", nullable="2+", default=None)


@struct
class TransactionState:
    transactional_id: str = f(STRING)
    producer_id: int = f(INT64)
    transaction_state: str = f(STRING)


@message(api_key=66, versions="0-2", flexible="0+")
@struct
class ListTransactionsResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    unknown_state_filters: list[str] = f(Array(STRING))
    transaction_states: list[TransactionState] = f(Array(TransactionState))
