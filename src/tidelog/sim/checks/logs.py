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

    def on_partition(self, look: PartitionLook) -> None:
        super().on_partition(look)
        for replica in look.replicas:
            # One that is gone may have died in the middle of a truncation.
            if replica.alive and (wrong := replica.mirror.wrong_end()) is not None:
                raise self.broken(f"{replica.name}: {wrong}")


class Idempotence(_LogInvariant):
    """Each (producer, epoch, sequence) at most once and in order, across failover and restart, within
    producer.id.expiration.ms; sequences wrap after 2^31 - 1.
    """

    number = 14
