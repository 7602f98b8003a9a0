"""What the parts of a pipeline's file share: its directory, the brokers it is about, and how refusals are told."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.jobs.pipeline.mistakes import Keys

# Of tables and sinks that are files in a directory.
FILES: Final = ("parquet", "json", "csv", "orc", "text")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def is_address(path: str) -> bool:
    return _ADDRESS.match(path) is not None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`bootstrap` is for what names none, and `security`, a Kafka client's properties, for what reads or writes there
    and has none of its own.
    """

    file: Path
    bootstrap: str
    security: Mapping[str, str]

    def path(self, text: str) -> str:
        """As it is from the file's directory; addresses stay what they are."""
        return text if is_address(text) else os.path.normpath(self.file.parent / text)

    def secure(self, options: dict[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        if given["kafka.bootstrap.servers"] == self.bootstrap and "kafka.security.protocol" not in given:
            options |= {f"kafka.{key}": value for key, value in self.security.items()}


def blamed(keys: Keys, options: dict[str, str], words: str) -> str:
    """The key in the file behind an option that a refusal names."""
    if "starting" in keys and "startingOffsets" in words:
        return "starting"
    if "assign, subscribe and" in words:
        if "topics" in keys or "pattern" in keys:
            return "topics" if "topics" in keys else "pattern"
        return ""
    named = [option for option in options if option in words]
    return f"options.{max(named, key=len)}" if named else ""
