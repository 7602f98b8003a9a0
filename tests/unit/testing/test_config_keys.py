"""A misspelt config key is refused where it is written. Brokers would ignore it, and the test would test less."""

from collections.abc import Mapping
from typing import Any

import pytest

from tidelog.testing import BadConfig, Cluster, ClusterError

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"min.insync.replica": "2"}, "unknown config key min.insync.replica: did you mean min.insync.replicas?"),
        ({"retention.ms": "2"}, "unknown config key retention.ms: it is a topic config; brokers take log.retention.ms"),
        ({"num.partitions": "many"}, "num.partitions=many: allowed: a whole number"),
        ({"node.id": "7"}, "node.id is set by the cluster itself"),
        ({"num.partitions": 4}, "num.partitions: a config value is text, '4' instead of 4"),
    ],
)
def test_a_config_that_no_broker_takes_is_refused_before_anything_starts(config: Mapping[str, Any], line: str) -> None:
    with pytest.raises(BadConfig) as refused:
        Cluster(config=config)
    assert str(refused.value).startswith(line)
    assert isinstance(refused.value, ClusterError) and isinstance(refused.value, ValueError)


@pytest.mark.parametrize("place", ["marker", "ini"])
def test_the_plugin_refuses_it_in_one_line(pytester: pytest.Pytester, place: str) -> None:
    pytester.makeini("[pytest]\ntidelog_config = num.partition = 4\n" if place == "ini" else "[pytest]\n")
    mark = "@pytest.mark.tidelog(config={'num.partition': '4'})" if place == "marker" else ""
    pytester.makepyfile(f"import pytest\n\n{mark}\ndef test_it(tidelog_cluster): ...\n")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    source = {"ini": "tidelog_config", "marker": "@pytest.mark.tidelog"}[place]
    result.stdout.fnmatch_lines([f"{source}: unknown config key num.partition: did you mean num.partitions?"])
    result.stdout.no_fnmatch_line("*Traceback*")
