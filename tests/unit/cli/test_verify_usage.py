"""`tidelog verify`: what it refuses, and histories judged again from their files."""

import json
import sys
from pathlib import Path

import pytest
from tests.unit.verify.small_history import history, log, sends

from tidelog.cli.app import run
from tidelog.verify import librdkafka
from tidelog.verify.history_file import write_history
from tidelog.verify.workload import VerifyError


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--seconds", "0"], "--seconds"),
        (["--faults", "meteor", "--data", "."], "'meteor' is not one of kill-leader"),
        (["--faults", "pause"], "--faults needs --data"),
        (["--acks", "0"], "--acks is all or 1"),
        (["--acks", "1", "--idempotence"], "--idempotence needs --acks all"),
        (["--rounds", "5"], "--rounds and --hold need --faults"),
        (["--hold", "1..2", "--data", "."], "--rounds and --hold need --faults"),
        (["--hold", "long"], "--hold needs seconds"),
        (["--hold", "5..1"], "--hold needs a range"),
        (["--bootstrap", "nowhere"], "is not HOST:PORT"),
        (["--partitions", "0"], "--partitions"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("tidelog: ") and said.err.count("\n") == 1
    assert why in said.err


def test_without_librdkafka_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(VerifyError, match=r"pip install 'tidelog\[test\]'"):
        librdkafka.load()


def test_a_history_is_judged_again_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    write_history(history([sends(0, 0, 1)], log("0:0", "0:1")), path)
    check = ["verify", "--check", str(path)]
    assert run([*check, "--min-acknowledged", "2"]) == 0
    assert capsys.readouterr().out.endswith("verdict: ok\n")
    assert run(check) == 1
    said = capsys.readouterr()
    assert said.out.endswith("verdict: inconclusive\n")
    assert said.err == "tidelog: verify inconclusive: 2 acknowledged records, fewer than 1000\n"

    write_history(history([sends(0, 0, 1)], log("0:0")), path)
    assert run(check) == 1
    said = capsys.readouterr()
    assert "0:1 was acknowledged at offset 1 and is not in the log\n" in said.out
    assert said.err == "tidelog: verify failed: lost-write: 1\n"
    assert run([*check, "--json"]) == 1
    judged = json.loads(capsys.readouterr().out)
    assert judged["verdict"] == "failed"
    assert judged["checks"]["lost-write"]["first"][0]["values"] == ["0:1"]


def test_what_is_no_history_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "--check", str(tmp_path / "nothing")]) == 1
    assert "cannot read" in capsys.readouterr().err
    (tmp_path / "words").write_text("hello\n")
    assert run(["verify", "--check", str(tmp_path / "words")]) == 1
    said = capsys.readouterr().err
    assert "line 1: not a line of a history file (Expecting value: line 1 column 1" in said
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert run(["verify", "--check", str(tmp_path / "bytes")]) == 1
    assert "line 1: not a line of a history" in capsys.readouterr().err
    write_history(history([sends(0, 0, 1)], log("0:0", "0:1")), tmp_path / "more")
    whole = (tmp_path / "more").read_text()
    for line in ("5", "[]", "[" * 100_000, '{"type": "sends"}'):
        (tmp_path / "more").write_text(f"{whole.splitlines()[0]}\n{line}\n")
        assert run(["verify", "--check", str(tmp_path / "more")]) == 1
        assert "line 2: not a line of a history" in capsys.readouterr().err
