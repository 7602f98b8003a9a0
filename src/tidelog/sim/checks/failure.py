"""What is told of a run in which something broke."""

from dataclasses import dataclass, field

from tidelog.sim.checks.invariant import InvariantBroken
from tidelog.sim.trace import Trace


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

    def lines(self) -> list[str]:
        told = [f"{self.invariant} is broken: {self.what}"]
        if self.statement:
            told.append(f"  it says: {self.statement}")
        return [*told, *self.replicas, "last events:", *(f"  {line}" for line in self.events)]
