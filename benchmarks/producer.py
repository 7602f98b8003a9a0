"""A librdkafka producer in a process of its own; prints one JSON line.

python -m benchmarks.producer BOOTSTRAP TOPIC RECORDS SIZE
"""

import json
import sys
import time

from confluent_kafka import Producer


def main(bootstrap: str, topic: str, records: int, size: int) -> None:
    failed = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal failed
        failed += 1

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
        }
    )
    value = b"x" * size
    producer.list_topics(topic, timeout=10)
    started = time.perf_counter()  # noqa: TID251 - measuring is what this is for
    produce, poll = producer.produce, producer.poll
    for _ in range(records):
        while True:
            try:
                produce(topic, value, partition=0)
                break
            except BufferError:
                poll(0.01)
    left = producer.flush(60)
    took = time.perf_counter() - started  # noqa: TID251
    print(json.dumps({"seconds": took, "left": left, "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
