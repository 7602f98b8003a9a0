"""Two lengths of the same test: a few rounds in `make test`, all of them in `make soak`."""

import os
from typing import TypeVar

T = TypeVar("T")


def full_length() -> bool:
    return os.environ.get("TIDELOG_SOAK") == "1"


def rounds(few: T, all_of_them: T) -> T:
    return all_of_them if full_length() else few
