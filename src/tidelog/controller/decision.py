"""What a decision is made from and what it returns."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidelog.controller.topic_configs import TopicDescriptions
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import Event
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.records import MetadataRecord

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything a decision may look at.

    `image` holds what was decided so far, committed or not. `config` is the node's with the image's dynamic values,
    `described` what it makes of a topic's overrides. `next_offset` is where the decision's first record will stand.
    `now_s` is monotonic.
    """

    image: ClusterImage
    config: NodeConfig
    described: TopicDescriptions
    rng: random.Random
    next_offset: int
    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[R]):
    """Records to append and what to answer once they are committed.

    `atomic` records share one batch; others may be cut into several. `events` are told after the commit.
    """

    response: R
    records: Sequence[MetadataRecord] = ()
    atomic: bool = True
    events: Sequence[Event] = field(default=())
