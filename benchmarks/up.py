"""`tidelog up` as a script waits for it: to the line `ready`, and to the first acknowledged write (goal 6).

python -m benchmarks.up [--starts 20]

Three brokers and the page, from the start of the command. Each round starts a cluster in a new directory, and again in
the same one after an orderly stop. The write is librdkafka's, acks=all, to a topic with three replicas and min ISR 2;
in a new directory it has to be created first.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.processes import cluster_up, free_port, free_ports

OUT: Final = Path(__file__).parent / "out"
TOPIC: Final = "orders"
NODES: Final = 3
GIVE_UP_S: Final = 60.0


def create_topic(bootstrap: str) -> None:
    topic = NewTopic(TOPIC, num_partitions=1, replication_factor=NODES, config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics([topic]).values():
        done.result(GIVE_UP_S)


def write_one(bootstrap: str) -> None:
    """Returns when it is acknowledged."""

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise RuntimeError(f"not acknowledged: {error}")

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    producer.produce(TOPIC, b"x", on_delivery=delivered)
    if producer.flush(GIVE_UP_S):
        raise TimeoutError(f"nothing was acknowledged within {GIVE_UP_S:g} s")


def measure(starts: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {
        f"{directory}, {until}": []
        for directory in ("new directory", "same directory")
        for until in ("ready", "first acknowledged write")
    }
    # One round more than counted: the first may have code to compile.
    for number in range(starts + 1):
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as data:
            port, ui_port = free_ports(NODES), free_port()
            for directory in ("new directory", "same directory"):
                began_s = now_s()
                with cluster_up(Path(data), port, ui_port) as ready:
                    ready_s = now_s() - began_s
                    if directory == "new directory":
                        create_topic(ready["bootstrap"])
                    write_one(ready["bootstrap"])
                    written_s = now_s() - began_s
                if number == 0:
                    continue
                found[f"{directory}, ready"].append(ready_s)
                found[f"{directory}, first acknowledged write"].append(written_s)
                print(f"{number} of {starts}, {directory}: {ready_s:.2f}, {written_s:.2f} s", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=20, help="of each kind (default %(default)s)")
    options = parser.parse_args()
    if options.starts < 2:
        parser.error("--starts is at least 2: it is about how they differ")
    found = measure(options.starts)
    OUT.mkdir(exist_ok=True)
    (OUT / "up.json").write_text(json.dumps(found))
    print(f"{'seconds':<44} {'best':>6} {'median':>6} {'p90':>6} {'worst':>6}")
    for name, values in found.items():
        p90 = statistics.quantiles(values, n=10, method="inclusive")[-1]
        print(f"{name:<44} {min(values):>6.2f} {statistics.median(values):>6.2f} {p90:>6.2f} {max(values):>6.2f}")


if __name__ == "__main__":
    main()
