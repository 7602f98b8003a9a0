"""AddPartitionsToTxn (key 24)."""

from tidelog.wire.schema import BOOL, INT16, INT32, INT64, STRING, Array, f, message, struct


@struct
class AddPartitionsToTxnTopic:
    name: str = f(STRING)
    partitions: list[int] = f(Array(INT32))


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = f(STRING, "4+")
    producer_id: int = f(INT64, "4+")
    producer_epoch: int = f(INT16, "4+")
    verify_only: bool = f(BOOL, "4+")
    topics: list[AddPartitionsToTxnTopic] = f(Array(AddPartitionsToTxnTopic), "4+")


@message(api_key=24, versions="0-5", flexible="3+")
@struct
class AddPartitionsToTxnRequest:
    v3_and_below_transactional_id: str = f(STRING, "0-3")
    v3_and_below_producer_id: int = f(INT64, "0-3")
    v3_and_below_producer_epoch: int = f(INT16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = f(Array(AddPartitionsToTxnTopic), "0-3")
    transactions: list[AddPartitionsToTxnTransaction] = f(Array(AddPartitionsToTxnTransaction), "4+")


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = f(INT32)
    partition_error_code: int = f(INT16)


@struct
class AddPartitionsToTxnTopicResult:
    name: str = f(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = f(Array(AddPartitionsToTxnPartitionResult))


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = f(STRING, "4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = f(Array(AddPartitionsToTxnTopicResult), "4+")


@message(api_key=24, versions="0-5", flexible="3+")
@struct
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = f(INT32)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = f(Array(AddPartitionsToTxnTopicResult), "0-3")
    error_code: int = f(INT16, "4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = f(Array(AddPartitionsToTxnResult), "4+")
