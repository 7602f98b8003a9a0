"""Clusters for other people's test suites: real processes, real sockets, free ports, temporary data.

    from tidelog.testing import Cluster

    with Cluster() as cluster:
        producer = SomeKafkaClient(bootstrap=cluster.bootstrap)

Stands on `cluster` and `client`; the pytest plugin is in `plugin`. Names are imported when they are asked for: every
pytest run where Tidelog is installed loads the plugin, and with it this file.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.cluster.errors import BadConfig, ClusterError
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.witnesses import ReplicaView

__all__ = ["BadConfig", "Cluster", "ClusterError", "ReplicaView"]

_HOMES = {
    "BadConfig": "tidelog.cluster.errors",
    "Cluster": "tidelog.testing.cluster",
    "ClusterError": "tidelog.cluster.errors",
    "ReplicaView": "tidelog.testing.witnesses",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
