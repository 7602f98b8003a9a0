"""`.write.format("tidelog")` and `.writeStream.format("tidelog")` on a real Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidelog.client.partitioner import partition_for_key
from tidelog.testing import Cluster

pytestmark = [pytest.mark.timeout(300)]


def read(spark: SparkSession, cluster: Cluster, topic: str) -> DataFrame:
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.option("subscribe", topic).option("includeHeaders", "true").load()


def write(frame: DataFrame, cluster: Cluster, **options: str) -> None:
    writer = frame.write.format("tidelog").mode("append").option("kafka.bootstrap.servers", cluster.bootstrap)
    writer.options(**options).save()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_rows_go_where_their_keys_belong(
    spark: SparkSession, cluster: Cluster, topic: Callable[..., str], codec: str
) -> None:
    name = topic(3)
    rows = spark.range(5000).selectExpr("concat('key-', id) as key", "concat('value-', id) as value")
    write(rows, cluster, topic=name, **{"kafka.compression.type": codec, "kafka.batch.size": "4000"})
    found = read(spark, cluster, name).collect()
    assert sorted(bytes(row.value) for row in found) == sorted(b"value-%d" % number for number in range(5000))
    assert all(row.partition == partition_for_key(bytes(row.key), 3) for row in found)
    assert all(row.headers is None for row in found)


def test_a_row_says_topic_partition_and_headers(
    spark: SparkSession, cluster: Cluster, topic: Callable[..., str]
) -> None:
    first, second = topic(2), topic(2)
    frame = spark.sql(
        f"select '{first}' as topic, 1 as partition, cast(null as binary) as key, cast('a' as binary) as value, "
        "array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers "
        f"union all select '{second}', 0, cast('k' as binary), cast(null as binary), null"
    )
    write(frame, cluster)
    [one] = read(spark, cluster, first).collect()
    assert (one.partition, one.key, bytes(one.value)) == (1, None, b"a")
    assert [(each.key, bytes(each.value)) for each in one.headers] == [("h", b"x")]
    [two] = read(spark, cluster, second).collect()
    assert (two.partition, bytes(two.key), two.value, two.headers) == (0, b"k", None, None)


def test_rows_without_a_key_are_spread(spark: SparkSession, cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic(3)
    rows = spark.range(0, 3000, numPartitions=2).selectExpr("repeat('x', 100) as value")
    write(rows, cluster, topic=name, **{"kafka.batch.size": "10000"})
    counts = {row.partition: row["count"] for row in read(spark, cluster, name).groupBy("partition").count().collect()}
    assert sum(counts.values()) == 3000
    assert len(counts) == 3


def test_a_batch_larger_than_the_topic_takes_is_split(
    spark: SparkSession, cluster: Cluster, topic: Callable[..., str]
) -> None:
    name = topic(1, max_message_bytes="2000")
    write(spark.range(200).selectExpr("repeat('x', 100) as value"), cluster, topic=name)
    assert read(spark, cluster, name).count() == 200
    with pytest.raises(PySparkException, match=r"max\.message\.bytes is 2000"):
        write(spark.range(1).selectExpr("repeat('x', 5000) as value"), cluster, topic=name)


def test_what_cannot_be_written_is_said(spark: SparkSession, cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic(2)
    with pytest.raises(PySparkException, match="for partition 7 of"):
        write(spark.sql("select 'a' as value, 7 as partition"), cluster, topic=name)
    with pytest.raises(PySparkException, match="a row has no topic"):
        write(spark.sql("select 'a' as value, cast(null as string) as topic"), cluster)
    with pytest.raises(PySparkException, match="no column value"):
        write(spark.sql("select 'a' as key"), cluster, topic=name)


def test_from_topic_to_topic(spark: SparkSession, cluster: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    source, target = topic(2), topic(2)
    write(spark.range(100).selectExpr("cast(id as string) as key", "concat('v', id) as value"), cluster, topic=source)
    frame = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        frame.selectExpr("key", "upper(cast(value as string)) as value")
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = read(spark, cluster, target).collect()
    assert sorted(bytes(row.value) for row in found) == sorted(b"V%d" % number for number in range(100))
