"""The live page of a real cluster: a button kills the leader, and the stream reports the new epoch."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.cluster.commands import Commands, foreground_up
from tests.cluster.ports import consecutive_ports
from tests.unit.web.test_trace import LINES

PATIENCE_S = 30


class Browser:
    """What a browser does with the address that `tidelog up` prints."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port is not None and parts.hostname is not None
        self._at = parts.hostname, parts.port
        self.token = parts.fragment.removeprefix("token=")

    def get(self, path: str, host: str | None = None) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection(host or self._at[0], self._at[1], timeout=PATIENCE_S)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def press(self, token: str | None = None, **command: Any) -> tuple[int, dict[str, Any]]:
        with closing(http.client.HTTPConnection(*self._at, timeout=PATIENCE_S)) as connection:
            headers = {"X-Tidelog-Token": self.token if token is None else token}
            connection.request("POST", "/api/command", json.dumps(command), headers)
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if body.startswith(b"{") else {}

    def stream(self) -> Iterator[dict[str, Any]]:
        with closing(http.client.HTTPConnection(*self._at, timeout=PATIENCE_S)) as connection:
            connection.request("GET", "/api/stream")
            answer = connection.getresponse()
            assert answer.status == 200
            while line := answer.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])


class Shown:
    """The stream put together, as the page does it."""

    def __init__(self, stream: Iterator[dict[str, Any]]) -> None:
        self._stream = stream
        self.partitions: dict[tuple[str, int], list[Any]] = {}
        self.nodes: dict[int, dict[str, Any]] = {}
        self.timeline: dict[int, dict[str, Any]] = {}

    def until(self, holds: Any) -> None:
        while not holds(self):
            message = next(self._stream)
            self.partitions |= {(row[0], row[1]): row for row in message.get("partitions", ())}
            self.nodes |= {node["id"]: node for node in message.get("nodes", ())}
            self.timeline |= {entry["id"]: entry for entry in message.get("timeline", ())}

    @property
    def leader(self) -> int:
        """Of the one partition that the test is about."""
        return int(self.partitions["orders", 0][2])

    @property
    def epoch(self) -> int:
        return int(self.partitions["orders", 0][3])

    @property
    def isr(self) -> list[int]:
        found: list[int] = self.partitions["orders", 0][6] if self.partitions else []
        return found

    def tells(self, words: str) -> bool:
        return any(words in entry["text"] for entry in self.timeline.values())


def pages_of(data: Path) -> list[int]:
    """Processes that serve the page of a cluster."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended since it was listed
        if b"tidelog.web" in command and str(data).encode() in command:
            found.append(int(entry.name))
    return found


@pytest.mark.rule("C3")
def test_a_killed_leader_by_button_and_the_epoch_that_follows(tmp_path: Path) -> None:
    data, port = tmp_path / "data", consecutive_ports(4)
    tidelog = Commands(f"127.0.0.1:{port}")
    with foreground_up(data, "--port", str(port), ui_port=port + 3) as (process, ready):
        assert ready["ui"].startswith(f"http://127.0.0.1:{port + 3}/#token=")
        # No visitor yet, so no process serves the page.
        assert not (data / "page.log").exists()
        assert tidelog.json("status", "--data", str(data))["ui"] == ready["ui"]
        tidelog.run("topics", "create", "orders", "--replication-factor", "3", "--config", "min.insync.replicas=2")
        tidelog.run("produce", "orders", stdin="1\n2\n3\n")
        browser = Browser(ready["ui"])
        assert browser.get("/")[0] == 200
        assert browser.get("/", host="::1")[0] == 200
        configs = {name: value for name, value, _ in json.loads(browser.get("/api/topics/orders/configs")[1])}
        assert configs["min.insync.replicas"] == "2"

        shown = Shown(browser.stream())
        shown.until(lambda s: len(s.nodes) == 3 and len(s.isr) == 3)
        shown.until(lambda s: all(replica[6] == 3 for replica in s.partitions["orders", 0][12]))
        leader, epoch = shown.leader, shown.epoch

        assert browser.press(token="guessed", command="kill", node=leader)[0] == 401
        status, told = browser.press(command="kill", node=leader)
        assert status == 200 and "while it led" in told["text"] and "C3" in told["rules"]
        shown.until(lambda s: s.leader not in (leader, -1))
        assert shown.epoch > epoch
        shown.until(lambda s: leader not in s.isr)
        shown.until(lambda s: s.nodes[leader]["state"] == "killed" and not s.nodes[leader]["heard"])
        shown.until(lambda s: s.tells(f"node {leader} is killed") and s.tells(f"leader {leader} to "))
        assert browser.press(command="kill", node=leader)[0] == 409

        # The stream reports faults of other commands, too, and the returning node catches up.
        assert browser.press(command="start", node=leader)[0] == 200
        shown.until(lambda s: len(s.isr) == 3 and s.nodes[leader]["heard"])
        other = leader % 3 + 1
        tidelog.run("chaos", "slow", str(other), "--ms", "5", "--data", str(data))
        shown.until(lambda s: s.nodes[other]["delay_ms"] == 5)
        assert browser.press(command="heal")[0] == 200
        shown.until(lambda s: s.nodes[other]["delay_ms"] == 0)

        # The next visitor starts a new process after a crash.
        (served,) = pages_of(data)
        os.kill(served, signal.SIGKILL)
        assert browser.get("/api/about")[0] == 200
        assert pages_of(data) != [served]

        # With a page open it ends as without one.
        shown = Shown(browser.stream())
        shown.until(lambda s: len(s.nodes) == 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0 and pages_of(data) == []
        assert process.stderr is not None and "Traceback" not in process.stderr.read()


def test_a_trace_is_played_without_a_cluster(tmp_path: Path) -> None:
    trace, port = tmp_path / "trace.jsonl", consecutive_ports(1)
    trace.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    command = [sys.executable, "-m", "tidelog", "page", str(trace), "--ui-port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = dict(field.split("=", 1) for field in process.stdout.readline().split()[1:])
            browser = Browser(ready["ui"])
            about = json.loads(browser.get("/api/about")[1])
            assert (about["cluster"], about["trace"]) == (None, 0)
            assert json.loads(browser.get("/api/trace/0")[1])["steps"] == len(LINES)
            frame = json.loads(browser.get("/api/trace/0/frame?step=2")[1])
            assert frame["step"] == 2 and frame["partitions"][0][:4] == ["orders", 0, 1, 0]
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
