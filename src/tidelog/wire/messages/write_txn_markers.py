"""WriteTxnMarkers (key 27)."""

from dataclasses import dataclass

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, INT64, STRING, Array, f, message


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerTopic:
    name: str = f(STRING)
    partition_indexes: list[int] = f(Array(INT32))


@dataclass(slots=True, kw_only=True)
class WritableTxnMarker:
    producer_id: int = f(INT64)
    producer_epoch: int = f(INT16)
    transaction_result: bool = f(BOOL)
    topics: list[WritableTxnMarkerTopic] = f(Array(WritableTxnMarkerTopic))
    coordinator_epoch: int = f(INT32)
    transaction_version: int = f(INT8, "2+")


@message(api_key=27, versions="1-2", flexible="1+")
@dataclass(slots=True, kw_only=True)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = f(Array(WritableTxnMarker))


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerPartitionResult:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerTopicResult:
    name: str = f(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = f(Array(WritableTxnMarkerPartitionResult))


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerResult:
    producer_id: int = f(INT64)
    topics: list[WritableTxnMarkerTopicResult] = f(Array(WritableTxnMarkerTopicResult))


@message(api_key=27, versions="1-2", flexible="1+")
@dataclass(slots=True, kw_only=True)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = f(Array(WritableTxnMarkerResult))
