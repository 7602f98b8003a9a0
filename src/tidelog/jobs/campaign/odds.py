"""From verdicts to odds: pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Final, NamedTuple

Z_95: Final = 1.959964
"""Of the normal distribution, for intervals that hold the truth 19 times out of 20."""


class Odds(NamedTuple):
    """So many of so many, and the interval (Wilson) in which the true share lies, 95 % sure."""

    times: int
    of: int

    @property
    def share(self) -> float:
        return self.times / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        if not self.of:
            return 0.0, 1.0
        n, p, z2 = self.of, self.share, Z_95**2
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = Z_95 * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        # At the ends the formula is exact but for rounding.
        low = 0.0 if self.times == 0 else max(0.0, middle - half)
        high = 1.0 if self.times == self.of else min(1.0, middle + half)
        return low, high

    def words(self) -> str:
        if not self.of:
            return "no run"
        low, high = self.interval
        return f"{100 * self.share:.1f} % ({100 * low:.1f}–{100 * high:.1f})"

    def as_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {"times": self.times, "of": self.of, "share": self.share, "low": low, "high": high}


class Run(NamedTuple):
    """One verdict, as a task tells it: plain columns."""

    seed: int
    configuration: str
    failing: int
    incident: str
    acknowledged: int
    lost: int
    example: str
    outage_s: float
    unavailable: bool
    unclean_elections: int
    seconds: float
    broken: str


@dataclass(slots=True)
class Tally:
    """Of one configuration."""

    configuration: str
    runs: list[Run] = field(default_factory=list)

    def loss(self, failing: int | None = None) -> Odds:
        chosen = self._of(failing)
        return Odds(sum(run.lost > 0 for run in chosen), len(chosen))

    def unavailability(self, failing: int | None = None) -> Odds:
        chosen = self._of(failing)
        return Odds(sum(run.unavailable for run in chosen), len(chosen))

    @property
    def acknowledged(self) -> int:
        return sum(run.acknowledged for run in self.runs)

    @property
    def lost(self) -> int:
        return sum(run.lost for run in self.runs)

    @property
    def counter_examples(self) -> list[Run]:
        return sorted((run for run in self.runs if run.lost), key=lambda run: run.seed)

    @property
    def unavailable_seeds(self) -> list[int]:
        return sorted(run.seed for run in self._of(None) if run.unavailable)

    @property
    def broken(self) -> list[Run]:
        return [run for run in self.runs if run.broken]

    def _of(self, failing: int | None) -> list[Run]:
        return [run for run in self.runs if not run.broken and failing in (None, run.failing)]

    def as_dict(self) -> dict[str, Any]:
        return {
            "configuration": self.configuration,
            "runs": len(self.runs),
            "acknowledged": self.acknowledged,
            "lost": self.lost,
            "loss": self.loss().as_dict() | {str(n): self.loss(n).as_dict() for n in FAILING},
            "unavailability": self.unavailability().as_dict()
            | {str(n): self.unavailability(n).as_dict() for n in FAILING},
            "unavailable_seeds": self.unavailable_seeds,
            "counter_examples": [
                run._asdict() | {"replay": replay(run)} for run in (*self.counter_examples, *self.broken)
            ],
        }


FAILING: Final = (1, 2, 3)


def tallies(configurations: Sequence[str], runs: Iterable[Run]) -> list[Tally]:
    """In the order the configurations were given in."""
    by_name = {name: Tally(name) for name in configurations}
    for run in runs:
        by_name[run.configuration].runs.append(run)
    return list(by_name.values())


def replay(run: Run) -> str:
    """The command that shows it again."""
    return f"tidelog sim --replay {run.seed} --durability {run.configuration}"
