"""What a node tells the C library's allocator; in processes of their own, since it cannot be taken back."""

import platform
import subprocess
import sys

import pytest

ROUNDS = 100
# Four buffers of a megabyte, all there at once and then freed, again and again; prints the faults of the last rounds.
PROGRAM = f"""
import resource, sys
if sys.argv[1] == "kept":
    from tidelog.broker.allocator import keep_freed_memory
    assert keep_freed_memory()
def answer():
    return [bytearray(1 << 20) for _ in range(4)]
for _ in range(4):
    answer()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    answer()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_buffers_that_were_freed_are_used_again_without_a_page_fault() -> None:
    assert faults("kept") < ROUNDS
    # Else there would be nothing to tell it: a thousand pages a round.
    assert faults("not kept") > 100 * ROUNDS
