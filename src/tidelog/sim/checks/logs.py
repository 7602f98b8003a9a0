"""Invariants of single logs, found as their batches are read (13, 14)."""

from tidelog.sim.checks.invariant import Invariant
from tidelog.sim.checks.look import PartitionLook


class _LogInvariant(Invariant):
    def on_partition(self, look: PartitionLook) -> None:
        for replica in look.replicas:
            for problem in replica.mirror.problems:
                if problem.invariant == self.name():
                    raise self.broken(f"{replica.name}: {problem.what}")


class Offsets(_LogInvariant):
    """Offsets are dense (unless compacted) and unique, CRCs valid."""

    number = 13


class Idempotence(_LogInvariant):
    """Each (producer, epoch, sequence) at most once and in order, across failover and restart, within
    producer.id.expiration.ms; sequences wrap after 2^31 - 1.
    """

    number = 14
