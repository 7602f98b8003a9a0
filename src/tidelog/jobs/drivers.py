"""The JVM of a driver that was killed may outlive it for a moment, and still finish and commit a batch.

Whoever goes on with its work has to wait for that: two that write to one checkpoint, or one that clears away what the
other is about to commit, would lose records.
"""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S: Final = 120.0
_POLL_S: Final = 0.1


class StillThere(RuntimeError):
    """In one line that names the process."""


@dataclass(frozen=True, slots=True)
class Jvm:
    """A process of this machine: its number, and when it began, so that no other is taken for it."""

    pid: int = 0
    born: str = ""

    def wait_until_gone(self, patience_s: float = PATIENCE_S) -> None:
        """StillThere if it does not end."""
        waited = 0.0
        while self.pid and self.born and birth(self.pid) == self.born:
            if waited > patience_s:
                raise StillThere(f"the JVM of the last run, process {self.pid}, has not ended for {patience_s:g} s")
            threading.Event().wait(_POLL_S)
            waited += _POLL_S


def jvm_of(spark: "SparkSession") -> Jvm:
    """The one that a session runs in."""
    jvm: Any = spark.sparkContext._jvm
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    return Jvm(pid, birth(pid))


def birth(pid: int) -> str:
    """When a process began, as the system tells it. Empty if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name in parentheses may have blanks and parentheses in it.
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]
