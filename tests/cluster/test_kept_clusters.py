"""Where the clusters of failed tests are kept: the directory that TIDELOG_CLUSTERS names, for a CI job to collect."""

from pathlib import Path

import pytest

from tidelog.testing import Cluster
from tidelog.testing.cluster import CLUSTERS_VARIABLE

pytest_plugins = ["pytester"]


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "of" / "clusters"
    monkeypatch.setenv(CLUSTERS_VARIABLE, str(folder))
    return folder


def test_only_a_cluster_of_a_failed_test_is_kept_there(pytester: pytest.Pytester, clusters: Path) -> None:
    pytester.makeini("[pytest]\ntidelog_shared_scope = module\n")
    pytester.makepyfile(
        test_passes="def test_passes(tidelog_shared_cluster): pass\n",
        test_fails="def test_fails(tidelog_shared_cluster): assert False\n",
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    (kept,) = clusters.iterdir()
    result.stdout.fnmatch_lines([f"*kept in {kept}*"])
    assert "listening on" in (kept / "node-1" / "console.log").read_text()
    # What a CI job collects are plain files: it could not read a socket.
    assert [path.name for path in kept.rglob("*") if not path.is_dir() and not path.is_file()] == []


def test_a_cluster_of_a_block_is_there_while_the_block_lasts(clusters: Path) -> None:
    with Cluster() as cluster:
        assert cluster.directory.parent == clusters
    assert list(clusters.iterdir()) == []
