"""Snapshots of the metadata are told of and read back, from whoever writes or fetches them."""

import json
from typing import Any

from tidelog.metadata.compare import compare
from tidelog.metadata.image import ClusterImage
from tidelog.sim.campaign import SNAPSHOTS
from tidelog.sim.cluster import SimCluster
from tidelog.sim.trace import Trace
from tidelog.sim.witness import SnapshotWitness


def test_every_snapshot_is_read_and_one_who_was_away_fetches_it() -> None:
    with SimCluster(3, seed=3, properties={**SNAPSHOTS[-1], "metadata.max.idle.interval.ms": "20"}) as cluster:
        lines: list[dict[str, Any]] = []
        read: list[tuple[int, ClusterImage]] = []
        published: dict[int, ClusterImage] = {}
        trace = Trace(cluster.loop, lambda: 0, lambda line: lines.append(json.loads(line)))
        SnapshotWitness(cluster, trace, lambda node_id, image: read.append((node_id, image)))
        cluster.on_metadata = lambda node_id, image, delta: published.update({image.provenance.offset: image})
        cluster.run(cluster.start_all())
        cluster.kill(3)
        cluster.run_for(3.0)
        assert {line["event"] for line in lines} == {"snapshot_written"}
        cluster.run(cluster.start(3))
        cluster.run_for(0.5)
        assert 3 in {line["node"] for line in lines if line["event"] == "snapshot_fetched"}
        assert [(line["node"], line["end_offset"]) for line in lines] == [
            (node_id, image.provenance.offset + 1) for node_id, image in read
        ]
        for _, image in read:
            assert compare(published[image.provenance.offset], image).is_empty
