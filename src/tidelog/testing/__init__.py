"""Clusters for other people's test suites: real processes, real sockets, free ports, temporary data.

    from tidelog.testing import Cluster

    with Cluster() as cluster:
        producer = SomeKafkaClient(bootstrap=cluster.bootstrap)

Stands on `cluster` and `client`; the pytest plugin is in `plugin`.
"""

from tidelog.cluster.errors import ClusterError
from tidelog.testing.cluster import Cluster
from tidelog.testing.witnesses import ReplicaView

__all__ = ["Cluster", "ClusterError", "ReplicaView"]
