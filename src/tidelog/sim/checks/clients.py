"""Invariants that clients see: `workloads` tell `watch` what they were told (6, and one of groups)."""

from tidelog.sim.checks.invariant import Invariant


class ConsistentRead(Invariant):
    """What a consumer once read at an offset never changes and never vanishes."""

    number = 6


class GroupCommits(Invariant):
    """An offset that a group has committed is never taken back."""
