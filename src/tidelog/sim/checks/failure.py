"""What is told of a run in which something broke."""

import re
from dataclasses import dataclass, field
from typing import Final

from tidelog.sim.checks.invariant import InvariantBroken
from tidelog.sim.checks.liveness import Liveness
from tidelog.sim.trace import Trace

UNHANDLED: Final = "Unhandled"
"""What no code caught, or caught and logged with its traceback."""
BROAD: Final = frozenset({Liveness.__name__, UNHANDLED})
"""Of these two failures with one name may have nothing in common."""
BEGINNING: Final = 40
"""So many characters tell what kind of failure it is; what follows is about values."""
# Nodes, offsets and addresses are others in another run of the same failure.
_NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Plain data: it crosses from one process to another."""

    invariant: str
    what: str
    statement: str = ""
    replicas: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, broken: InvariantBroken, replicas: list[str], trace: Trace) -> "Failure":
        return cls(
            invariant=broken.invariant,
            what=broken.what,
            statement=broken.statement,
            replicas=replicas,
            events=trace.last(),
        )

    def is_like(self, other: "Failure") -> bool:
        """Whether it is the same failure, as far as one can tell: where the name says little, also by what was seen."""
        if self.invariant != other.invariant:
            return False
        return self.invariant not in BROAD or _beginning(self.what) == _beginning(other.what)

    def lines(self) -> list[str]:
        told = [f"{self.invariant} is broken: {self.what}"]
        if self.statement:
            told.append(f"  it says: {self.statement}")
        return [*told, *self.replicas, "last events:", *(f"  {line}" for line in self.events)]


def _beginning(what: str) -> str:
    return _NUMBER.sub("#", what)[:BEGINNING]
