"""The examples do what their READMEs say. tests/unit/jobs checks their files in every run."""

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.soak import full_length
from tests.spark.test_pipeline import Pipelines

from tidelog.testing import Cluster

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not full_length(), reason="half a minute for what other tests show in part: make soak"),
    pytest.mark.timeout(300),
]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def shown(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Callable[[str], list[str]]:
    """What an example shows at its end; run in the session of the tests, in a copy of its directory."""

    def run(name: str) -> list[str]:
        module = importlib.import_module(f"examples.{name}.__main__")
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
        module.write(cluster.bootstrap)
        Pipelines(spark, cluster.bootstrap, folder).run((folder / "pipeline.toml").read_text())
        lines: list[str] = module.show(folder, cluster.bootstrap)
        return lines

    return run


def test_clickstream(shown: Callable[[str], list[str]]) -> None:
    lines = shown("clickstream")
    windows = [line.split() for line in lines[1 : lines.index("")]]
    begins = [each for each in ("12:00", "12:10", "12:20", "12:30") for _ in range(3)]
    assert [window for window, *_ in windows] == begins
    clicks = sum(int(count) for *_, count in windows)
    # A click every two seconds for forty minutes, less three that were none, and fifteen that came five minutes late;
    # none of the four that came forty minutes late.
    assert clicks == 1200 - 3 + 15
    assert [line.rpartition("  ")[0].strip() for line in lines[-3:]] == [
        "the value does not fit its schema: at timestamp",
        "the value has no page",
        "the value is not one JSON object",
    ]


def test_latest_values(shown: Callable[[str], list[str]]) -> None:
    rows = [line.split() for line in shown("latest_values")[1:]]
    assert [row[0] for row in rows] == ["0", "1", "2", "4", "5", "6", "7"]
    assert rows[4][:4] == ["5", "customer", "5", "Quito"]


def test_enrichment(shown: Callable[[str], list[str]]) -> None:
    title, _, *rows = shown("enrichment")
    assert title.startswith("200 payments on topic enriched, ")
    assert all(row.endswith(("unknown payer", "large and abroad")) for row in rows)
