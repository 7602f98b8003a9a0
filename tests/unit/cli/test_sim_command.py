"""`tidelog sim`: what it prints, when it fails, and the commands that show a failure again."""

import json
from collections.abc import Iterator
from itertools import takewhile

import pytest
from tests.unit.sim.outcomes import outcome_of

from tidelog.cli.app import run
from tidelog.metadata.image import ClusterImage
from tidelog.sim import campaign, runner
from tidelog.sim.campaign import Outcome, Settings, plan_of
from tidelog.sim.checks.failure import Failure
from tidelog.sim.checks.quorum import Quorum
from tidelog.sim.faults.plan import PlannedFault

BROKEN = Failure(
    invariant="LogMatching",
    statement="Two replicas agree.",
    what="orders-0: they do not",
    replicas=["orders-0 committed at 7", "  broker 1: LEO 3"],
    events=['{"event":"moved"}'],
)
BROKEN_QUORUM = "Quorum is broken: planted"
PLAN = [PlannedFault(number=number, at_s=float(number), kind="kill") for number in range(3)]


def plant(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invariant that breaks as soon as there is a topic."""

    def on_image(self: Quorum, node_id: int, image: ClusterImage) -> None:
        if image.topic("orders") is not None:
            raise self.broken("planted")

    monkeypatch.setattr(Quorum, "on_image", on_image)


def yields(monkeypatch: pytest.MonkeyPatch, *outcomes: Outcome) -> list[Settings]:
    """Those seeds come out; the answer fills with the settings they were run with."""
    asked: list[Settings] = []

    def run_seeds(seeds: range, settings: Settings, *, processes: int) -> Iterator[Outcome]:
        asked.append(settings)
        yield from outcomes

    monkeypatch.setattr(runner, "run_seeds", run_seeds)
    return asked


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--seeds", "5..4"], "the last seed is smaller than the first"),
        (["--seeds", "a..b"], "--seeds needs A..B"),
        (["--faults", "weather"], "'weather' is not one of all"),
        (["--faults", ","], "--faults needs at least one kind"),
        (["--intensity", "0"], "--intensity"),
        (["--only", "1"], "--only and --trace need --replay"),
        (["--trace", "x"], "--only and --trace need --replay"),
        (["--replay", "3", "--seeds", "0..9"], "give --seeds or --replay, not both"),
        (["--replay", "3", "--only", "9999"], "--only: seed 3 has the faults 0 to"),
        (["--replay", "3", "--only", "one"], "--only: seed 3 has the faults 0 to"),
        (["--minutes", "inf"], "--minutes"),
        (["--replay", "3", "--durability", "rf=1,min=1,acks=1", "--faults", "disk"], "cannot be used with --faults"),
        (["--replay", "3", "--durability", "rf=1,min=1,acks=1", "--minutes", "1"], "cannot be used with --minutes"),
        (["--replay", "3", "--durability", "rf=1,min=1,acks=1", "--intensity", "2"], "cannot be used with --intensity"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert why in said.err


def test_the_summary_counts_by_kind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    first = outcome_of(0, PLAN, kill=2, partition=1, elections=5, unclean=1, isr=6)
    yields(monkeypatch, first, outcome_of(1, PLAN, kill=3, elections=1))
    assert run(["sim", "--seeds", "0..1"]) == 0
    said = capsys.readouterr()
    rows = [line.split() for line in said.out.splitlines() if line]
    assert rows[:3] == [["FAULT", "TIMES"], ["kill", "5"], ["partition", "1"]]
    assert " ".join(rows[3]).endswith(" kinds of faults did not occur")
    assert " ".join(rows[-1]) == "no invariant broke in 2 seeds"
    counted = {" ".join(row[:-1]): row[-1] for row in rows[4:-1]}
    assert counted == {
        "TOTAL": "VALUE",
        "seeds": "2",
        "simulated seconds": "60",
        "faults": "6",
        "elections": "6",
        "unclean elections": "1",
        "ISR changes": "6",
        "truncations": "4",
        "snapshots written": "0",
        "snapshots fetched": "0",
        "acknowledged batches": "10",
        "records lost to unclean elections, at most": "0",
        "offset commits of groups": "2",
        "records read": "14",
    }
    assert run(["sim", "--seeds", "0..1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["faults"] == {"kill": 5, "partition": 1}
    assert (told["elections"], told["truncations"], told["failure"]) == (6, 4, None)


def test_a_kind_that_never_happened_in_a_hundred_seeds_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    yields(monkeypatch, *(outcome_of(seed, PLAN, clock_jump=1, clock_skew=1) for seed in range(100)))
    assert run(["sim", "--faults", "time"]) == 1
    assert "never happened in 100 seeds: clock_drift" in capsys.readouterr().err


def test_a_failure_prints_all_that_is_known_and_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    yields(monkeypatch, outcome_of(3, PLAN), outcome_of(4, PLAN, BROKEN, kill=3), outcome_of(5, PLAN))
    monkeypatch.setattr(runner, "shrink", lambda failed, settings, on_try: (PLAN[1:2], failed))
    assert run(["sim", "--seeds", "3..5", "--minutes", "0.7", "--faults", "process,disk", "--intensity", "2.5"]) == 1
    said = capsys.readouterr()
    replay = "tidelog sim --replay 4 --minutes 0.7 --faults process,disk --intensity 2.5"
    lines = said.out.splitlines()
    assert ["seeds", "2"] in [line.split() for line in lines]
    assert not any("no invariant broke" in line for line in lines)
    assert lines[lines.index("LogMatching is broken: orders-0: they do not") :] == [
        "LogMatching is broken: orders-0: they do not",
        "  it says: Two replicas agree.",
        "orders-0 committed at 7",
        "  broker 1: LEO 3",
        "last events:",
        '  {"event":"moved"}',
        "faults left of 3:",
        "  1 at 1.000 s: kill",
        f"replay: {replay}",
        f"replay: {replay} --only 1",
    ]
    assert said.err == f"tidelog: LogMatching is broken: {replay}\n"
    assert run(["sim", "--seeds", "3..5", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failure"]["replay"] == "tidelog sim --replay 4 --only 1"
    assert run(["sim", "--seeds", "3..5", "--no-shrink", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["failure"]
    assert told.pop("replay") == "tidelog sim --replay 4"
    assert told.pop("seed") == 4
    assert Failure(**told) == BROKEN


def test_the_printed_command_shows_the_failure_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch)
    assert run(["sim", "--seeds", "5..9", "--intensity", "3", "--minutes", "0.02", "--processes", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    story = list(takewhile(lambda line: not line.startswith("faults left"), lines[lines.index(BROKEN_QUORUM) :]))
    assert any(line.startswith("node 1 (start 1)") for line in story) and '"event":' in story[-1]
    commands = [line.removeprefix("replay: ") for line in lines if line.startswith("replay: ")]
    assert commands[0] == "tidelog sim --replay 5 --minutes 0.02 --intensity 3"
    for command in commands:
        assert run(command.split()[1:]) == 1
        said = capsys.readouterr()
        again = said.out.splitlines()
        assert again[again.index(BROKEN_QUORUM) :][:2] == story[:2]
        assert again[-1] == f"replay: {command}"
        assert said.err == "tidelog: seed 5: Quorum is broken\n"


def test_a_failure_that_needs_no_fault_has_a_command_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    yields(monkeypatch, outcome_of(4, PLAN, BROKEN, kill=3))
    monkeypatch.setattr(runner, "run_seed", lambda seed, settings, *, plan: outcome_of(seed, plan, BROKEN))
    assert run(["sim", "--seeds", "4"]) == 1
    assert "replay: tidelog sim --replay 4 --only ''" in capsys.readouterr().out.splitlines()


def test_only_leaves_the_faults_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, list[PlannedFault] | None, float]] = []

    def run_seed(seed: int, settings: Settings, *, plan: list[PlannedFault] | None, sink: object) -> Outcome:
        asked.append((seed, plan, settings.intensity))
        return outcome_of(seed, plan or [])

    monkeypatch.setattr(campaign, "run_seed", run_seed)
    assert run(["sim", "--replay", "3", "--only", "4, 1", "--intensity", "2"]) == 0
    assert run(["sim", "--replay", "3"]) == 0
    planned = plan_of(3, Settings(intensity=2.0))
    assert asked == [(3, [planned[1], planned[4]], 2.0), (3, None, 1.0)]


def test_twice_the_intensity_is_twice_as_many_faults() -> None:
    once, twice = (plan_of(3, Settings(seconds=500, intensity=factor)) for factor in (1.0, 2.0))
    struck = [sum(not fault.spare for fault in plan) for plan in (once, twice)]
    assert 1.8 < struck[1] / struck[0] < 2.2
