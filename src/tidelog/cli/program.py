"""How a user runs this program again: commands that `tidelog` prints for copying must work as printed."""

import shlex
import shutil
import sys
from pathlib import Path


def program() -> str:
    """`tidelog` if the PATH finds the running program under that name; otherwise its path, ready for a shell."""
    running = Path(sys.argv[0])
    if running.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m tidelog"
    found = shutil.which("tidelog")
    if found is None or not running.exists() or not running.samefile(found):
        return shlex.quote(sys.argv[0])
    return "tidelog"
