"""The README's first table: Tidelog beside Apache Kafka and librdkafka's mock cluster, three brokers each, in one run.

python -m benchmarks.first_screen [--rounds 5] [--write]

In each round every side starts from nothing, in turns:
- start: from launching the processes to the first acknowledged write (`acks=all`, three replicas, min ISR 2) of one
  librdkafka client. Apache Kafka's directories are formatted before that; `tidelog up` formats its own meanwhile.
- memory: the PSS of all processes of the cluster, three seconds after that write.
- failover: `kill -9` of a partition's leader to the first acknowledged record that was sent after it, default timeouts.
- lost: acknowledged records that a reader does not find afterwards.

Each side has its own defaults. The mock has no process to kill. With `--write` the values replace
`benchmarks/first_screen.json` and the table in the README; without it they are printed only.
"""

import argparse
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for
from typing import Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.kafka_jars import java, kafka_version

from benchmarks.failover import TOPIC, Load
from benchmarks.first_screen_table import README, RESULTS, Measured, Results, render, replace_table
from benchmarks.peers import NODES, KafkaBrokers, Peer, TidelogUp
from benchmarks.processes import proportional_mb
from tidelog import __version__

SETTLE_S: Final = 3.0
LOAD_S: Final = 2.0
GIVE_UP_S: Final = 120.0
RETRY_S: Final = 0.02
REQUEST_S: Final = 3.0
MOCK: Final = "mock"
# What a cluster answers while not all of its brokers are registered.
NOT_YET: Final = (
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
)


def first_write(bootstrap: str) -> None:
    """Creates a topic with three replicas and writes a record; returns when it is acknowledged."""
    deadline_s = now_s() + GIVE_UP_S
    for address in bootstrap.split(","):
        host, port = address.split(":")
        # A client that comes too early waits before it connects again, and that wait would be measured.
        while not _listens(host, int(port)):
            _wait(deadline_s, f"nothing listens on {address}")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # librdkafka waits for its whole timeout if the first answer names no controller; that wait would be measured.
    while admin.list_topics(timeout=REQUEST_S).controller_id < 0:
        _wait(deadline_s, "no controller is known")
    while True:
        topic = NewTopic(TOPIC, num_partitions=1, replication_factor=len(NODES), config={"min.insync.replicas": "2"})
        try:
            admin.create_topics([topic], request_timeout=REQUEST_S)[TOPIC].result(REQUEST_S)
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                break
            if reason.code() not in NOT_YET:
                raise
            _wait(deadline_s, f"no topic can be created: {reason}")
        except TimeoutError:
            _wait(deadline_s, "a request for a topic was not answered")
        else:
            break
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    producer.produce(TOPIC, b"first", on_delivery=delivered)
    if producer.flush(GIVE_UP_S) or errors:
        raise RuntimeError(f"the first write was not acknowledged: {errors}")


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _wait(deadline_s: float, reason: str) -> None:
    if now_s() > deadline_s:
        raise TimeoutError(reason)
    time.sleep(RETRY_S)


def leader(bootstrap: str) -> int:
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(TOPIC, timeout=GIVE_UP_S)
    found: int = metadata.topics[TOPIC].partitions[0].leader
    return found


def stored(bootstrap: str) -> set[bytes]:
    """The values of all records of the topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "auto.offset.reset": "earliest"})
    partition = TopicPartition(TOPIC, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=GIVE_UP_S)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: set[bytes] = set()
    read, deadline_s = 0, now_s() + GIVE_UP_S
    while read < end:
        if now_s() > deadline_s:
            raise TimeoutError(f"{read} of {end} records were read")
        for message in consumer.consume(10_000, timeout=1.0):
            if message.error() is not None:
                raise RuntimeError(f"a read failed: {message.error()}")
            value, offset = message.value(), message.offset()
            assert value is not None and offset is not None
            found.add(value)
            read = offset + 1
    consumer.close()
    return found


@contextmanager
def stopped_at_the_end(peer: Peer) -> Iterator[None]:
    try:
        yield
    finally:
        peer.stop()


def measure_cluster(peer: Peer, measured: Measured) -> None:
    with tempfile.TemporaryDirectory(prefix="first-screen-") as directory, stopped_at_the_end(peer):
        peer.prepare(Path(directory))
        began_s = now_s()
        peer.launch()
        first_write(peer.bootstrap)
        measured.start_s.append(now_s() - began_s)
        time.sleep(SETTLE_S)
        measured.memory_mb.append(proportional_mb(peer.pids()))
        with Load(peer.bootstrap) as load:
            load.wait_acknowledged_after(now_s())
            time.sleep(LOAD_S)
            victim = leader(peer.bootstrap)
            killed_s = now_s()
            peer.kill(victim)
            measured.failover_s.append(load.wait_acknowledged_after(killed_s))
        survivors = [address for node, address in zip(NODES, peer.bootstrap.split(","), strict=True) if node != victim]
        measured.lost.append(len(load.values - stored(",".join(survivors))))
    report(peer.name, measured)


def measure_mock(measured: Measured) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.mock_cluster"], check=True, stdout=subprocess.PIPE, text=True
    )
    found = json.loads(done.stdout)
    measured.start_s.append(found["start_s"])
    measured.memory_mb.append(found["memory_mb"])
    report("mock cluster", measured)


def report(name: str, measured: Measured) -> None:
    failover = f", failover {measured.failover_s[-1]:.2f} s, lost {measured.lost[-1]}" if measured.failover_s else ""
    print(
        f"  {name}: start {measured.start_s[-1]:.2f} s, memory {measured.memory_mb[-1]:.0f} MB{failover}",
        file=sys.stderr,
        flush=True,
    )


def machine() -> dict[str, str]:
    """What the values were measured on and with."""
    memory_kib = int(re.findall(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[0])
    version = subprocess.run([java(), "-version"], check=True, capture_output=True, text=True).stderr
    found = re.search(r'version "([^"]+)"', version)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True)
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory_kib / 2**20:.0f} GiB",
        "python": platform.python_version(),
        "java": found[1] if found is not None else version.splitlines()[0],
        "tidelog": __version__,
        "commit": commit.stdout.strip(),
        "kafka": kafka_version(),
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "confluent-kafka": str(confluent_kafka.__version__),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"replace {RESULTS.name} and the table in {README.name}")
    options = parser.parse_args()
    tidelog, kafka, mock = Measured(), Measured(), Measured()
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        measure_cluster(TidelogUp(), tidelog)
        measure_cluster(KafkaBrokers(), kafka)
        measure_mock(mock)
    results = Results(machine=machine(), tidelog=tidelog, kafka=kafka, mock=mock)
    print(render(results))
    if options.write:
        RESULTS.write_text(results.to_json())
        README.write_text(replace_table(README.read_text(), render(results)))


if __name__ == "__main__":
    main()
