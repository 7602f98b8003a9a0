"""Apache Kafka's own jars, fetched once from Maven by artifact name into `.cache/kafka-tools/<version>`."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.interop.registries import NO_ANSWER, RegistryUnreachable, ensure_debian

HERE = Path(__file__).resolve().parent
POM = HERE / "kafka-tools" / "pom.xml"
CACHE = HERE.parents[1] / ".cache" / "kafka-tools"
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCH_SECONDS = 300


class JarsBroken(Exception):
    """The registry answered, and still we have no jars: a failure."""


def kafka_version() -> str:
    found = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", POM.read_text())
    if found is None:
        raise JarsBroken(f"{POM} names no kafka.version")
    return found.group(1)


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    return found or ensure_debian("java", "default-jre-headless")


def ensure_jars() -> Path:
    """The directory of jars; asks Maven only the first time. Safe when several workers ask at once."""
    target = CACHE / kafka_version()
    if target.is_dir():
        return target
    maven = ensure_debian("mvn", "maven")
    CACHE.mkdir(parents=True, exist_ok=True)
    partial = CACHE / f".{kafka_version()}.{os.getpid()}"
    command = [maven, "-B", "-q", "-ntp", "-f", str(POM), COPY_GOAL, f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise RegistryUnreachable(f"Maven did not answer in {FETCH_SECONDS} s") from error
    output = done.stdout + done.stderr
    if done.returncode != 0 and NO_ANSWER.search(output):
        raise RegistryUnreachable("Maven's registry does not answer")
    if done.returncode != 0:
        raise JarsBroken(f"Maven failed:\n{output}")
    try:
        partial.rename(target)
    except OSError as error:
        if not target.is_dir():
            raise JarsBroken(f"cannot keep the jars in {target}: {error}") from error
        shutil.rmtree(partial)  # another worker was first
    return target
