"""What the examples share: start a cluster, fill its topics, run a pipeline once and show its result."""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tidelog.client.client import Client
from tidelog.client.errors import RETRIABLE_OF_KNOWN_TOPIC
from tidelog.client.partitioner import partition_for_key
from tidelog.client.producer import Producer
from tidelog.client.topics import create_topic
from tidelog.testing import Cluster
from tidelog.wire.records.plain import Record

PARTITIONS = 2
# Noon of 5 January 2026, in milliseconds. The same records each time are easier to talk about.
NOON = 1_767_614_400_000


def message(minute: float, key: str, value: dict[str, Any] | bytes | None) -> Record:
    """A record some minutes after noon. `bytes` are a value that is not JSON."""
    content = json.dumps(value).encode() if isinstance(value, dict) else value
    return Record(timestamp=NOON + round(minute * 60_000), key=key.encode(), value=content)


def at(minute: float) -> str:
    seconds = round(minute * 60)
    return f"2026-01-05T{12 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def fill(bootstrap: str, topics: dict[str, Sequence[Record]]) -> None:
    """Creates the topics and writes their records, each to the partition of its key."""

    async def work() -> None:
        # A broker may not know a new topic yet.
        async with Client(bootstrap, passing=RETRIABLE_OF_KNOWN_TOPIC) as client:
            producer = Producer(client)
            for topic, records in topics.items():
                # Unlimited retention, since the timestamps are of a day long past.
                await create_topic(client, topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
                for partition in range(PARTITIONS):
                    own = [each for each in records if partition_for_key(each.key or b"", PARTITIONS) == partition]
                    await producer.send(topic, partition, own)

    asyncio.run(work())


def parquet(folder: Path) -> list[dict[str, Any]]:
    """The rows of a directory of Parquet files. What begins with `_` or `.` is no data."""
    import pyarrow.dataset

    rows: list[dict[str, Any]] = pyarrow.dataset.dataset(str(folder), format="parquet").to_table().to_pylist()
    return rows


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [list(headings), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def tell(module: str, write: Callable[[str], None], show: Callable[[Path, str], list[str]]) -> None:
    """The whole of an example, from the command line."""
    folder = Path(module).parent
    parser = argparse.ArgumentParser(prog=f"python -m examples.{folder.name}", description=f"See {folder}/README.md.")
    parser.add_argument(
        "--bootstrap", help="a running cluster; the default is a cluster that runs for the example only"
    )
    asked = parser.parse_args()
    # The topics are new, so the checkpoint of an earlier run does not fit them.
    shutil.rmtree(folder / "out", ignore_errors=True)
    with ExitStack() as stack:
        bootstrap = asked.bootstrap
        if bootstrap is None:
            print("starting three brokers", flush=True)
            bootstrap = stack.enter_context(Cluster(brokers=3)).bootstrap
        write(bootstrap)
        file = folder / "pipeline.toml"
        print(f"tidelog pipeline run {file} --once", flush=True)
        command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(file), "--once", "--bootstrap", bootstrap]
        subprocess.run(command, check=True)
        print("\n" + "\n".join(show(folder, bootstrap)))
