"""What Spark says in pages, in one line."""

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidelog.jobs.failures import one_line

STREAM = """[STREAM_FAILED] Query [id = d6, runId = 50] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] \
Failed when Python streaming data source perform planPartitions: Traceback (most recent call last):
  File "/x/planning.py", line 215, in _data_loss
    raise DataLoss("; ".join(lines))
tidelog.spark.history.DataLoss: orders-0: offsets 0 to 9 were read and have been replaced: it was made anew
 SQLSTATE: 38000
=== Streaming Query ===
Identifier: export orders
SQLSTATE: XXKST"""


def test_the_cause_is_the_last_error_of_python() -> None:
    assert one_line(PySparkException(STREAM)) == (
        "orders-0: offsets 0 to 9 were read and have been replaced: it was made anew"
    )


def test_without_one_the_first_line_is_told() -> None:
    assert one_line(PySparkException("[NO_SUCH_COLUMN] x\n  at y")) == "[NO_SUCH_COLUMN] x"
    assert one_line(Py4JError("An error occurred\n\tat java.lang")) == "An error occurred"
    stopped = "An error occurred while calling None.SparkSession.\n: java.lang.IllegalStateException: stopped\n\tat x"
    assert one_line(Py4JError(stopped)) == "java.lang.IllegalStateException: stopped"
    assert one_line(OSError("no\nroom")) == "OSError: no room"
