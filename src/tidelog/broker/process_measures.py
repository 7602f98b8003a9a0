"""What the operating system knows of this process, under the names that Prometheus' own clients use."""

import os
import resource
from collections.abc import Iterator
from typing import Final

from tidelog import __version__
from tidelog.core.exposition import Metric, Sample, counter, gauge

_STATM: Final = "/proc/self/statm"
_DESCRIPTORS: Final = "/proc/self/fd"


def process_metrics(node_id: int) -> Iterator[Metric]:
    yield Metric(
        name="tidelog_build_info",
        kind="gauge",
        help="1; the version and the node's id are its labels.",
        samples=(Sample(1, {"version": __version__, "node_id": str(node_id)}),),
    )
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield counter("process_cpu_seconds_total", "CPU time, user and system.", used.ru_utime + used.ru_stime)
    if os.path.exists(_STATM):
        with open(_STATM, encoding="ascii") as file:
            resident_pages = int(file.read().split()[1])
        yield gauge("process_resident_memory_bytes", "Memory in use.", resident_pages * resource.getpagesize())
        yield gauge("process_open_fds", "Open files and sockets.", len(os.listdir(_DESCRIPTORS)))
