"""The logs in which Spark keeps what a query has planned and written: a file for each batch, named by its number."""

from collections.abc import Iterable
from typing import Final

# Every tenth entry of the log of written files holds all before it.
COMPACTED: Final = ".compact"
NO_BATCH: Final = -1


def newest_batch(names: Iterable[str]) -> int:
    """Of the files in such a log; NO_BATCH if there is none."""
    numbers = (name.removesuffix(COMPACTED) for name in names)
    return max((int(each) for each in numbers if each.isdecimal()), default=NO_BATCH)
