"""The demo's act on Spark: a pipeline that runs in a process of its own, and the table that it makes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.cli.demo import waiting
from tidelog.cli.demo.writing import TOPIC
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.process import last_lines

_PIPELINE: Final = "pipeline.toml"
_LOG: Final = "spark.log"
_FILE: Final = f"""\
[pipeline]
name = "demo"
checkpoint = "checkpoint"

[sources.{TOPIC}]
topics = ["{TOPIC}"]
value = {{ format = "json", schema = "writer INT, number INT, item STRING NOT NULL, cents INT NOT NULL" }}

[steps.priced]
sql = "select item, cents / 100 as price, writer, number from {TOPIC}"

[sinks.table]
from = "priced"
format = "parquet"
path = "table"

[dead_letters]
path = "dead"

[pipeline.spark]
# A run of seconds: time spent on optimising code that soon ends is lost.
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sold:
    """The table in sums."""

    rows: int
    distinct: int
    # By item: the number of orders and the revenue.
    items: dict[str, tuple[int, float]]


class SparkAct:
    """The act in a process of its own. Spark starts in the background as soon as the act is created, at low priority,
    and its queries begin with `make_table`.
    """

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self._folder = folder
        self._process = process

    @staticmethod
    def prepared(folder: Path) -> Path:
        """A new folder with the pipeline's file."""
        folder.mkdir()
        (folder / _PIPELINE).write_text(_FILE)
        return folder

    @classmethod
    @asynccontextmanager
    async def started(cls, folder: Path, bootstrap: str) -> "AsyncIterator[SparkAct]":
        """In a folder from `prepared`. The process ends with the block."""
        command = [sys.executable, "-m", waiting.__name__, str(folder / _PIPELINE), bootstrap]
        with (folder / _LOG).open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors
            )
        try:
            yield cls(folder, process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def make_table(self, say: Callable[[str], None]) -> Sold:
        """Runs the pipeline over the records of the topic; each line that it prints goes to `say`."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        with suppress(ConnectionError):
            # A process that has failed by now is reported below, by its status.
            process.stdin.write(b"\n")
            await process.stdin.drain()
        async for line in process.stdout:
            say(line.decode("utf-8", "replace").rstrip())
        status = await process.wait()
        if status != 0:
            raise ClusterError(f"the pipeline ended with status {status}: {last_lines(self._folder / _LOG, 3)}")
        return await asyncio.to_thread(_sum_up, self._folder / "table")


def _sum_up(folder: Path) -> Sold:
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(str(folder), format="parquet").to_table()
    by_item = table.group_by("item").aggregate([("price", "count"), ("price", "sum")]).sort_by("item").to_pylist()
    return Sold(
        rows=table.num_rows,
        distinct=table.group_by(["writer", "number"]).aggregate([]).num_rows,
        items={row["item"]: (row["price_count"], float(row["price_sum"])) for row in by_item},
    )
