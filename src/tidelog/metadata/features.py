"""Features and their levels: what a cluster has finalized and what this version supports.

Levels are Kafka's, so that its tools can read our logs; `metadata.version` 30 is 4.3-IV0.
"""

from typing import Final

from tidelog.metadata.image import VersionRange
from tidelog.metadata.records import FeatureLevelRecord

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"

# A feature stands here when it works: a client that reads a level acts on it. The lower bound of metadata.version is
# the oldest level of Kafka 4.x.
SUPPORTED_FEATURES: Final[dict[str, VersionRange]] = {
    ELR_VERSION: VersionRange(0, 1),
    KRAFT_VERSION: VersionRange(0, 1),
    METADATA_VERSION: VersionRange(7, 30),
}

# What a newly formatted cluster starts with. `kraft.version` is the quorum's own and stands in its control records.
BOOTSTRAP_LEVELS: Final[dict[str, int]] = {METADATA_VERSION: 30, ELR_VERSION: 1}


def bootstrap_records() -> list[FeatureLevelRecord]:
    """The first records of a cluster, in the order Kafka formats them."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in BOOTSTRAP_LEVELS.items()]
