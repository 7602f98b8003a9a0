"""The Java that Spark runs on: which one a machine has, and what to say where it has none that will do."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

OLDEST: Final = 17
PACKAGE: Final = "openjdk-17-jre-headless"
NEEDED: Final = f"Spark needs Java {OLDEST} or newer"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ASKED_S: Final = 30


def program(environ: Mapping[str, str] = os.environ) -> str | None:
    """The one that Spark would start: JAVA_HOME goes before the path."""
    home = environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else environ.get("PATH"))


def major_version(told: str) -> int | None:
    """Of what `java -version` says: 17 of "17.0.12", and 8 of "1.8.0_402"."""
    found = _VERSION.search(told)
    return None if found is None else int(found[1])


def why_no_java(environ: Mapping[str, str] = os.environ) -> str | None:
    """None if there is one that will do; else a line that says how to get it."""
    java = program(environ)
    if java is None:
        there_is = f"JAVA_HOME={environ['JAVA_HOME']} has none" if environ.get("JAVA_HOME") else "there is none"
    else:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ASKED_S, check=False)
        version = major_version(done.stderr + done.stdout)
        if version is not None and version >= OLDEST:
            return None
        there_is = f"{java} " + ("has no readable version" if version is None else f"is Java {version}")
    return f"{NEEDED}, {there_is}: {how_to_get()}"


def how_to_get() -> str:
    """The one line to run."""
    if shutil.which("apt-get") is not None:
        return f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install -y {PACKAGE}"
    return "dnf install java-17-openjdk-headless, brew install openjdk@17, or https://adoptium.net"
