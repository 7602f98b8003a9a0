"""The demo's act on Spark: a pipeline file, run in a process of its own, and the table that comes of it."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidelog.cli.demo.writing import TOPIC
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.process import last_lines

_FILE = f"""\
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
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sold:
    """The table, summed up."""

    rows: int
    distinct: int
    # By item: how many, and for how much.
    items: dict[str, tuple[int, float]]


async def make_table(folder: Path, bootstrap: str, say: Callable[[str], None]) -> Sold:
    """Runs the pipeline over what is in the topic; each line that it prints goes to `say`."""
    file = folder / "pipeline.toml"
    file.write_text(_FILE)
    command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(file), "--once", "--bootstrap", bootstrap]
    log = folder / "spark.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            say(line.decode("utf-8", "replace").rstrip())
        status = await process.wait()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if status != 0:
        raise ClusterError(f"the pipeline ended with status {status}: {last_lines(log, 3)}")
    return await asyncio.to_thread(_sum_up, folder / "table")


def _sum_up(folder: Path) -> Sold:
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(str(folder), format="parquet").to_table()
    by_item = table.group_by("item").aggregate([("price", "count"), ("price", "sum")]).sort_by("item").to_pylist()
    return Sold(
        rows=table.num_rows,
        distinct=table.group_by(["writer", "number"]).aggregate([]).num_rows,
        items={row["item"]: (row["price_count"], float(row["price_sum"])) for row in by_item},
    )
