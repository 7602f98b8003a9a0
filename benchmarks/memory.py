"""Memory that the host has really given to this machine.

A virtual machine may hand free memory back to its host (free page reporting), within a second or two. Whoever touches
it next pays for it once more: up to 1 s a GB, in page cache as well as in buffers. What is measured in turns would
then depend on how long ago somebody else deleted a file.
"""

import mmap
from typing import Final

CHUNK: Final = 1 << 20


def warm(size: int) -> None:
    """So many bytes of free memory have been touched a moment ago."""
    ones = b"\1" * CHUNK
    with mmap.mmap(-1, size) as touched:
        for _ in range(size // CHUNK):
            touched.write(ones)
