"""What the JVM and its workers print: Java's and Spark's lines stay in the log, all others reach the terminal."""

import os
from pathlib import Path

import pytest

from tidelog.jobs.jvm_output import JvmOutput, is_javas

JAVAS = (
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "OpenJDK 64-Bit Server VM warning: Sharing is only supported for boot loader classes",
    "Picked up JAVA_TOOL_OPTIONS: -Xmx1g",
    "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
    'Setting default log level to "WARN".',
    "26/11/20 00:11:30 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform",
    "00:11:30 ERROR Utils: Aborting task",
    "SLF4J: Failed to load class",
    "WARNING: An illegal reflective access operation has occurred",
    "java.io.IOException: No space left on device",
    "\tat org.apache.spark.util.Utils$.tryWithResource(Utils.scala:2748)",
    "\tat java.base/java.lang.Thread.run(Thread.java:840)",
    "\t... 12 more",
    "Caused by: java.lang.OutOfMemoryError: Java heap space",
)
OTHERS = (
    "orders-0: offsets 3 to 7 are lost to this query: the log begins at 8",
    "compiled code cannot be kept, every process takes some seconds to compile (NUMBA_CACHE_DIR names a place)",
    "printed by a function of the user",
    "",
)
TRACEBACK = "Traceback (most recent call last):"


@pytest.mark.parametrize("line", JAVAS)
def test_lines_of_java_and_spark(line: str) -> None:
    assert is_javas(line)


@pytest.mark.parametrize("line", OTHERS)
def test_other_lines(line: str) -> None:
    assert not is_javas(line)


def read(*lines: str) -> tuple[JvmOutput, list[str]]:
    """What the terminal shows of a JVM that has printed these lines and ended."""
    output = JvmOutput()
    shown: list[str] = []
    output.relay = shown.append
    os.write(output.writing, "".join(f"{line}\n" for line in lines).encode())
    output.launched()
    output.reason()
    return output, shown


def test_everything_is_in_the_log_and_the_rest_is_relayed() -> None:
    output, shown = read(*JAVAS, *OTHERS)
    assert shown == list(OTHERS)
    assert output.log.read_text().splitlines() == [*JAVAS, *OTHERS]
    assert output.kept_log(failed=False) is None
    assert not output.log.exists()


@pytest.mark.parametrize(
    ("line", "kept"), [(JAVAS[0], False), (JAVAS[5], False), (JAVAS[6], True), (JAVAS[13], False), (TRACEBACK, True)]
)
def test_the_log_of_a_failure_is_kept_if_it_explains_something(line: str, kept: bool) -> None:
    output, _ = read(line)
    log = output.kept_log(failed=True)
    assert (log is not None) == kept == output.log.exists()
    output.log.unlink(missing_ok=True)


def test_the_reason_why_a_jvm_does_not_start_is_its_first_line_of_its_own() -> None:
    output, _ = read(
        JAVAS[0], "  ", "Unrecognized VM option 'UseNothing'", "Error: Could not create the Java Virtual Machine."
    )
    assert output.reason() == "Unrecognized VM option 'UseNothing'"
    log = output.kept_log(failed=True)
    assert isinstance(log, Path)
    log.unlink()


def test_a_traceback_of_spark_itself_is_left_out_and_any_other_is_not() -> None:
    sparks = [
        TRACEBACK,
        '  File "/venv/site-packages/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager',
        "    code = worker(sock, authenticated)",
        '  File "/venv/site-packages/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker',
        "BrokenPipeError: [Errno 32] Broken pipe",
    ]
    users = [*sparks[:2], '  File "/home/me/risk.py", line 3, in score', "ValueError: no risk"]
    _, shown = read(*sparks, "between", *users, "after", TRACEBACK)
    assert shown == ["between", *users, "after", TRACEBACK]
