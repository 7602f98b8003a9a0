"""The old bugs in tests/mutants can be brought back: each patch says what it is and fits the source as it is now."""

import re
import subprocess
from pathlib import Path

import pytest
from tools import mutants
from tools.mutants import Mutant, names_of

ROOT = Path(__file__).parent.parent.parent
PATCHES = sorted((ROOT / "tests" / "mutants").glob("*.patch"))
DOCUMENT = ROOT / "docs" / "internals" / "simulation.md"
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| (\d+) \| `(\w+)` \|$", re.MULTILINE)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_mutant_applies(patch: Path) -> None:
    head = patch.read_text().split("\n\n", 1)[0]
    fields = [line.split(": ", 1)[0] for line in head.splitlines()]
    assert fields[:3] == ["bug", "change", "expects"] and fields[3:] in ([], ["earlier"])
    assert Mutant.read(patch).name == patch.stem
    checked = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_the_documented_table_says_of_each_what_its_patch_says() -> None:
    by_name = {mutant.name: mutant for mutant in map(Mutant.read, PATCHES)}
    rows = ROW.findall(DOCUMENT.read_text())
    assert {row[:3] for row in rows} == {(mutant.name, mutant.bug, mutant.expects) for mutant in by_name.values()}
    for name, _, _, seeds, caught_by in rows:
        assert 1 <= int(seeds) <= 2000, name
        assert by_name[name].judge(caught_by) != "NO", name


def test_invariants_are_meant_by_number_or_name() -> None:
    assert names_of("10") == {"Epochs", "MetadataEpochs"}
    assert names_of("1, liveness") == {"LeaderCompleteness", "Liveness", "CutOffLeader"}
    assert names_of("GroupCommits, Unhandled") == {"GroupCommits", "Unhandled"}
    for wrong in ("0", "99", "Nothing", ""):
        with pytest.raises(ValueError, match="no invariant is"):
            names_of(wrong)


def write(path: Path, *header: str) -> Mutant:
    path.write_text("\n".join(["bug: own", "change: nothing", *header]) + "\n\n--- a\n+++ b\n")
    return Mutant.read(path)


def test_only_what_is_expected_counts(tmp_path: Path) -> None:
    mutant = write(tmp_path / "m.patch", "expects: 1, 5", "earlier: 2: it is seen in the ISR before")
    assert mutant.judge("LogMatching") == "yes"
    assert mutant.judge("CandidateCompleteness") == "earlier"
    assert mutant.judge("Liveness") == mutant.judge("Unhandled") == "NO"
    with pytest.raises(ValueError, match="the reason"):
        write(tmp_path / "m.patch", "expects: 1", "earlier: 2")
    with pytest.raises(ValueError, match="no invariant is '77'"):
        write(tmp_path / "m.patch", "expects: 77")


RUNNER = """
import time
from types import SimpleNamespace

class Totals:
    def add(self, outcome): ...
    def never_happened(self, settings): return []

def run_seeds(seeds, settings, *, processes):
    for seed in seeds:
        if seed == 7:
            time.sleep(3600)
        if seed == 27:
            raise KeyError("orders")
        failure = SimpleNamespace(invariant="LogMatching") if seed == 17 else None
        yield SimpleNamespace(seed=seed, failure=failure)
"""


def test_a_seed_that_hangs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "tidelog" / "sim"
    package.mkdir(parents=True)
    (package / "campaign.py").write_text("class Settings: ...")
    (package / "runner.py").write_text(RUNNER)
    for parent in (package, package.parent):
        (parent / "__init__.py").touch()
    assert mutants.run_seeds(tmp_path, range(12, 20), 1) == (17, "LogMatching")
    assert mutants.run_seeds(tmp_path, range(18, 20), 1) == (None, "")
    seed, what = mutants.run_seeds(tmp_path, range(25, 30), 1)
    assert seed is None and what.startswith("no answer: ") and what.endswith("KeyError: 'orders'")
    monkeypatch.setattr(mutants, "SEED_TIMEOUT_S", 3.0)
    assert mutants.run_seeds(tmp_path, range(5, 12), 1) == (7, mutants.HANGS)


def test_who_is_caught_by_luck_fails_and_the_clean_run_is_ten_times_the_slowest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    caught = {"kip_101": (6, "CandidateCompleteness"), "kip_841": (13, "Metadata")}
    clean: list[range] = []

    def run_seeds(source: Path, seeds: range, processes: int) -> tuple[int | None, str]:
        clean.append(seeds)
        return None, ""

    monkeypatch.setattr(mutants, "try_mutant", lambda mutant, seeds, processes: caught[mutant.name])
    monkeypatch.setattr(mutants, "run_seeds", run_seeds)
    monkeypatch.setattr("sys.argv", ["mutants.py", *caught])
    assert mutants.main() == 0
    rows = capsys.readouterr().out.splitlines()
    assert " earlier: " in rows[1] and rows[2].endswith(" yes")
    assert rows[3] == "without a mutant: no alarm in 140 seeds"
    assert clean == [range(140)]
    caught["kip_841"] = (13, "Liveness")
    assert mutants.main() == 1
    assert capsys.readouterr().out.splitlines()[2].endswith(" NO")
