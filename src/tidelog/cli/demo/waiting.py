"""`python -m tidelog.cli.demo.waiting FILE BOOTSTRAP`: starts Spark, waits for a line on standard input, and then runs
the pipeline once. The demo starts it early, so that Spark is up when its act begins.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.jobs.pipeline.model import Source

# The brokers and writers of the demo go first: Java takes both cores of a small machine while it starts. On a busy
# machine more than this would starve Spark.
_NICE: Final = 5


def main(file: str, bootstrap: str) -> int:
    os.nice(_NICE)
    from tidelog.cli.output import CommandFailed
    from tidelog.cli.pipeline import run_queries, summary
    from tidelog.cli.pipeline_progress import Lines
    from tidelog.jobs.pipeline.parsing import load

    pipeline = load(Path(file), bootstrap=bootstrap)
    try:
        report = Lines(pipeline.name, is_json=False)
        state = run_queries(pipeline, None, report, once=True, ready=partial(_prepare, pipeline.sources[0]))
    except CommandFailed as error:
        print(error.message, file=sys.stderr)
        return error.status
    print(summary(state), flush=True)
    return 0


def _prepare(source: "Source", spark: "SparkSession") -> None:
    """Reads what the topic has so far, so that Python workers run and code is loaded, and waits for the demo's turn. If
    the demo has ended meanwhile, there is nothing to do.
    """
    from tidelog.jobs.pipeline import decoding

    frame = spark.read.format("tidelog").options(**source.options).load()
    decoding.good(frame, source).write.format("noop").mode("overwrite").save()
    if not sys.stdin.readline():
        raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
