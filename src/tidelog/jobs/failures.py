"""What went wrong on Spark, in one line."""

import re
from typing import Final

from tidelog.spark.history import ADVICE, DataLoss

_PYTHON_ERROR: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*): (.+)$", re.MULTILINE)
# What stands before a colon in those pages beside errors, and the one error that only wraps another.
_NO_CAUSE: Final = ("SQLSTATE", "PythonException", "SparkException")
_SPARKS: Final = ("pyspark", "py4j")


def is_sparks(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in _SPARKS


def one_line(error: BaseException) -> str:
    """What Spark says is a page with two stack traces in it; the cause is the last Python error there."""
    text = _without_plan(error)
    if not is_sparks(error):
        return " ".join(f"{type(error).__name__}: {text}".split()) if text else type(error).__name__
    cause = _python_cause(text)
    if cause is not None:
        return cause[1]
    # Py4J tells first which call has failed, and then why.
    told = [line for line in text.splitlines() if line.strip()] or [type(error).__name__]
    why = told[1].removeprefix(": ") if len(told) > 1 and told[1].startswith(": ") else told[0]
    return " ".join(why.split())


def lost_records(error: BaseException) -> str | None:
    """Which records a query has lost, if it ended with that, without what a query would have to be told."""
    cause = _python_cause(_without_plan(error))
    if cause is None or cause[0] != DataLoss.__name__:
        return None
    return cause[1].removesuffix(f". {ADVICE}")


def _without_plan(error: BaseException) -> str:
    return str(error).partition("=== Streaming Query ===")[0]


def _python_cause(text: str) -> tuple[str, str] | None:
    """Kind and words of the last Python error in a text with a traceback."""
    if "Traceback (most recent call last)" not in text:
        return None
    found = [(kind, " ".join(words.split())) for kind, words in _PYTHON_ERROR.findall(text) if kind not in _NO_CAUSE]
    return found[-1] if found else None
