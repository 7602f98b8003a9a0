"""A3: runs spread over executors say what a run here says."""

import pytest
from pyspark.sql import SparkSession

from tidelog.jobs.campaign.job import campaign, row
from tidelog.sim.durability import Durability, run

pytestmark = [pytest.mark.timeout(300)]


def test_verdicts_of_executors(spark: SparkSession) -> None:
    alone, replicated = Durability.parse("rf=1,min=1,acks=1"), Durability()
    found = campaign(spark, [0, 1], [alone, replicated])
    assert [(each.configuration, sorted(one.seed for one in each.runs)) for each in found] == [
        ("rf=1,min=1,acks=1", [0, 1]),
        ("rf=3,min=2,acks=all", [0, 1]),
    ]
    assert sorted(found[0].runs) == [row(run(seed, alone)) for seed in (0, 1)]
    assert found[1].loss().times == 0
