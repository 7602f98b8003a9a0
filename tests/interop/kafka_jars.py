"""Jars from Maven, fetched once by artifact name into `.cache`: Apache Kafka's own, and Spark's connector for it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.interop.registries import NO_ANSWER, RegistryUnreachable, ensure_debian

HERE = Path(__file__).resolve().parent
POM = HERE / "kafka-tools" / "pom.xml"
CONNECTOR_POM = HERE / "spark-kafka" / "pom.xml"
CACHE = HERE.parents[1] / ".cache"
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCH_SECONDS = 300


class JarsBroken(Exception):
    """The registry answered, and still we have no jars: a failure."""


def _version(pom: Path, what: str) -> str:
    name = re.escape(f"{what}.version")
    found = re.search(f"<{name}>([^<]+)</{name}>", pom.read_text())
    if found is None:
        raise JarsBroken(f"{pom} names no {what}.version")
    return found.group(1)


def kafka_version() -> str:
    return _version(POM, "kafka")


def connector_version() -> str:
    return _version(CONNECTOR_POM, "connector")


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    return found or ensure_debian("java", "default-jre-headless")


def ensure_jars() -> Path:
    """The directory of jars; asks Maven only the first time. Safe when several workers ask at once."""
    return _ensure(POM, kafka_version())


def ensure_connector() -> list[Path]:
    """The jars of Spark's own Kafka connector."""
    return sorted(_ensure(CONNECTOR_POM, connector_version()).glob("*.jar"))


def _ensure(pom: Path, version: str) -> Path:
    cache = CACHE / pom.parent.name
    target = cache / version
    if target.is_dir():
        return target
    maven = ensure_debian("mvn", "maven")
    cache.mkdir(parents=True, exist_ok=True)
    partial = cache / f".{version}.{os.getpid()}"
    command = [maven, "-B", "-q", "-ntp", "-f", str(pom), COPY_GOAL, f"-DoutputDirectory={partial}"]
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
