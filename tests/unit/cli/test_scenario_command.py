"""`tidelog scenario`: stories for people, one step at a time if they ask for it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.cli.app import run

SHORT = """# Two replicas (W1).
world replication brokers=1,2
rules: W1

topic orders replicas=1,2
----
{told}
# The leader writes (P3, W1).
produce 1 orders-0 a acks=1
----
"""


def lines(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    captured = capsys.readouterr()
    return captured.out.splitlines(), captured.err.splitlines()


def test_list_names_every_story_and_what_it_tells(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "list"]) == 0
    out, _ = lines(capsys)
    assert out[0].split() == ["STORY", "STEPS", "SUMMARY"]
    assert any(line.startswith("quorum/election ") and "elect a leader" in line for line in out)
    assert run(["scenario", "list", "--json"]) == 0
    stories = json.loads(capsys.readouterr().out)
    assert [story["story"] for story in stories] == [line.split()[0] for line in out[1:]]
    assert all(story["rules"] and story["about"] for story in stories)


def test_a_story_is_told_step_by_step_with_replicas_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "run", "kip_101"]) == 0
    out, err = lines(capsys)
    assert not err
    assert [line.split(" -")[0] for line in out if line.startswith("--- ")] == [
        f"--- step {number} of 6" for number in range(1, 7)
    ]
    at = out.index("> kill 1")
    assert "  2: leads orders-0 in epoch 1 from offset 2" in out[at:]
    assert "NODE  ROLE       EPOCH  LEO  HW  ISR  EPOCHS   LOG  0      1" in out[at:]
    assert "* 2   leads      1      2    1   2,3  0:0,1:2       @0 a | b" in out[at:]
    assert "E4   A new leader truncates nothing: its epoch begins at the end of its log." in out[at:]
    assert "\x1b" not in "".join(out)


def test_a_story_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "run", "quorum/election", "--json"]) == 0
    story = json.loads(capsys.readouterr().out)
    assert story["length"] == len(story["steps"]) == 16
    last = story["steps"][-1]
    assert last["commands"] == ["state"]
    [log] = last["logs"]
    assert [replica["copy"]["log_end_offset"] for replica in log["replicas"]] == [2, 2, 2]
    assert [replica["leads"] for replica in log["replicas"]] == [True, False, False]
    assert story["steps"][2]["rules"].keys() == {"Q2"}


def test_a_file_of_ones_own_needs_no_results_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(SHORT.format(told=""))
    assert run(["scenario", "run", str(path)]) == 0
    out, _ = lines(capsys)
    assert "* 1 leads 0 1 +1 0 1,2 0:0 | @0 a" in [" ".join(line.split()) for line in out]
    assert [line[:2] for line in out[-4:] if line[0] != " "] == ["P3", "W1"]


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("kip_102", 1, "did you mean replication/kip_101"),
        ("quorum/elction", 1, "did you mean quorum/election or"),
        ("zzz", 1, "see `tidelog scenario list`"),
        ("/", 1, "cannot read /: Is a directory"),
    ],
)
def test_a_story_that_is_not_there(name: str, status: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "run", name]) == status
    out, err = lines(capsys)
    assert not out
    assert len(err) == 1 and told in err[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello\n", "line 1: the first line must name the world"),
        ("world moon\nx\n----\n", "line 1: world: unknown world moon; the worlds are: quorum, replication"),
        ("world quorum seed=x\nstart\n----\n", "in line 1: ValueError"),
        ("world quorum\ndance\n----\n", "line 2: dance: unknown command"),
        ("world quorum\ncut 9\n----\n", "line 2: cut: node 9 does not exist"),
        ("world replication\ntopic t\n----\n", "in line 2: topic t: KeyError: 'replicas'"),
        (SHORT.format(told="something else\n"), "the result of step 1 differs from the file"),
        ("\udcff", "codec can't decode"),
    ],
)
def test_a_file_that_makes_no_sense(text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert run(["scenario", "run", str(path)]) == 1
    _, err = lines(capsys)
    assert len(err) == 1
    assert err[0].startswith(f"tidelog: {path}: ") and told in err[0]


def test_an_invariant_that_breaks_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tidelog.sim.scenario.library import DIRECTORY

    path = tmp_path / "lost.txt"
    text = (DIRECTORY / "replication" / "unclean_election.txt").read_text(encoding="utf-8")
    path.write_text(text.replace(" loss=expected", ""), encoding="utf-8")
    assert run(["scenario", "run", str(path)]) == 1
    out, err = lines(capsys)
    assert any(line.startswith("--- step 1") for line in out)
    assert len(err) == 1 and "InvariantBroken" in err[0] and "lost 101 at 101" in err[0]


def test_without_a_terminal_step_runs_through(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "run", "acks_1", "--step"]) == 0
    out, _ = lines(capsys)
    assert sum(line.startswith("--- step") for line in out) == 4
    assert "Enter" not in "".join(out)


class Terminal:
    """The command at a terminal of its own."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        base = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidelog", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**base, "TERM": "xterm", **environment},
        )
        os.close(theirs)
        self.text = ""

    def until(self, wanted: str) -> str:
        """What it shows up to and with that; the rest waits for the next call."""
        while wanted not in self.text:
            found = os.read(self._ours, 65536)
            assert found, self.text
            self.text += found.decode()
        shown, _, self.text = self.text.partition(wanted)
        return shown + wanted

    def press(self, key: bytes) -> None:
        os.write(self._ours, key)

    def end(self) -> tuple[int, str]:
        """Its status, and what it still said."""
        while True:
            try:
                found = os.read(self._ours, 65536)
            except OSError:
                # Nobody has the other side open any more.
                break
            if not found:
                break
            self.text += found.decode()
        os.close(self._ours)
        return self.process.wait(), self.text


PROMPT = "Enter: next step, q: quit --"


def test_at_a_terminal_a_key_leads_to_the_next_step_and_q_ends_it() -> None:
    terminal = Terminal("scenario", "run", "kip_101", "--step")
    assert "step 1" not in terminal.until(PROMPT)
    # Keys that mean nothing do nothing.
    terminal.press(b"x")
    terminal.press(b"\n")
    first = terminal.until(PROMPT)
    assert "step 1 of 6" in first and "step 2" not in first
    assert "\x1b[1;32m* 1\x1b[0m" in first
    terminal.press(b"\n")
    second = terminal.until(PROMPT)
    assert "step 2 of 6" in second and "step 3" not in second
    terminal.press(b"q")
    status, rest = terminal.end()
    assert status == 0
    assert "step" not in rest


def test_at_a_terminal_the_whole_story_can_be_walked_through() -> None:
    terminal = Terminal("scenario", "run", "acks_1", "--step")
    for _ in range(4):
        terminal.until(PROMPT)
        terminal.press(b"\n")
    status, rest = terminal.end()
    assert status == 0
    assert "step 4 of 4" in rest


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_are_for_terminals_that_have_them(environment: dict[str, str], coloured: bool) -> None:
    status, shown = Terminal("scenario", "run", "acks_1", **environment).end()
    assert status == 0
    assert "step 4 of 4" in shown
    assert ("\x1b[" in shown) is coloured
