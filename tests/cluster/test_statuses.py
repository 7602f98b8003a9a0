"""The exit statuses of the contract for every command: 2 for bad usage, 1 for a failure, and nothing left behind.

Each case is a command line. `{…}` are places that the fixtures name. What fails without a cluster, in the same words
for every client command, is in `tests/unit/cli/test_usage.py`.
"""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

import pytest
import typer
from tests.cluster.commands import Commands
from tests.unit.cli.test_usage import ALL_COMMANDS, options

from tidelog.broker.__main__ import main as broker_main
from tidelog.cli import server
from tidelog.testing import Cluster

USAGE: Final = 2
FAILURE: Final = 1

# Commands that cannot fail once their options are right.
NEVER_FAIL: Final = {"random-uuid", "scenario list"}

# The words name the thing that is wrong, so that the prose around it can change.
CASES: Final = [
    # --- clusters and nodes ---
    (FAILURE, "up --data {file}", "{file}"),
    (FAILURE, "up --data {data} --ui-port 0", "{data}"),
    (FAILURE, "up --data {data} --brokers 2 --ui-port 0", "brokers"),
    (FAILURE, "up --port {busy} --ui-port 0", "--port"),
    (FAILURE, "up --port {busy} --ui-port 0 --detach", "--port"),
    (FAILURE, "up --brokers 1 --port {closed} --ui-port {busy}", "--ui-port"),
    (USAGE, "up --brokers 1 --port {closed} --set num.partition=3", "did you mean num.partitions?"),
    (USAGE, "up --brokers 1 --port {closed} --set num.partition=3 --detach", "did you mean num.partitions?"),
    (USAGE, "up --brokers 1 --port {closed} --set log.retention.ms=soon", "log.retention.ms=soon"),
    (USAGE, "up --brokers 0", "broker"),
    (USAGE, "up --ui-port 70000", "--ui-port"),
    (FAILURE, "down --data nowhere", "nowhere"),
    (USAGE, "down --date nowhere", "--date"),
    (FAILURE, "status --data nowhere", "nowhere"),
    (USAGE, "status --interval 0", "--interval"),
    (FAILURE, "node --config nowhere", "nowhere"),
    (FAILURE, "node --config {directory}", "{directory}"),
    (FAILURE, "node --config {unformatted}", "tidelog format"),
    (USAGE, "node --config {words}", "required"),
    (USAGE, "node --config {unformatted} --set num.partition=3", "did you mean num.partitions?"),
    (USAGE, "node --config {unformatted} --set num.partitions", "--set"),
    (USAGE, "node", "--config"),
    (FAILURE, "format --config nowhere", "nowhere"),
    (USAGE, "format --config {words}", "required"),
    (USAGE, "format --config {unformatted} --cluster-id a/b", "--cluster-id"),
    (USAGE, "format --config {unformatted} --standalone --no-initial-controllers", "--standalone"),
    (USAGE, "random-uuid 1", "unexpected"),
    (FAILURE, "chaos kill 9 --data {data}", "node 9"),
    (FAILURE, "chaos stop 9 --data {data}", "node 9"),
    (FAILURE, "chaos start 9 --data {data}", "node 9"),
    (FAILURE, "chaos start 1 --data {data}", "node 1"),
    (FAILURE, "chaos pause 9 --data {data}", "node 9"),
    (FAILURE, "chaos resume 9 --data {data}", "node 9"),
    (FAILURE, "chaos resume 1 --data {data}", "node 1"),
    (FAILURE, "chaos isolate 9 --data {data}", "node 9"),
    (FAILURE, "chaos isolate 1 --from 9 --data {data}", "node 9"),
    (FAILURE, "chaos slow 9 --ms 1 --data {data}", "node 9"),
    (FAILURE, "chaos heal --data nowhere", "nowhere"),
    (FAILURE, "chaos kill 1 --data nowhere", "nowhere"),
    *((USAGE, f"chaos {verb} one --data {{data}}", "NODE") for verb in ("kill", "stop", "start", "pause", "resume")),
    (USAGE, "chaos isolate 1 --from two --data {data}", "--from"),
    (USAGE, "chaos isolate 1 --from 1 --data {data}", "node 1"),
    (USAGE, "chaos slow 1 --data {data}", "--ms"),
    (USAGE, "chaos heal 1", "unexpected"),
    (FAILURE, "demo --no-spark --report nowhere/report.html", "nowhere"),
    (FAILURE, "demo --no-spark --report {directory}", "{directory}"),
    (USAGE, "demo --seconds 0", "--seconds"),
    # --- topics, records and groups ---
    (FAILURE, "topics create here", "here"),
    (FAILURE, "topics create many --replication-factor 2", "replication"),
    (FAILURE, "topics create odd --config retention.m=1", "did you mean retention.ms?"),
    (USAGE, "topics create", "NAME"),
    (USAGE, "topics create new --partitions 0", "--partitions"),
    *(
        (USAGE, line, "a+b")
        for line in (
            "topics create a+b",
            "topics describe a+b",
            "topics alter a+b --partitions 2",
            "topics delete a+b",
            "configs describe --topic a+b",
            "configs alter --topic a+b --set retention.ms=1",
            "produce a+b",
            "consume a+b",
            "offsets a+b",
            "groups reset-offsets g --topic a+b --to-latest",
            "elect --preferred --topic a+b",
            "reassign a+b --partition 0 --replicas 1",
            "replicas a+b",
            "audit --topic a+b",
            "export a+b exported",
            "verify --topic a+b",
        )
    ),
    (USAGE, f"topics create {'a' * 250}", "249"),
    (USAGE, "consume here --group=", "--group"),
    (FAILURE, "topics describe nowhere", "nowhere"),
    (USAGE, "topics describe --above", "--above"),
    (FAILURE, "topics alter nowhere --partitions 9", "nowhere"),
    (FAILURE, "topics alter here --partitions 1", "partitions"),
    (USAGE, "topics alter here", "--partitions"),
    (FAILURE, "topics delete nowhere", "nowhere"),
    (USAGE, "topics delete", "NAME"),
    (FAILURE, "topics list --bootstrap 127.0.0.1:{closed}", "{closed}"),
    (USAGE, "topics list --bootstrap nowhere", "--bootstrap"),
    (FAILURE, "configs describe --topic nowhere", "nowhere"),
    (FAILURE, "configs describe --broker 9", "9"),
    (USAGE, "configs describe", "--topic"),
    (FAILURE, "configs alter --topic nowhere --set retention.ms=1", "nowhere"),
    (FAILURE, "configs alter --topic here --set log.retention.ms=1", "topics take retention.ms"),
    (USAGE, "configs alter --topic here", "--set"),
    (FAILURE, "produce here --partition 9", "no partition 9"),
    (FAILURE, "produce nowhere --partition 9", "no partition 9"),
    (FAILURE, "produce nowhere --key-separator :", "line 1"),
    (USAGE, "produce here --acks 2", "--acks"),
    (FAILURE, "consume nowhere", "nowhere"),
    (FAILURE, "consume nowhere --group g", "nowhere"),
    (FAILURE, "consume here --partition 9", "no partition 9"),
    (FAILURE, "consume here --partition 0 --offset 99", "offset 99"),
    (USAGE, "consume here --offset 1", "--partition"),
    (FAILURE, "offsets nowhere", "nowhere"),
    (USAGE, "offsets here --time yesterday", "--time"),
    (FAILURE, "groups describe nowhere", "nowhere"),
    (USAGE, "groups describe", "GROUP"),
    (FAILURE, "groups delete nowhere", "nowhere"),
    (USAGE, "groups delete", "GROUP"),
    (FAILURE, "groups reset-offsets g --topic nowhere --to-latest --execute", "nowhere"),
    (FAILURE, "groups reset-offsets g --topic here --partition 9 --to-latest --execute", "no partition 9"),
    (FAILURE, "groups reset-offsets g --topic here --shift-by 1", "here-0"),
    (USAGE, "groups reset-offsets g --topic here", "--to-"),
    (FAILURE, "groups list --bootstrap 127.0.0.1:{closed}", "{closed}"),
    (USAGE, "groups list here", "unexpected"),
    # --- replication ---
    (FAILURE, "elect --preferred --topic nowhere", "nowhere"),
    (FAILURE, "elect --preferred --topic here --partition 9", "here-9"),
    (USAGE, "elect", "--preferred"),
    (FAILURE, "reassign nowhere --partition 0 --replicas 1", "nowhere"),
    (FAILURE, "reassign here --partition 9 --replicas 1", "no partition 9"),
    (FAILURE, "reassign here --partition 0 --replicas 9", "9"),
    (FAILURE, "reassign here --partition 0 --replicas 9 --throttle 1000", "9"),
    (FAILURE, "reassign --cancel", "reassignment"),
    (FAILURE, "reassign nowhere --list", "nowhere"),
    (USAGE, "reassign here --partition 0 --replicas one", "--replicas"),
    (FAILURE, "quorum describe --bootstrap 127.0.0.1:{closed}", "{closed}"),
    (USAGE, "quorum describe here", "unexpected"),
    (FAILURE, "quorum add --id 9 --endpoint CONTROLLER://127.0.0.1:1", "node 9"),
    (USAGE, "quorum add --id 9 --endpoint nowhere", "--endpoint"),
    (FAILURE, "quorum remove --id 9", "node 9"),
    (USAGE, "quorum remove", "--id"),
    (FAILURE, "replicas nowhere", "nowhere"),
    (FAILURE, "replicas here --partition 9", "no partition 9"),
    (USAGE, "replicas here --partition -1", "--partition"),
    (FAILURE, "dump nowhere.log", "nowhere.log"),
    (FAILURE, "dump {directory}", "{directory}"),
    (USAGE, "dump {words}", "words.txt"),
    # --- simulation, verification and measurement ---
    (FAILURE, "scenario run nowhere", "nowhere"),
    (FAILURE, "scenario run {directory}", "{directory}"),
    (USAGE, "scenario run", "NAME"),
    (USAGE, "scenario list here", "unexpected"),
    (FAILURE, "sim --replay 1 --minutes 0.01 --trace nowhere/trace.jsonl", "nowhere"),
    (USAGE, "sim --faults rain", "rain"),
    (FAILURE, "page nowhere.jsonl", "nowhere.jsonl"),
    (FAILURE, "page {directory}", "{directory}"),
    (USAGE, "page {words}", "{words}"),
    (FAILURE, "verify --check nowhere.jsonl", "nowhere.jsonl"),
    (FAILURE, "verify --history nowhere/history.jsonl", "nowhere"),
    (FAILURE, "verify --faults pause --data nowhere", "nowhere"),
    (USAGE, "verify --faults rain --data {data}", "rain"),
    (FAILURE, "bench --bootstrap 127.0.0.1:{closed}", "{closed}"),
    (USAGE, "bench --acks 2", "--acks"),
    # --- jobs on Spark ---
    (FAILURE, "pipeline run nowhere.toml", "nowhere.toml"),
    (FAILURE, "pipeline run {directory}", "{directory}"),
    (USAGE, "pipeline run", "FILE"),
    (FAILURE, "pipeline validate nowhere.toml", "nowhere.toml"),
    (USAGE, "pipeline validate", "FILE"),
    (FAILURE, "pipeline status nowhere.toml", "nowhere.toml"),
    (USAGE, "pipeline status", "FILE"),
    (FAILURE, "audit --data nowhere", "nowhere"),
    (FAILURE, "audit --topic nowhere", "nowhere"),
    (FAILURE, "audit --data {data} --html nowhere/page.html", "nowhere"),
    (USAGE, "audit --data {data} --bootstrap 127.0.0.1:1", "--bootstrap"),
    (FAILURE, "campaign --seeds 1 --html nowhere/page.html", "nowhere"),
    (USAGE, "campaign --seeds some", "--seeds"),
    (FAILURE, "export nowhere exported", "nowhere"),
    (FAILURE, "export here {file}", "{file}"),
    (USAGE, "export here", "DIR"),
    (FAILURE, "health --html nowhere/page.html", "nowhere"),
    (FAILURE, "health", "replication events"),
    (USAGE, "health --window 0", "--window"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.create_topic("here")
        yield running


@pytest.fixture(scope="module")
def tidelog(cluster: Cluster) -> Commands:
    return Commands(cluster.bootstrap)


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, str]]:
    """One that another program listens on, and one that nobody does."""
    with socket.create_server(("127.0.0.1", 0)) as busy, socket.socket() as closed:
        closed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        closed.bind(("127.0.0.1", 0))
        yield {"busy": str(busy.getsockname()[1]), "closed": str(closed.getsockname()[1])}


@pytest.fixture
def places(tmp_path: Path, cluster: Cluster, ports: dict[str, str]) -> dict[str, str]:
    directory, file, words, unformatted = (tmp_path / name for name in ("directory", "file", "words.txt", "properties"))
    directory.mkdir()
    file.touch()
    words.write_text("These are only words.\n")
    unformatted.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path / 'unformatted'}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{ports['closed']},CONTROLLER://127.0.0.1:1\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:1\n"
    )
    named = {"directory": directory, "file": file, "words": words, "unformatted": unformatted}
    return {"data": str(cluster.directory)} | ports | {name: str(path) for name, path in named.items()}


def become_broker(arguments: list[str]) -> NoReturn:
    """In this process, for the sake of speed."""
    raise typer.Exit(broker_main(arguments))


@pytest.mark.parametrize(("status", "line", "words"), CASES, ids=[f"{status} {line}" for status, line, _ in CASES])
def test_the_status_of_a_mistake_and_nothing_left_behind(
    status: int,
    line: str,
    words: str,
    tidelog: Commands,
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = line.format(**places).split()
    monkeypatch.setattr(server, "_become_broker", become_broker)
    before = sorted(tmp_path.rglob("*"))
    said = tidelog.run(*arguments, stdin="no separator\n", status=status)
    assert words.format(**places).lower() in said.lower()
    assert sorted(tmp_path.rglob("*")) == before
    # Brokers create internal topics by themselves.
    assert [topic["name"] for topic in tidelog.json("topics", "list") if not topic["internal"]] == ["here"]


def test_every_command_has_a_case_of_each_kind() -> None:
    names = {" ".join(command) for command in ALL_COMMANDS}

    def named(kind: int) -> set[str]:
        return {
            name for name in names for status, line, _ in CASES if status == kind and f"{line} ".startswith(f"{name} ")
        }

    assert names - named(USAGE) == set()
    assert names - named(FAILURE) == NEVER_FAIL


CONFIGURED: Final = sorted(" ".join(each) for each in ALL_COMMANDS if "--command-config" in options(each))
ARGUMENTS: Final = {
    "configs alter": "--topic here --set retention.ms=1",
    "configs describe": "--topic here",
    "consume": "here",
    "elect": "--preferred",
    "export": "here exported",
    "groups delete": "g",
    "groups describe": "g",
    "groups reset-offsets": "g --topic here --to-latest",
    "offsets": "here",
    "pipeline run": "{pipeline}",
    "produce": "here",
    "quorum add": "--id 9 --endpoint CONTROLLER://127.0.0.1:1",
    "quorum remove": "--id 9",
    "reassign": "--list",
    "replicas": "here",
    "topics alter": "here --partitions 9",
    "topics create": "new",
    "topics delete": "here",
}


@pytest.mark.parametrize("command", CONFIGURED)
def test_the_properties_of_a_client_come_from_the_option_or_else_the_environment(
    command: str, tidelog: Commands, places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = tmp_path / "pipeline.toml"
    pipeline.write_text("")
    monkeypatch.chdir(tmp_path)
    arguments = [*command.split(), *ARGUMENTS.get(command, "").format(pipeline=pipeline).split()]
    missing = "--command-config: nowhere.properties: No such file or directory"
    assert missing in tidelog.run(*arguments, "--command-config", "nowhere.properties", status=FAILURE)
    bad = tmp_path / "bad.properties"
    bad.write_text("security.protocol=SMOKE\n")
    assert "SMOKE" in tidelog.run(*arguments, "--command-config", str(bad), status=USAGE)
    monkeypatch.setenv("TIDELOG_COMMAND_CONFIG", "nowhere.properties")
    assert missing in tidelog.run(*arguments, status=FAILURE)
    # An option wins over its variable.
    assert "SMOKE" in tidelog.run(*arguments, "--command-config", str(bad), status=USAGE)


def test_bootstrap_comes_from_the_option_or_else_the_environment(
    tidelog: Commands, cluster: Cluster, ports: dict[str, str]
) -> None:
    assert "here" in json.dumps(tidelog.json("topics", "list"))
    nobody = Commands(f"127.0.0.1:{ports['closed']}")
    assert ports["closed"] in nobody.run("topics", "list", status=FAILURE)
    assert "here" in nobody.run("topics", "list", "--bootstrap", cluster.bootstrap)
