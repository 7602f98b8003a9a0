"""What went wrong on Spark, in one line."""

import re
from typing import Final

_PYTHON_ERROR: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*): (.+)$", re.MULTILINE)
# What stands before a colon in those pages beside errors, and the one error that only wraps another.
_NO_CAUSE: Final = ("SQLSTATE", "PythonException", "SparkException")
_SPARKS: Final = ("pyspark", "py4j")


def is_sparks(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in _SPARKS


def one_line(error: BaseException) -> str:
    """What Spark says is a page with two stack traces in it; the cause is the last Python error there."""
    text = str(error).partition("=== Streaming Query ===")[0]
    if not is_sparks(error):
        return " ".join(f"{type(error).__name__}: {text}".split()) if text else type(error).__name__
    if "Traceback (most recent call last)" in text:
        found = [words for kind, words in _PYTHON_ERROR.findall(text) if kind not in _NO_CAUSE]
        if found:
            return " ".join(found[-1].split())
    # Py4J tells first which call has failed, and then why.
    told = [line for line in text.splitlines() if line.strip()] or [type(error).__name__]
    why = told[1].removeprefix(": ") if len(told) > 1 and told[1].startswith(": ") else told[0]
    return " ".join(why.split())
