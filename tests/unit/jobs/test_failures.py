"""What Spark says in pages, in one line."""

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidelog.jobs.failures import lost_records, one_line
from tidelog.spark.history import DataLoss

LOST = "orders-0: offsets 0 to 9 were read and have been replaced: it was recreated"
STREAM = f"""[STREAM_FAILED] Query [id = d6, runId = 50] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] \
Failed when Python streaming data source perform planPartitions: Traceback (most recent call last):
  File "/x/planning.py", line 215, in _data_loss
    raise DataLoss("; ".join(lines))
tidelog.spark.history.DataLoss: {DataLoss(LOST)}
 SQLSTATE: 38000
=== Streaming Query ===
Identifier: export orders
SQLSTATE: XXKST"""


def test_the_cause_is_the_last_error_of_python() -> None:
    said = one_line(PySparkException(STREAM))
    assert said == f"{LOST}. With failOnDataLoss=false the query continues with the records that exist"


def test_what_was_lost_is_told_without_the_option_of_a_query() -> None:
    assert lost_records(PySparkException(STREAM)) == LOST
    assert lost_records(PySparkException(STREAM.replace("DataLoss", "OSError"))) is None
    assert lost_records(PySparkException("[NO_SUCH_COLUMN] x")) is None


def test_without_one_the_first_line_is_told() -> None:
    assert one_line(PySparkException("[NO_SUCH_COLUMN] x\n  at y")) == "[NO_SUCH_COLUMN] x"
    assert one_line(Py4JError("An error occurred\n\tat java.lang")) == "An error occurred"
    stopped = "An error occurred while calling None.SparkSession.\n: java.lang.IllegalStateException: stopped\n\tat x"
    assert one_line(Py4JError(stopped)) == "java.lang.IllegalStateException: stopped"
    assert one_line(OSError("no\nroom")) == "OSError: no room"
