"""Running a main class of Apache Kafka: the short-lived tools and the long-lived ones alike."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.kafka_jars import HERE, ensure_jars, java

TOOL_SECONDS = 60

TOOLS = {
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-server-start": "kafka.Kafka",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a tool left behind."""

    command: str
    status: int
    stdout: str
    stderr: str

    def lines(self) -> list[str]:
        return [line for line in self.stdout.splitlines() if line.strip()]

    def __str__(self) -> str:
        return f"$ {self.command}\nexit {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


# A short-lived JVM starts faster with these.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def command_line(
    tool: str,
    *args: str,
    heap_mb: int = 256,
    properties: Mapping[str, str] | None = None,
    jvm: Sequence[str] = SHORT_LIVED,
) -> list[str]:
    """`java` with the options `jvm`, and with WARN and above logged to stderr."""
    jars = ensure_jars()
    settings = {
        "log4j2.configurationFile": str(HERE / "kafka-tools" / "log4j2.properties"),
        **(properties or {}),
    }
    return [
        java(),
        *jvm,
        f"-Xmx{heap_mb}m",
        *(f"-D{key}={value}" for key, value in settings.items()),
        "-cp",
        f"{jars}/*",
        TOOLS[tool],
        *args,
    ]


def run_tool(tool: str, *args: str, stdin: str | None = None, timeout: float = TOOL_SECONDS) -> Ran:
    """Runs a tool to its end, whatever that end is."""
    done = subprocess.run(
        command_line(tool, *args),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    shown = " ".join([tool, *args])
    return Ran(command=shown, status=done.returncode, stdout=done.stdout, stderr=done.stderr)


def start_tool(
    tool: str,
    *args: str,
    log: Path,
    heap_mb: int = 256,
    properties: Mapping[str, str] | None = None,
    jvm: Sequence[str] = SHORT_LIVED,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[str]:
    """Starts a tool that goes on until it is ended; both its outputs go to one file that can be watched."""
    command: Sequence[str] = command_line(tool, *args, heap_mb=heap_mb, properties=properties, jvm=jvm)
    with log.open("w") as sink:
        return subprocess.Popen(command, stdin=stdin, stdout=sink, stderr=subprocess.STDOUT, text=True)
