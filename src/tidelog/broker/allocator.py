"""The C library's allocator in a node's process: memory that was given back is kept for the next buffer.

A fetch is answered from buffers of up to a megabyte, freed as soon as they are sent. glibc hands such memory back to
the kernel at once, and every page of the next buffer is a fault and a page to clear: half of what a leader did while a
follower caught up.
"""

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

# More than a replica's whole answer, so that its buffer is one of those that are kept.
KEPT_ALLOCATION_BYTES: Final = 16 * 1024 * 1024
# What may lie free at the end of the heap: an answer for each follower, and what clients read meanwhile.
KEPT_FREE_BYTES: Final = 32 * 1024 * 1024


def keep_freed_memory() -> bool:
    """Whether the C library is one that can be told so: glibc is, and others do without."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, KEPT_ALLOCATION_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_FREE_BYTES))
