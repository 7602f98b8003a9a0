"""Who leads a partition (rule C3).

the leader stays            if acceptable and in the ISR
else the first in order of  the ISR, and when that is empty the ELR
else, both empty            the last known leader alone, once acceptable: an unclean election, whatever the config
else                        any acceptable replica, if unclean elections are allowed
else                        nobody (-1)

A preferred election (C7) asks for the first replica before it asks whether the leader can stay.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tidelog.core.ids import NO_LEADER
from tidelog.metadata.features import ELR_VERSION
from tidelog.metadata.image import ClusterImage

Acceptable = Callable[[int], bool]


class Election(Enum):
    """How far an election may go."""

    ONLINE = "from the ISR or the ELR"
    PREFERRED = "from the ISR or the ELR, the preferred replica first"
    UNCLEAN = "from all replicas, if no complete replica is alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """What of the cluster's settings an election depends on."""

    elr_enabled: bool
    min_insync_replicas: int
    unclean_leader_election_enable: bool

    @property
    def election(self) -> Election:
        """How far elections go that nobody asked for."""
        return Election.UNCLEAN if self.unclean_leader_election_enable else Election.ONLINE

    def effective_min_isr(self, replicas: tuple[int, ...]) -> int:
        return min(self.min_insync_replicas, len(replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Whom a leader is chosen from: the ISR and ELR are those that are meant to be."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Elected:
    """`unclean`: records acknowledged earlier may be missing there."""

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False


def elect(candidates: Candidates, election: Election, acceptable: Acceptable, *, elr_enabled: bool) -> Elected:
    """The leader, and the ISR it leads."""
    isr = candidates.isr
    complete = isr or (candidates.elr if elr_enabled else ())
    valid = [replica for replica in candidates.replicas if replica in complete and acceptable(replica)]
    if valid:
        leader = valid[0]
        preferred = election is Election.PREFERRED and leader == candidates.replicas[0]
        if not preferred and candidates.leader in valid:
            leader = candidates.leader
        return Elected(leader, isr or (leader,))
    if elr_enabled and not complete and len(candidates.last_known_elr) == 1:
        leader = candidates.last_known_elr[0]
        if leader in candidates.replicas and acceptable(leader):
            return Elected(leader, (leader,), unclean=True)
    if election is Election.UNCLEAN:
        anybody = [replica for replica in candidates.replicas if acceptable(replica)]
        if anybody:
            return Elected(anybody[0], (anybody[0],), unclean=True)
    return Elected(NO_LEADER, isr)


def elr_enabled(image: ClusterImage) -> bool:
    return image.features.get(ELR_VERSION, 0) >= 1
