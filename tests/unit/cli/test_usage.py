"""What every command owes its user: help with an example, one line for an error, the right status, no traceback."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cluster.ports import consecutive_ports
from tests.unit.client.toy_broker import ToyBroker
from tests.unit.client.toy_sasl import ToySasl

from tidelog.cli.app import app, run


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


ALL_COMMANDS = sorted(commands())


def options(command: tuple[str, ...]) -> set[str]:
    found: Any = typer.main.get_command(app)
    for word in command:
        found = found.commands[word]
    return {option for parameter in found.params for option in parameter.opts}


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", f"127.0.0.1:{port}")


CLIENTS = {
    *("produce", "consume", "offsets", "elect", "reassign", "replicas", "verify", "bench"),
    *("topics", "configs", "groups", "quorum"),
}


def test_the_commands_of_the_contract_are_there() -> None:
    here = "up down status node format dump sim audit campaign export health demo"
    assert {command[0] for command in ALL_COMMANDS} >= CLIENTS | set(here.split())
    assert {" ".join(command) for command in ALL_COMMANDS} >= {
        *(f"topics {verb}" for verb in ("create", "list", "describe", "alter", "delete")),
        *(f"configs {verb}" for verb in ("describe", "alter")),
        *(f"groups {verb}" for verb in ("list", "describe", "reset-offsets", "delete")),
        *(f"quorum {verb}" for verb in ("describe", "add", "remove")),
        *(f"chaos {verb}" for verb in ("kill", "stop", "start", "pause", "resume", "isolate", "slow", "heal")),
        *(f"scenario {verb}" for verb in ("list", "run")),
        *(f"pipeline {verb}" for verb in ("run", "validate", "status")),
    }


def test_every_command_speaks_to_programs() -> None:
    # A node has a log, and nothing to say beside it.
    assert {" ".join(command) for command in ALL_COMMANDS if "--json" not in options(command)} == {"node"}


def test_every_command_that_changes_something_can_be_silent() -> None:
    silent = {" ".join(command) for command in ALL_COMMANDS if "-q" in options(command)}
    assert silent == {
        *("up", "down", "format", "produce", "elect", "reassign", "export"),
        *(f"topics {verb}" for verb in ("create", "alter", "delete")),
        "configs alter",
        *(f"groups {verb}" for verb in ("reset-offsets", "delete")),
        *(f"quorum {verb}" for verb in ("add", "remove")),
        *(" ".join(command) for command in ALL_COMMANDS if command[0] == "chaos"),
    }
    assert {each for each in silent if "--quiet" not in options(tuple(each.split()))} == set()


def test_what_moves_can_be_watched() -> None:
    watched = {" ".join(command) for command in ALL_COMMANDS if "--watch" in options(command)}
    of_partitions = {"replicas", "offsets", "topics describe", "reassign"}
    assert watched == of_partitions | {"groups list", "groups describe", "quorum describe", "status"}


def test_client_commands_take_a_bootstrap() -> None:
    assert [each for each in ALL_COMMANDS if each[0] in CLIENTS and "--bootstrap" not in options(each)] == []


def test_client_commands_take_the_properties_of_a_client() -> None:
    asking = {" ".join(each) for each in ALL_COMMANDS if "--bootstrap" in options(each)}
    assert asking == {" ".join(each) for each in ALL_COMMANDS if "--command-config" in options(each)}


def test_a_command_shows_the_broker_who_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    broker = ToyBroker()
    server = ToySasl(broker, "anna", "s3cr3t")
    file = tmp_path / "client.properties"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="anna" password="s3cr3t";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")

    async def story() -> int:
        async with broker.serving():
            asked = ["topics", "list", "--json", "--bootstrap", str(broker.address), "--command-config", str(file)]
            return await asyncio.to_thread(run, asked)

    assert asyncio.run(story()) == 0
    assert (capsys.readouterr().out, server.authenticated) == ("[]\n", 1)


def test_what_a_shell_completes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    with pytest.raises(SystemExit) as ended:
        run(["--show-completion", "bash"])
    assert ended.value.code == 0 and "_TIDELOG_COMPLETE=complete_bash" in capsys.readouterr().out
    monkeypatch.setenv("_TIDELOG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tidelog topics de")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit) as ended:
        run([])
    assert ended.value.code == 0 and capsys.readouterr().out.split() == ["describe", "delete"]


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Example:" in out and f"tidelog {' '.join(command)}" in out.split("Example:")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["dance"],
        ["topics", "dance"],
        ["topics", "create"],
        ["topics", "create", "t", "--partitions", "many"],
        ["topics", "create", "t", "--partitions", "0"],
        ["topics", "create", "t", "--partitions", "2147483648"],
        ["topics", "create", "t", "--replication-factor", "32768"],
        ["topics", "create", "t", "--replica-assignment", "1:2147483648"],
        ["topics", "create", "t", "--replica-assignment", "1:-2"],
        ["topics", "create", "t", "--config", "novalue"],
        ["topics", "create", "t", "--replica-assignment", "1:x"],
        ["topics", "create", "t", "--replica-assignment", "1:2", "--partitions", "1"],
        ["topics", "alter", "t"],
        ["topics", "alter", "t", "--partitions", "2147483648"],
        ["topics", "list", "--bootstrap", "localhost"],
        ["configs", "describe"],
        ["configs", "describe", "--topic", "t", "--broker", "1"],
        ["configs", "describe", "--broker", "one"],
        ["configs", "alter", "--topic", "t"],
        ["produce", "t", "--acks", "2"],
        ["produce", "t", "--compression", "rar"],
        ["consume", "t", "--isolation", "none"],
        ["consume", "t", "--offset", "5"],
        ["consume", "t", "--partition", "0", "--offset", "x"],
        ["consume", "t", "--partition", "0", "--offset", "9223372036854775808"],
        ["consume", "t", "--partition", "0", "--offset", "9" * 5000],
        ["consume", "t", "--group", "g", "--partition", "0"],
        ["consume", "t", "--from-beginning", "--partition", "0", "--offset", "5"],
        ["consume", "t", "--json", "--key-separator", ":"],
        ["offsets", "t", "--time", "yesterday"],
        ["offsets", "t", "--time", "9223372036854775808"],
        ["groups", "reset-offsets", "g", "--topic", "t"],
        ["groups", "reset-offsets", "g", "--topic", "t", "--to-time", "9223372036854775808"],
        ["groups", "reset-offsets", "g", "--topic", "t", "--to-latest", "--to-earliest"],
        ["elect"],
        ["elect", "--preferred", "--unclean"],
        ["elect", "--preferred", "--partition", "0"],
        ["elect", "--preferred", "--topic", "t", "--partition", "2147483648"],
        ["reassign"],
        ["reassign", "t"],
        ["reassign", "t", "--replicas", "1,2"],
        ["reassign", "t", "--partition", "0", "--replicas", "one"],
        ["reassign", "t", "--partition", "0", "--replicas", "1,2147483648"],
        ["reassign", "t", "--partition", "0", "--replicas", "1", "--cancel"],
        ["reassign", "t", "--partition", "0", "--throttle", "5", "--list"],
        ["reassign", "--partition", "0", "--list"],
        ["reassign", "t", "--partition", "0", "--replicas", "1", "--watch"],
        ["quorum", "add", "--id", "4"],
        ["quorum", "add", "--id", "4", "--endpoint", "127.0.0.1:1"],
        ["quorum", "add", "--id", "4", "--endpoint", "CONTROLLER://nowhere"],
        ["quorum", "add", "--id", "4", "--endpoint", "C://h:1", "--directory-id", "short"],
        ["quorum", "remove"],
        ["quorum", "remove", "--id", "2147483648"],
        ["verify", "--replication-factor", "32768"],
        ["topics", "create", "caf\udce9"],
        ["up", "--data", "caf\udce9"],
        ["dump", "caf\udce9.log"],
        ["up", "--brokers", "100"],
        ["up", "--brokers", "0"],
        ["up", "--set", "novalue"],
        ["up", "--set", "log.dirs=/tmp"],
        ["up", "--set", "num.partition=2"],
        ["up", "--set", "retention.ms=2", "--detach"],
        ["up", "--set", "num.partitions=many"],
        ["up", "--port", "99999"],
        ["up", "--ui-port", "-1"],
        ["chaos", "kill", "one"],
        ["bench", "--acks", "2"],
        ["bench", "--records", "0"],
        ["page", "/dev/null"],
        ["export", "t"],
        ["export", "t", "s3a://bucket/t"],
        ["audit", "--data", ".", "--bootstrap", "127.0.0.1:1"],
        ["audit", "--bootstrap", "127.0.0.1"],
        ["audit", "--data", ".", "--command-config", "nothing.properties"],
        ["health", "--window", "0"],
        ["campaign", "--seeds", "some"],
        ["campaign", "--durability", "rf=many"],
    ],
    ids=lambda arguments: ascii(" ".join(arguments))[1:60],
)
def test_bad_usage_is_one_line_and_status_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("tidelog: ") and said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_properties_that_cannot_be_used_are_told_before_anything_begins(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("group.id=mine\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n")
    assert run(["export", "t", str(tmp_path / "d"), "--command-config", str(file)]) == 2
    assert f"{file}: sasl.mechanism='GSSAPI' is not supported: use PLAIN" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["topics", "describe"],
        ["produce", "t"],
        ["consume", "t"],
        ["offsets", "t"],
        ["groups", "list"],
        ["elect", "--preferred"],
        ["reassign", "--list"],
        ["reassign", "t", "--partition", "0", "--replicas", "1"],
        ["quorum", "describe"],
        ["quorum", "remove", "--id", "3"],
        ["configs", "describe", "--topic", "t"],
        ["down"],
        ["status"],
        ["chaos", "kill", "1"],
        ["dump", "nothing.log"],
        ["bench"],
        ["page", "nothing.jsonl"],
        ["export", "t", "d"],
        ["health"],
        ["audit", "--data", "nowhere"],
        ["audit", "--topic", "t"],
        ["export", "t", "d", "--command-config", "nothing.properties"],
        ["consume", "t", "--command-config", "nothing.properties"],
        ["demo", "--report", "."],
        ["demo", "--report", "nowhere/report.html"],
        ["pipeline", "run", "nothing.toml"],
        ["pipeline", "status", "nothing.toml"],
    ],
    ids=" ".join,
)
def test_what_fails_is_one_line_and_status_one(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 1
    said = capsys.readouterr()
    assert said.err.startswith("tidelog: ") and said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_refused_connection_on_this_machine_names_the_way_to_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["topics", "list"], ["audit"]):
        assert run(command) == 1
        # Of Spark, which would take seconds to start, no word.
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert said.endswith(
            "connection refused (`tidelog up` starts a cluster here, --bootstrap connects to another)\n"
        )


def test_a_port_in_use_is_one_line_before_anything_is_created(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["up", "--port", str(port)]) == 1
        assert run(["up", "--port", str(port), "--detach"]) == 1
        line = f"tidelog: port {port} is in use on 127.0.0.1: choose other ports with --port\n"
        assert capsys.readouterr().err == line * 2
        assert run(["up", "--brokers", "1", "--port", str(consecutive_ports(1)), "--ui-port", str(port)]) == 1
        said = capsys.readouterr().err
    assert said.startswith(f"tidelog: port {port} is in use on 127.0.0.1: --ui-port ") and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("detach", [[], ["--detach"]], ids=["foreground", "detached"])
def test_the_page_cannot_have_the_port_of_a_node(
    detach: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    port = consecutive_ports(3)
    assert run(["up", "--port", str(port), "--ui-port", str(port + 1), *detach]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"tidelog: port {port + 1} is already used by a node: --ui-port ") and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "does not describe a cluster: it is not JSON"),
        (b"\xff", "is not UTF-8"),
        (b"null", "does not describe a cluster: it is not a JSON object"),
        (b'{"version": 1}', "does not describe a cluster: a field is missing or has the wrong type"),
        (b'{"version": 99}', "does not describe a cluster: version 99 is unknown"),
    ],
)
def test_a_damaged_description_of_a_cluster_is_told_in_words(
    content: bytes, complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "cluster.json").write_bytes(content)
    for command in ("status", "down", "up"):
        assert run([command, "--data", str(tmp_path)]) == 1
        said = capsys.readouterr().err
        assert complaint in said and "Error" not in said and said.count("\n") == 1


def test_the_list_of_commands_has_whole_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "..." not in capsys.readouterr().out.split("Clusters and nodes:")[1]


def test_a_group_of_commands_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics"]) == 2
    assert "describe" in "".join(capsys.readouterr())


def test_importing_tidelog_and_asking_for_help_load_nothing_heavy() -> None:
    script = (
        "import sys, tidelog; assert 'typer' not in sys.modules;"
        "from tidelog.cli.app import run; run(['--help']);"
        "heavy = {'asyncio', 'rich.console', 'crc32c', 'cramjam', 'uvloop', 'tidelog.wire.codec'};"
        "sys.exit(sorted(heavy & set(sys.modules)) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_reader_that_has_seen_enough_ends_us_quietly() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "tidelog", "--help"],
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["topics", "--help"], ["--version"]], ids=" ".join)
def test_a_full_disk_under_our_output_is_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tidelog", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ended.returncode, ended.stderr) == (1, "tidelog: cannot write the output: No space left on device\n")


def test_a_terminal_without_our_letters_still_gets_help() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "tidelog", "topics", "create", "--help"]
    ended = subprocess.run(command, env=environment, capture_output=True, encoding="latin-1", check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "HOST:PORT[,\\u2026]" in ended.stdout


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"tidelog {version('tidelog')}\n"


def test_a_log_of_words_is_no_segment(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("[2026-01-01 00:00:00,000] INFO node 1 serves (tidelog.node)\n")
    assert run(["dump", str(tmp_path / "server.log")]) == 2
    assert "not a file of a log directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("random-uuid <&- >&-", 0, ""),
        ("random-uuid <&- >&- 2>&-", 0, ""),
        ("node --config nowhere >&-", 1, "nowhere"),
        ("dance <&- >&-", 2, "dance"),
    ],
)
def test_a_closed_standard_stream_is_no_traceback(line: str, status: int, words: str) -> None:
    script = f"{sys.executable} -m tidelog {line}"
    ended = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (status, "", 1 if words else 0), ended.stderr
    assert words in ended.stderr


def test_ctrl_c_during_an_import_is_no_traceback() -> None:
    script = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'tidelog.cli.app': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from tidelog.cli import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
