"""kcat, on Debian's own librdkafka."""

import json
import subprocess
from collections.abc import Callable

import pytest
from tests.clients.targets import Target

Unique = Callable[[str], str]
SECONDS = 40


def run(kcat: str, node: Target, *args: str, stdin: str = "") -> str:
    done = subprocess.run(
        [kcat, "-b", node.bootstrap, *args], input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"kcat {args}: {done.stdout}\n{done.stderr}"
    assert "ERROR" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back(kcat: str, node: Target, unique: Unique, codec: str) -> None:
    topic = unique("kcat")
    lines = "".join(f"key{n}:value {n}\n" for n in range(100))
    run(kcat, node, "-P", "-t", topic, "-K:", "-z", codec, "-H", "from=kcat", stdin=lines)
    out = run(kcat, node, "-C", "-q", "-t", topic, "-o", "beginning", "-e", "-J")
    messages = [json.loads(line) for line in out.splitlines()]
    assert [(m["offset"], m["key"], m["payload"]) for m in messages] == [
        (n, f"key{n}", f"value {n}") for n in range(100)
    ]
    assert all(m["headers"] == ["from", "kcat"] for m in messages)
    assert run(kcat, node, "-C", "-q", "-t", topic, "-p", "0", "-o", "-2", "-e") == "value 98\nvalue 99\n"


@pytest.mark.quick
def test_metadata_and_offsets(kcat: str, node: Target, unique: Unique) -> None:
    topic = unique("kcat")
    run(kcat, node, "-P", "-t", topic, stdin="a\nb\nc\n")
    listed = json.loads(run(kcat, node, "-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listed["brokers"]] == [node.bootstrap]
    assert listed["topics"][0]["partitions"] == [
        {"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}
    ]
    assert run(kcat, node, "-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 3"
    assert run(kcat, node, "-Q", "-t", f"{topic}:0:-2").strip() == f"{topic} [0] offset 0"


@pytest.mark.quick
def test_a_balanced_consumer(kcat: str, node: Target, unique: Unique) -> None:
    topic = unique("kcat")
    run(kcat, node, "-P", "-t", topic, stdin="".join(f"{n}\n" for n in range(10)))
    out = run(kcat, node, "-q", "-G", unique("group"), "-X", "auto.offset.reset=earliest", "-c", "10", topic)
    assert out.split() == [str(n) for n in range(10)]
