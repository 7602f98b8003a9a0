"""The settings that elections of a topic's partitions go by, as far as the controller knows them."""

from collections.abc import Callable
from typing import Final

from tidelog.controller.elections import PartitionRules, elr_enabled
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.metadata.image import ClusterImage, TopicImage

# What elections look at; everything else a topic sets does not matter here.
_KEYS: Final = ("min.insync.replicas", "unclean.leader.election.enable")


def rules_for(image: ClusterImage, config: NodeConfig) -> Callable[[TopicImage], PartitionRules]:
    """Topics that set the same share one answer: 10,000 of them must not mean 10,000 configs to resolve.

    `config` is the node's with the image's dynamic values.
    """
    enabled = elr_enabled(image)
    known: dict[tuple[str | None, ...], PartitionRules] = {}

    def rules(topic: TopicImage) -> PartitionRules:
        overrides = image.topic_configs(topic.name)
        values = tuple(overrides.get(key) for key in _KEYS)
        if values not in known:
            relevant = {key: value for key, value in zip(_KEYS, values, strict=True) if value is not None}
            resolved = TopicConfig.resolve(config, relevant)
            known[values] = PartitionRules(
                elr_enabled=enabled,
                min_insync_replicas=resolved.min_insync_replicas,
                unclean_leader_election_enable=resolved.unclean_leader_election_enable,
            )
        return known[values]

    return rules
