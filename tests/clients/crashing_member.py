"""A group member in a process of its own, so that it can be killed: `python -m tests.clients.crashing_member …`."""

import argparse
import signal
import subprocess
import sys

from tests.clients.adapters import CLIENTS
from tests.clients.adapters.base import ConsumerOptions, Partition
from tests.clients.waiting import PATIENCE_SECONDS


class CrashingMember:
    """The process from outside: waits for its first assignment, then kills it without a goodbye."""

    def __init__(self, client: str, bootstrap: str, options: ConsumerOptions, topic: str) -> None:
        command = [sys.executable, "-m", "tests.clients.crashing_member", client, bootstrap, str(options.group), topic]
        command += ["--assignor", options.assignor, "--session-timeout-ms", str(options.session_timeout_ms)]
        if options.instance_id is not None:
            command += ["--instance-id", options.instance_id]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def first_assignment(self) -> frozenset[Partition]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the member ended with status {self._process.wait(PATIENCE_SECONDS)}"
        topic, *numbers = line.split()
        return frozenset(Partition(topic, int(number)) for number in numbers)

    def crash(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("client", "bootstrap", "group", "topic"):
        parser.add_argument(name)
    parser.add_argument("--assignor", default="range")
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    parser.add_argument("--instance-id")
    arguments = parser.parse_args()
    client = next(each for each in CLIENTS if each.name == arguments.client)
    options = ConsumerOptions(
        group=arguments.group,
        assignor=arguments.assignor,
        session_timeout_ms=arguments.session_timeout_ms,
        instance_id=arguments.instance_id,
    )
    consumer = client.consumer(arguments.bootstrap, options)
    consumer.subscribe(arguments.topic)
    told = False
    while True:  # until it is killed
        consumer.poll(0.25)
        assigned = consumer.assignment()
        if assigned and not told:
            print(arguments.topic, *sorted(each.number for each in assigned), flush=True)
            told = True


if __name__ == "__main__":
    main()
