"""Invariants that clients see: `workloads` tell `watch` what they were told (6, and two beyond the list)."""

from tidelog.sim.checks.invariant import Invariant


class ConsistentRead(Invariant):
    """What a consumer once read at an offset never changes and never vanishes."""

    number = 6


class GroupCommits(Invariant):
    """An offset that a group has committed is never taken back."""


class ReadBack(Invariant):
    """Once faults are over, every value acknowledged with acks=all is read back where it was said to be, once if its
    producer is idempotent, and nothing is read that nobody wrote. (The names are those of live histories.)
    """
