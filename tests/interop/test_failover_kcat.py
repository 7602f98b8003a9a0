"""kcat, on Debian's own librdkafka, through a failover."""

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.clients.waiting import wait_until
from tests.interop.failover import RATE, SECONDS, TOPIC, Found, Place, check_log, kill_and_bring_back, three_brokers
from tests.interop.running import END_SECONDS, Lines, end, ended

from tidelog.testing import Cluster

ALL = ("-X", "acks=all", "-X", "enable.idempotence=true")
FORMAT = ("-f", "%p %o %s\n")
DELIVERED = re.compile(r"% Message delivered to partition (\d+) \(offset (\d+)\)")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with three_brokers() as running:
        yield running


class Acknowledged:
    """What `kcat -P -vvv` says of each record on stderr."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._lines = Lines(log)
        self._places: set[Place] = set()
        self.noise: list[str] = []

    def places(self) -> set[Place]:
        for line in self._lines.new():
            found = DELIVERED.match(line)
            if found is None:
                self.noise.append(line)
            else:
                self._places.add((int(found[1]), int(found[2])))
        return self._places


class Printed:
    """What `kcat -C` prints: partition, offset, value."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._lines = Lines(log)
        self._records: list[Found] = []

    def records(self) -> list[Found]:
        for line in self._lines.new():
            self._records.append(record_of(line))
        return self._records

    def places(self) -> list[Place]:
        return [place for place, _ in self.records()]


def record_of(line: str) -> Found:
    partition, offset, value = line.split(" ")
    return (int(partition), int(offset)), value


@contextmanager
def feeding(process: subprocess.Popen[str]) -> Iterator[Callable[[], int]]:
    """Numbers to its stdin, a line each, at a pace; the call ends that and tells how many there were."""
    assert process.stdin is not None
    stdin, stop, sent = process.stdin, threading.Event(), 0

    def feed() -> None:
        nonlocal sent
        while not stop.wait(1 / RATE):
            stdin.write(f"{sent}\n")
            stdin.flush()
            sent += 1

    def finish() -> int:
        stop.set()
        thread.join()
        stdin.close()
        return sent

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield finish
    finally:
        stop.set()
        thread.join()


@pytest.mark.quick
@pytest.mark.timeout(300)
def test_kcat_goes_on_through_a_failover(kcat: str, cluster: Cluster, tmp_path: Path) -> None:
    produce = [kcat, "-b", cluster.bootstrap, "-P", "-vvv", "-t", TOPIC, *ALL]
    consume = [kcat, "-b", cluster.bootstrap, "-C", "-u", "-q", "-t", TOPIC, "-o", "beginning", *FORMAT]
    told, printed, noise = (tmp_path / name for name in ("produced", "consumed", "consumer-errors"))
    with told.open("w") as errors, printed.open("w") as output, noise.open("w") as unused:
        producer = subprocess.Popen(produce, stdin=subprocess.PIPE, stderr=errors, text=True)
        consumer = subprocess.Popen(consume, stdin=subprocess.DEVNULL, stdout=output, stderr=unused, text=True)
    acknowledged, consumed = Acknowledged(producer, told), Printed(consumer, printed)
    with ended(producer), ended(consumer), feeding(producer) as finish:
        kill_and_bring_back(cluster, acknowledged, consumed)
        sent = finish()
        assert producer.wait(END_SECONDS) == 0, told.read_text()[-2000:]
        wait_until(lambda: len(consumed.records()) >= sent, "all is consumed", SECONDS)
        end(consumer)
    # It ends well only if every record was delivered; and it says so of each.
    assert len(acknowledged.places()) == sent
    assert not [line for line in acknowledged.noise if "Delivery failed" in line]
    check_log(consumed.records(), acknowledged.places(), sent)

    again = subprocess.run([*consume, "-e"], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert sorted(map(record_of, again.stdout.splitlines())) == sorted(consumed.records())
