"""How fast librdkafka writes to a cluster and reads back, with defaults that its users have too."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.client.security import Security
from tidelog.verify.librdkafka import load
from tidelog.verify.librdkafka_security import security_config
from tidelog.verify.workload import VerifyError

ROUND_TRIPS: Final = 500
_FETCHED_AT_ONCE: Final = 10_000
_PATIENCE_S: Final = 60.0
_BYTES_PER_MB: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Of one partition, one producer and one consumer."""

    records: int
    record_bytes: int
    acks: str
    produce_records_per_second: float
    produce_mb_per_second: float
    ack_p50_ms: float
    ack_p99_ms: float
    consume_records_per_second: float
    consume_mb_per_second: float


def measure(
    bootstrap: str,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    acks: str,
    on_step: Callable[[str], None],
    security: Security | None = None,
) -> Speed:
    """On a new topic with one partition. VerifyError when something was not acknowledged or did not come back."""
    library = load()
    connection = {"bootstrap.servers": bootstrap, **security_config(security)}
    value = b"x" * record_bytes
    on_step("writing one record at a time")
    trips_ms = sorted(_round_trip_ms(library, connection, topic, value, acks))
    on_step(f"writing {records} records")
    wrote_s = _produce(library, connection, topic, value, records, acks)
    on_step("reading them")
    read_s = _consume(library, connection, topic, records + ROUND_TRIPS)
    megabytes = record_bytes / _BYTES_PER_MB
    return Speed(
        records=records,
        record_bytes=record_bytes,
        acks=acks,
        produce_records_per_second=records / wrote_s,
        produce_mb_per_second=records * megabytes / wrote_s,
        ack_p50_ms=trips_ms[len(trips_ms) // 2],
        ack_p99_ms=trips_ms[len(trips_ms) * 99 // 100],
        consume_records_per_second=(records + ROUND_TRIPS) / read_s,
        consume_mb_per_second=(records + ROUND_TRIPS) * megabytes / read_s,
    )


def _now_s() -> float:
    return time.perf_counter()  # noqa: TID251 - measuring is what this is for


def _producer(library: Any, connection: Mapping[str, Any], acks: str, linger_ms: int) -> Any:
    return library.Producer(
        {
            **connection,
            "acks": acks,
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": _refused,
        }
    )


def _refused(error: Any, _: Any) -> None:
    raise VerifyError(f"a record was not acknowledged: {error}")


def _flush(producer: Any) -> None:
    left = producer.flush(_PATIENCE_S)
    if left:
        raise VerifyError(f"{left} records were not acknowledged in {_PATIENCE_S:g} s")


def _round_trip_ms(library: Any, connection: Mapping[str, Any], topic: str, value: bytes, acks: str) -> list[float]:
    producer = _producer(library, connection, acks, linger_ms=0)
    producer.list_topics(topic, _PATIENCE_S)
    taken = []
    for _ in range(ROUND_TRIPS):
        began_s = _now_s()
        producer.produce(topic, value, partition=0)
        _flush(producer)
        taken.append((_now_s() - began_s) * 1000)
    return taken


def _produce(library: Any, connection: Mapping[str, Any], topic: str, value: bytes, records: int, acks: str) -> float:
    producer = _producer(library, connection, acks, linger_ms=5)
    producer.list_topics(topic, _PATIENCE_S)
    began_s = _now_s()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                # The queue is full: the cluster is the slower of the two.
                producer.poll(0.01)
    _flush(producer)
    return _now_s() - began_s


def _consume(library: Any, connection: Mapping[str, Any], topic: str, records: int) -> float:
    consumer = library.Consumer({**connection, "group.id": f"{topic}-unused", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([library.TopicPartition(topic, 0, 0)])
        began_s = _now_s()
        read = 0
        while read < records:
            found = consumer.consume(min(_FETCHED_AT_ONCE, records - read), _PATIENCE_S)
            if not found:
                raise VerifyError(f"only {read} of {records} records were read")
            for message in found:
                if message.error() is not None:
                    raise VerifyError(f"cannot read: {message.error()}")
            read += len(found)
        return _now_s() - began_s
    finally:
        consumer.close()
