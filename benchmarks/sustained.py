"""A librdkafka producer that goes on for a while, over all partitions in turn; prints one JSON line.

python -m benchmarks.sustained BOOTSTRAP TOPIC PARTITIONS SECONDS SIZE ACKS
"""

import json
import sys
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for

from confluent_kafka import Producer


def main(bootstrap: str, topic: str, partitions: int, seconds: float, size: int, acks: str) -> None:
    failed = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal failed
        failed += 1

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "enable.idempotence": acks == "all",
            "linger.ms": 5,
            # Little enough that what it holds is sent within moments, and what is counted is what the brokers take.
            "queue.buffering.max.kbytes": 65_536,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
        }
    )
    value = b"x" * size
    producer.list_topics(topic, timeout=10)
    print("ready", flush=True)
    began_s = now_s()
    produce, poll = producer.produce, producer.poll
    sent = 0
    while now_s() - began_s < seconds:
        for _ in range(100):
            while True:
                try:
                    produce(topic, value, partition=sent % partitions)
                    break
                except BufferError:
                    poll(0.01)
            sent += 1
        poll(0)
    left = producer.flush(60)
    print(json.dumps({"records": sent, "seconds": now_s() - began_s, "left": left, "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
