"""Kafka's tools against one cluster: each must end well and say nothing on stderr that complains."""

import re

from tests.interop.jvm import Ran, run_tool

# What the tools say on stderr when all is well.
CHATTER = re.compile(
    r"Processed a total of \d+ messages"
    r"|The consumer rebalance protocol \(KIP-848\) is production-ready!.*"
    r"|Consumer group '.*' has no active members\."
    r"|Consumer group '.*' is rebalancing\."
    r"|\s*"
)
COMPLAINT = re.compile(r"\bERROR\b|\bWARN\b|Exception|[Mm]ismatch|isvalid: false|[Cc]orrupt|not well-formed|Could not")


def complaints(ran: Ran) -> list[str]:
    noise = [line for line in ran.stderr.splitlines() if not CHATTER.fullmatch(line)]
    return noise + [line for line in ran.stdout.splitlines() if COMPLAINT.search(line)]


def clean(ran: Ran) -> Ran:
    assert ran.status == 0, str(ran)
    assert not complaints(ran), str(ran)
    return ran


class Tools:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def try_run(self, tool: str, *args: str, stdin: str | None = None) -> Ran:
        return run_tool(tool, "--bootstrap-server", self.bootstrap, *args, stdin=stdin)

    def run(self, tool: str, *args: str, stdin: str | None = None) -> Ran:
        return clean(self.try_run(tool, *args, stdin=stdin))

    def topics(self, *args: str) -> Ran:
        return self.run("kafka-topics", *args)

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> str:
        settings = [word for key, value in config.items() for word in ("--config", f"{key.replace('_', '.')}={value}")]
        self.topics("--create", "--topic", name, "--partitions", str(partitions), *settings)
        return name

    def produce(self, topic: str, lines: list[str], *args: str) -> None:
        self.run("kafka-console-producer", "--topic", topic, *args, stdin="".join(f"{line}\n" for line in lines))

    def consume(self, topic: str, count: int, *args: str) -> list[str]:
        ran = self.run(
            "kafka-console-consumer",
            *("--topic", topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000"),
            *args,
        )
        return ran.lines()

    def groups(self, *args: str) -> Ran:
        return self.run("kafka-consumer-groups", *args)


def rows(ran: Ran) -> list[dict[str, str]]:
    """A table of kafka-consumer-groups by its header: columns are apart by spaces."""
    header: list[str] = []
    found: list[dict[str, str]] = []
    for line in ran.lines():
        words = line.split()
        if words[0] == "GROUP":
            header = words
        elif header:
            found.append(dict(zip(header, words, strict=False)))
    return found
