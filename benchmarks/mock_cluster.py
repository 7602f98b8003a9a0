"""librdkafka's mock cluster in a process of its own: prints how soon it acknowledged a write and what memory it added.

python -m benchmarks.mock_cluster

Brokers of the mock are threads of the client that asks for them (`test.mock.num.brokers`). So its start is measured
from the call that creates the client, and its memory as the growth of the process.
"""

import json
import os
import time
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.processes import proportional_mb

BROKERS: Final = 3
SETTLE_S: Final = 3.0
GIVE_UP_S: Final = 60.0


def main() -> None:
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    before_mb = proportional_mb([os.getpid()])
    began_s = now_s()
    producer = Producer({"test.mock.num.brokers": BROKERS, "acks": "all", "linger.ms": 0})
    producer.produce("orders", b"x", on_delivery=delivered)
    left = producer.flush(GIVE_UP_S)
    start_s = now_s() - began_s
    if left or errors:
        raise RuntimeError(f"the mock cluster acknowledged nothing: {errors}")
    time.sleep(SETTLE_S)
    print(json.dumps({"start_s": start_s, "memory_mb": proportional_mb([os.getpid()]) - before_mb}))


if __name__ == "__main__":
    main()
