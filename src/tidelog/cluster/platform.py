"""Where we run. Linux is supported, macOS as well as it goes."""

import platform
from typing import Final

# A plain bool rather than `sys.platform`, so that type checkers look at both sides.
ON_LINUX: Final[bool] = platform.system() == "Linux"
