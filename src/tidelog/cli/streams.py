"""Standard input, output and error of the command."""

import io
import os
import sys


def prepare_streams() -> None:
    """Opens streams that the caller has closed, as with `>&-`, and lets stdout print every character.

    Otherwise the next socket or file would get the number of the closed stream, and output would go into it.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free number is this one. A node that replaces this process keeps it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python has none for a stream that was closed. They live as long as the process.
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show an ellipsis gets its code, not a traceback. Python does the same for stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
