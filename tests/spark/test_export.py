"""A4: runs that are killed, runs that find nothing, and each record once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidelog.jobs.export.folder import BadFolder, Mode
from tidelog.jobs.export.job import RecordsLost, export
from tidelog.testing import Cluster

pytestmark = [pytest.mark.timeout(300)]

DAY_MS = 24 * 3600 * 1000
START_MS = 1_700_000_000_000


def write(bootstrap: str, topic: str, records: list[tuple[str, str | None, int]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value, day in records:
        producer.produce(topic, key=key, value=value, partition=0, timestamp=START_MS + day * DAY_MS)
    assert producer.flush(30) == 0


def test_by_day_and_each_record_once(
    spark: SparkSession, cluster: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, folder = topic(), tmp_path / "days"
    write(cluster.bootstrap, name, [("a", str(number), number % 2) for number in range(20)])
    assert export(spark, cluster.bootstrap, name, folder, text=True).records == 20
    # As a run leaves it that was killed before it committed.
    orphan = folder / "day=2023-11-14" / "part-orphan.parquet"
    orphan.write_bytes(next(folder.glob("day=2023-11-14/*.parquet")).read_bytes())
    write(cluster.bootstrap, name, [("b", str(number), 2) for number in range(20, 25)])
    done = export(spark, cluster.bootstrap, name, folder, text=True)
    assert (done.records, done.swept) == (5, 1)
    assert done.offsets is not None
    assert done.offsets[name]["0"] == {"offset": 25, "epoch": 0}
    rows = spark.read.parquet(str(folder)).collect()
    assert sorted(int(row.value) for row in rows) == list(range(25))
    assert {str(row.day) for row in rows} == {"2023-11-14", "2023-11-15", "2023-11-16"}
    assert {row.leaderEpoch for row in rows} == {0}
    with pytest.raises(BadFolder, match="another kind"):
        export(spark, cluster.bootstrap, "other", folder, text=True)


def test_the_latest_value_of_each_key(
    spark: SparkSession, cluster: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, folder = topic(), tmp_path / "latest"
    write(cluster.bootstrap, name, [("a", "1", 0), ("b", "1", 0), ("a", "2", 0), ("c", "1", 0)])

    def table() -> dict[str, str]:
        return {row.key: row.value for row in spark.read.parquet(str(folder / "current")).collect()}

    done = export(spark, cluster.bootstrap, name, folder, mode=Mode.LATEST, text=True)
    assert (done.records, done.rows) == (4, 3)
    assert table() == {"a": "2", "b": "1", "c": "1"}
    # Older by its clock, and newer by its offset.
    write(cluster.bootstrap, name, [("a", "3", -1), ("b", None, 0), ("d", "1", 0)])
    assert export(spark, cluster.bootstrap, name, folder, mode=Mode.LATEST, text=True).rows == 3
    assert table() == {"a": "3", "c": "1", "d": "1"}
    cluster.delete_topic(name)
    cluster.create_topic(name, partitions=1)
    with pytest.raises(RecordsLost, match=f"^{name}-0: offsets 0 to 6 were read and have been replaced.*recreated$"):
        export(spark, cluster.bootstrap, name, folder, mode=Mode.LATEST, text=True)
    # Who goes on all the same gets what is there now, whatever offsets the old records had.
    write(cluster.bootstrap, name, [("a", "anew", 0), ("c", None, 0)])
    export(spark, cluster.bootstrap, name, folder, mode=Mode.LATEST, text=True, fail_on_data_loss=False)
    assert table() == {"a": "anew", "d": "1"}
